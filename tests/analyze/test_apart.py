"""Two runs made apart: paired where their plans are equal, else two independent samples."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analyze import compare_runs

approx = pytest.approx


@pytest.fixture
def make(fresh, filled):
    """A run of one arm, 20 blocks of 4 requests; `plan`: its hash."""

    def made(step=0.01, plan="p", name="r1", arm="server", noise=0.0, seed=0):
        run = fresh()
        run.arm(arm)
        rng = np.random.default_rng(seed)
        for b in range(20):
            wobble = 1 + b * 7 % 20 / 1000
            filled(run, b, arm, b, step * wobble * (1 + noise * rng.standard_normal(4)))
        data = run.data()
        data.manifest.plan_hash, data.manifest.run_id = plan, name
        return data

    return made


def test_equal_plans_are_paired_by_case_but_not_of_one_window(make) -> None:
    found = compare_runs(make(0.01, name="before"), make(0.005, name="after"))
    assert (found.first, found.second, found.paired) == ("before", "after", True)
    (row,) = found.rows
    assert (row.baseline, row.candidate, row.design, row.paired) == ("first: server", "second: server", "apart", False)
    assert row.speedup_decode.value == approx(2.0)
    assert (row.blocks, row.verdict_word) == (20, "faster")
    assert "not made in one window" in found.notes[0]
    assert found.unpaired == []


def test_blocks_that_neither_run_began_are_counted(make) -> None:
    """Both ended early: their plan knows of 24 blocks."""
    runs = [make(step) for step in (0.01, 0.005)]
    for run in runs:
        run.manifest.comparison["stages"] = [{"order": [[0, block, ["server"]] for block in range(24)]}]
    (row,) = compare_runs(*runs).rows
    assert row.blocks == 20
    assert row.speedup_decode.reason == "4 blocks left out: not driven to their end in both arms"


def test_other_plans_are_two_samples(make) -> None:
    """Hodges–Lehmann shift of the second, and the share of pairs in which it is larger."""
    first, second = make(0.010, noise=0.05), make(0.012, plan="q", noise=0.05, seed=1)
    found = compare_runs(first, second)
    assert (found.paired, found.rows) == (False, [])
    rows = {r.name: r for r in found.unpaired}
    tpot = rows["tpot_s"]
    assert (tpot.first_n, tpot.second_n, tpot.word) == (20, 20, "higher")
    assert tpot.shift.low < 0.002 < tpot.shift.high * 1.2
    assert tpot.shift.value == approx(0.002, rel=0.1)
    assert tpot.larger_share.value > 0.95
    assert rows["generation_speed"].word == "lower"
    assert rows["output_len"].word == "no difference shown"
    assert tpot.p <= tpot.p_adjusted <= 0.05


def test_equal_servers_show_no_difference(make) -> None:
    found = compare_runs(make(noise=0.1), make(plan="q", noise=0.1, seed=5))
    assert {r.word for r in found.unpaired} == {"no difference shown"}


def run_of_levels(fresh, filled, seed, plan):
    """20 blocks of 20 requests; the level of a block is half that of the one before and half its own."""
    run, rng, level, at = fresh(), np.random.default_rng(seed), 0.0, 0.0
    run.arm("server")
    for b in range(20):
        level = 0.5 * level + np.sqrt(0.75 if b else 1) * rng.standard_normal()
        steps = 0.01 * np.exp(0.1 * level + 0.2 * rng.standard_normal(20))
        filled(run, b, "server", b, steps, at=at)
        at += 0.1 * 20 + 10 * steps.sum() + 1
    data = run.data()
    data.manifest.plan_hash = plan
    return data


def test_blocks_and_not_requests_are_the_sample(fresh, filled) -> None:
    """Equal servers whose level drifts from block to block: 400 requests of each are no 400 independent ones."""
    words = []
    for seed in range(20):
        found = compare_runs(*(run_of_levels(fresh, filled, 2 * seed + i, plan) for i, plan in enumerate("pq")))
        (tpot,) = [r for r in found.unpaired if r.name == "tpot_s"]
        assert (tpot.first_n, tpot.second_n, tpot.shift.unit, tpot.shift.n) == (20, 20, "windows", 20)
        words.append(tpot.word)
    assert words.count("no difference shown") >= 19


def test_few_windows_are_not_enough(make, fresh, filled) -> None:
    small = fresh()
    filled(small, 0, "server", 0, [0.01] * 5)
    other = small.data()
    other.manifest.plan_hash = "q"
    found = compare_runs(make(), other)
    assert {r.word for r in found.unpaired} == {"not enough data"}
    assert all(r.shift.value is None and r.shift.reason for r in found.unpaired)


def test_failed_requests_are_named(make, fresh, filled) -> None:
    """F10: what the samples do not hold."""
    run = fresh()
    filled(run, 0, "server", 0, [0.01] * 30)
    run.rows[0]["outcome"] = "timeout"
    other = run.data()
    other.manifest.plan_hash = "q"
    notes = compare_runs(make(), other).notes
    assert any("1 of 30 requests did not end ok" in note for note in notes)


def test_runs_without_a_common_arm_say_so(fresh, filled) -> None:
    runs = []
    for names in (("a", "b"), ("c", "d")):
        run = fresh()
        for i, name in enumerate(names):
            filled(run, i, name, 0, [0.01])
        runs.append(run.data())
    found = compare_runs(*runs)
    assert "have no arm in common: a, b; c, d" in found.why


def test_arms_of_equal_names_are_compared(fresh, filled) -> None:
    runs = []
    for step in (0.01, 0.02):
        run = fresh()
        for i, name in enumerate(("baseline", "candidate")):
            for b in range(3):
                filled(run, 3 * i + b, name, b, [step])
        runs.append(run.data())
    assert [r.candidate for r in compare_runs(*runs).rows] == ["second: baseline", "second: candidate"]
