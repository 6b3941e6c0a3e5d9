"""Pages of GPU exporters to canonical readings: units, blanks, several GPUs, MIG, labels that come and go."""

from pathlib import Path

import pytest

from server_adapters.base import CollectionError
from server_adapters.gpu_exporters import read_gpu_page
from server_adapters.telemetry import TELEMETRY, Look

DATA = Path(__file__).resolve().parents[1] / "data" / "telemetry"
MIB = 2**20
UUID = "604ac76c-d9cf-fef3-62e9-d92044ab6e52"


def values(look: Look) -> dict[tuple[str, str, str | None], float]:
    found = {(r.name, r.device, r.instance): r.value for r in look.readings}
    assert len(found) == len(look.readings)
    return found


def test_recorded_page_of_dcgm_exporter() -> None:
    """MiB become bytes; DCGM's blank (9223372036854775794) is no value."""
    look = read_gpu_page((DATA / "dcgm.txt").read_text())
    assert look.source == "dcgm-exporter"
    assert values(look) == {
        ("memory_used_bytes", UUID, None): 71234 * MIB,
        ("memory_reserved_bytes", UUID, None): 512 * MIB,
    }
    assert look.absent["dram_active_ratio"].startswith("dcgm-exporter does not export DCGM_FI_PROF_DRAM_ACTIVE")
    assert look.absent["power_watts"] == "not on the page of dcgm-exporter"


def test_recorded_page_of_nvidia_gpu_exporter() -> None:
    look = read_gpu_page((DATA / "nvidia_gpu_exporter.txt").read_text())
    device = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
    assert values(look) == {
        ("memory_used_bytes", device, None): 706740224.0,
        ("utilization_ratio", device, None): 0.42,
    }
    assert "bandwidth" in look.absent["dram_active_ratio"]


def test_recorded_page_of_amds_exporter() -> None:
    look = read_gpu_page((DATA / "amd.txt").read_text())
    assert values(look) == {("memory_used_bytes", "xxxx/0", None): 65536 * MIB}
    assert look.source == "AMD device-metrics-exporter"


def test_units_of_every_family_of_dcgm() -> None:
    page = "\n".join(
        f'{name}{{gpu="0",UUID="GPU-a"}} {value}'
        for name, value in (
            ("DCGM_FI_DEV_FB_USED", 100),
            ("DCGM_FI_DEV_FB_TOTAL", 81920),
            ("DCGM_FI_DEV_GPU_UTIL", 37),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5),
            ("DCGM_FI_PROF_DRAM_ACTIVE", 0.625),
            ("DCGM_FI_DEV_MEM_COPY_UTIL", 12),
            ("DCGM_FI_DEV_POWER_USAGE", 412.5),
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 123456789),
        )
    )
    found = {name: value for (name, _, _), value in values(read_gpu_page(page)).items()}
    assert found == pytest.approx(
        {
            "memory_used_bytes": 100 * MIB,
            "memory_total_bytes": 81920 * MIB,
            "utilization_ratio": 0.37,  # not the engine's 0.5: of one quantity the first family counts
            "dram_active_ratio": 0.625,
            "memory_busy_ratio": 0.12,
            "power_watts": 412.5,
            "energy_joules": 123456.789,
        }
    )


def test_amd_energy_is_microjoules_and_a_sites_prefix_is_read() -> None:
    page = (
        'site_gpu_energy_consumed{gpu_id="1",hostname="n"} 5000000\nsite_gpu_package_power{gpu_id="1",hostname="n"} 300'
    )
    found = values(read_gpu_page(page))
    assert found == {("energy_joules", "n/1", None): 5.0, ("power_watts", "n/1", None): 300.0}


def mig_page(extra: str = "") -> str:
    lines = [
        f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.40gb",GPU_I_ID="{i}"}} {used}\n'
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.40gb",GPU_I_ID="{i}"}} 500'
        for i, used in ((1, 1000), (2, 3000))
    ]
    return "\n".join([*lines, extra])


