"""docker-compose.yml: taken by docker-compose, pinned, limited, closed to the network, true to what it mounts."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from loadgen.cli.entry import app
from loadgen.service import load_config
from server_adapters.rehearsal.__main__ import parser

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
PROFILES = ("run", "gpu")
NAMES = sorted(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])
GPU = {"vllm-baseline", "vllm-candidate"}

Services = dict[str, dict[str, Any]]


def volumes(service: dict[str, Any]) -> list[list[str]]:
    return [text.split(":") for text in service.get("volumes", [])]


def container_ports(service: dict[str, Any]) -> set[int]:
    return {int(text.split(":")[-1]) for text in service.get("ports", [])}


def addresses(text: str) -> set[tuple[str, int]]:
    return {(host, int(port)) for host, port in re.findall(r"([a-z][\w.-]*):(\d+)", text)}


@pytest.mark.parametrize("profiles", [(), PROFILES], ids=lambda p: "+".join(p) or "none")
def test_docker_compose_takes_it(profiles: tuple[str, ...], services: Services, program: Callable[[str], str]) -> None:
    """Its own reading is ours: the same services with the same commands."""
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    done = subprocess.run(
        [program("docker-compose"), *chosen, "config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = yaml.safe_load(done.stdout)["services"]
    expected = {n: s for n, s in services.items() if not s.get("profiles") or {*s["profiles"]} & {*profiles}}
    # docker-compose 1 prints every service, whatever the profiles
    assert expected.keys() <= found.keys() <= services.keys()
    assert {name: found[name].get("command") for name in expected} == {
        name: service.get("command") for name, service in expected.items()
    }


def test_what_starts_without_a_profile(services: Services) -> None:
    assert {name for name, service in services.items() if not service.get("profiles")} == {
        "baseline", "candidate", "service", "watch", "prometheus", "alertmanager", "grafana",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_services_are_pinned_limited_and_closed(name: str, services: Services) -> None:
    service = services[name]
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", service["image"])
    assert service["restart"] == ("no" if name == "run" else "unless-stopped")
    assert {"cpus", "mem_limit", "pids_limit", "logging"} <= service.keys()
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "network_mode", "pid", "container_name"} & service.keys()
    assert service["ports"]
    assert all(text.startswith("127.0.0.1:") for text in service["ports"])
    if name not in GPU | {"dcgm-exporter"}:
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    # ours has the Dockerfile's
    assert ("healthcheck" in service) == (service["image"].split(":")[0] != "specload")


def test_published_ports_differ(services: Services) -> None:
    published = [text.split(":")[1] for service in services.values() for text in service["ports"]]
    assert len(set(published)) == len(published)


@pytest.mark.parametrize("name", NAMES)
def test_mounts_exist_and_configuration_is_read_only(name: str, services: Services, compose: dict[str, Any]) -> None:
    for source, _, *mode in volumes(services[name]):
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert mode == ["ro"]
        else:
            assert source in compose["volumes"]
            assert not mode


def test_no_secret_is_in_it(services: Services) -> None:
    """Grafana has no user, so no password; a token comes from the shell, or not at all."""
    for service in services.values():
        for key, value in service.get("environment", {}).items():
            assert not re.search("PASSWORD|SECRET|TOKEN|KEY", key) or value is None
    grafana = services["grafana"]["environment"]
    assert grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == grafana["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert (grafana["GF_AUTH_BASIC_ENABLED"], grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"]) == ("false", "Viewer")


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n in ("baseline", "candidate", "service", "watch", "vllm-watch", "run")]
)
def test_the_command_line_takes_our_commands(name: str, services: Services) -> None:
    """And what listens, listens on a port that compose publishes, which the health check asks."""
    service = services[name]
    command, *arguments = service["command"]
    (port,) = container_ports(service)
    assert f"http://127.0.0.1:{port}/" in service["environment"]["SPECLOAD_HEALTH_URL"]
    if command == "rehearse":
        options = vars(parser().parse_args(arguments))
        assert (options["host"], options["port"]) == ("0.0.0.0", port)
        return
    group = typer.main.get_command(app)
    assert hasattr(group, "commands")
    found = group.commands[command].make_context(command, list(arguments)).params
    name = "" if command == "serve" else "metrics_"
    assert (found[f"{name}host"], found[f"{name}port"]) == ("0.0.0.0", port)


def test_the_services_configuration_is_one(services: Services, compose: dict[str, Any]) -> None:
    """Its targets are compose's servers at their ports; it has no token, and its files are where volumes are."""
    (source, place, _), *others = volumes(services["service"])
    found = load_config(ROOT / source, "0.0.0.0", 8080)
    assert found.tokens == []
    for name, target in found.targets.items():
        assert addresses((target.url or "").split("//")[-1]) == {(name, *container_ports(services[name]))}
    assert set(found.targets) == {name for name in services if name.removeprefix("vllm-") in ("baseline", "candidate")}
    home = Path(place).parent
    kept = {Path(target) for _, target, *_ in others}
    written = yaml.safe_load((ROOT / source).read_text())["folders"]
    assert all(any(home / path == k or k in (home / path).parents for k in kept) for path in written.values())
    assert {*found.listen.hostnames} >= {"service", "localhost", "127.0.0.1"}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_spoken_to_are_services(name: str, services: Services) -> None:
    """And who asks for a server waits until it is healthy."""
    service = services[name]
    if "command" not in service or service["image"].startswith(("prom/", "vllm/")):
        return
    spoken = {one for word in service["command"] for one in addresses(word.split("//")[-1]) if "//" in word}
    assert {(host, port) for host, port in spoken if port not in container_ports(services[host])} == set()
    waits = service.get("depends_on", {})
    assert {host for host, _ in spoken} == waits.keys()
    assert all(one == {"condition": "service_healthy"} for one in waits.values())