def test_mig_instances_have_memory_of_their_own_and_the_power_of_the_whole_gpu_once() -> None:
    assert values(read_gpu_page(mig_page())) == {
        ("memory_used_bytes", "a", "1"): 1000 * MIB,
        ("memory_used_bytes", "a", "2"): 3000 * MIB,
        ("power_watts", "a", None): 500.0,
    }


def test_the_gpus_own_line_beside_its_instances_is_not_added_to_them() -> None:
    whole = 'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 4000'
    found = values(read_gpu_page(mig_page(whole)))
    assert {key[2] for key in found if key[0] == "memory_used_bytes"} == {"1", "2"}


def test_one_of_several_mig_instances_has_no_power_of_its_own() -> None:
    look = read_gpu_page(mig_page(), ["0/2"])
    assert values(look) == {("memory_used_bytes", "a", "2"): 3000 * MIB}
    assert look.absent["power_watts"] == look.absent["energy_joules"]
    assert "MIG" in look.absent["power_watts"]


def test_labels_of_pods_do_not_make_a_gpu_twice() -> None:
    """A shared GPU stands on the page once for each pod: the same number twice is not a sum."""
    page = "\n".join(
        f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-a",pod="{pod}",namespace="n",container="c"}} 2000' for pod in "xyz"
    )
    assert values(read_gpu_page(page)) == {("memory_used_bytes", "a", None): 2000 * MIB}


def test_what_not_all_gpus_tell_is_absent() -> None:
    page = (
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1\nDCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b"} 2\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 300'
    )
    look = read_gpu_page(page)
    assert {r.name for r in look.readings} == {"memory_used_bytes"}
    assert look.absent["power_watts"] == "only 1 of the 2 GPUs or MIG instances tell it"


@pytest.mark.parametrize("wanted", [[1], ["1"], ["GPU-b"], ["b"], ["GPU-B"]])
def test_only_the_arms_devices(wanted: list[int | str]) -> None:
    page = 'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1\nDCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b"} 2'
    assert values(read_gpu_page(page, wanted)) == {("memory_used_bytes", "b", None): 2 * MIB}


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(CollectionError, match=r"devices \[3\] are not on the page; it has \['0', 'a'\]"):
        read_gpu_page('DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1', [0, 3])


@pytest.mark.parametrize("blank", ["9223372036854775792", "9223372036854775794", "140737488355330", "-1"])
def test_blanks_are_no_numbers(blank: str) -> None:
    page = f'DCGM_FI_DEV_FB_USED{{UUID="a"}} 5\nDCGM_FI_DEV_POWER_USAGE{{UUID="a"}} {blank}'
    look = read_gpu_page(page)
    assert [r.name for r in look.readings] == ["memory_used_bytes"]
    assert "blank" in look.absent["power_watts"]


def test_a_share_above_one_is_no_share() -> None:
    """D32: an exporter that tells another unit must not make a GPU 998 times busy; counters may overshoot a little."""
    page = 'DCGM_FI_DEV_GPU_UTIL{UUID="a"} 99820\nDCGM_FI_PROF_DRAM_ACTIVE{UUID="a"} 1.01'
    look = read_gpu_page(page)
    assert [(r.name, r.value) for r in look.readings] == [("dram_active_ratio", 1.01)]
    assert look.absent["utilization_ratio"] == "dcgm-exporter: 998.2 is no share: 0 to 1 was expected"


def test_pages_of_something_else_are_refused() -> None:
    with pytest.raises(CollectionError) as refused:
        read_gpu_page("vllm:num_requests_running 3")
    assert refused.value.kind == "families_missing"
    with pytest.raises(CollectionError) as html:
        read_gpu_page("<html>")
    assert html.value.kind == "not_metrics"


def test_every_gpu_quantity_is_told_or_absent_with_its_reason() -> None:
    for name in ("dcgm", "nvidia_gpu_exporter", "amd"):
        look = read_gpu_page((DATA / f"{name}.txt").read_text())
        told = {r.name for r in look.readings}
        gpu = {n for n, q in TELEMETRY.items() if q.level != "process"}
        assert told | look.absent.keys() == gpu
        assert not told & look.absent.keys()