def test_targets_of_every_folder_are_there(services: Services) -> None:
    """One prometheus.yml serves this machine, compose and compose with GPUs: their folders have the same files."""
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    named = {file for job in (*jobs["scrape_configs"], *jobs["alerting"]["alertmanagers"])
             for sd in job["file_sd_configs"] for file in sd["files"]}  # fmt: skip
    for folder in ("targets", "targets-compose", "targets-gpu"):
        files = {f"targets/{file.name}": yaml.safe_load(file.read_text()) for file in (PROMETHEUS / folder).iterdir()}
        assert files.keys() == named
        for one in (target for groups in files.values() for group in groups for target in group["targets"]):
            host, port = one.split(":")
            if folder == "targets":
                assert host == "127.0.0.1"
            else:
                assert int(port) in container_ports(services[host])
                assert {*services[host].get("profiles", ())} <= {"run", *(["gpu"] if folder == "targets-gpu" else [])}
    here = ("baseline", "candidate", "service", "watch", "run", "alertmanager")
    assert {f"127.0.0.1:{text.split(':')[1]}" for name in here for text in services[name]["ports"]} == {
        target for file in (PROMETHEUS / "targets").iterdir()
        for group in yaml.safe_load(file.read_text()) for target in group["targets"]
    }  # fmt: skip


def test_nobody_looks_more_often_than_every_five_seconds(services: Services) -> None:
    """G22: scraping costs the servers; Prometheus and the exporter read the same engines."""
    found = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["global"]
    interval, timeout = (int(found[key].removesuffix("s")) for key in ("scrape_interval", "scrape_timeout"))
    assert timeout < interval
    watches = [service["command"] for service in services.values() if service.get("command", [""])[0] == "watch"]
    assert len(watches) == 2
    assert {interval, *(int(words[words.index("--interval") + 1]) for words in watches)} == {5}


def test_receivers_of_the_docs_fit_into_the_committed_file(program: Callable[[str], str], tmp_path: Path) -> None:
    """docs/deploy.md's example, by Alertmanager's own check; the committed file itself calls nobody."""
    committed = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())
    assert committed["receivers"] == [{"name": "nobody"}, {"name": "team"}]
    text = (ROOT / "docs" / "deploy.md").read_text().split("<!-- receivers -->\n```yaml\n")[1].split("```")[0]
    example = yaml.safe_load(text)
    assert [one["name"] for one in example["receivers"]] == ["nobody", "team"]
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(committed | example))
    done = subprocess.run([program("amtool"), "check-config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
