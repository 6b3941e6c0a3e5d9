"""Were the arms asked the same, with caches alike, on servers of their own? Exact counts of hand-made runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadgen.analyze import Difference
from loadgen.observe import Scraped

Run = Any


def both(run: Run, lengths: dict[str, list[int | None]], *, salt: bool = True, repeats: int = 1) -> Run:
    """Two arms, one segment each and repeat; case i of an arm has `lengths[arm][i]` prompt tokens."""
    for name in ("baseline", "candidate"):
        facts = {"counts_artefact": False, "max_model_len": 4096, "version": "0.32.0", "cache_salt": salt}
        run.arm(name, speculation=name == "candidate", capabilities=facts)
    number = 0
    for repeat in range(repeats):
        for name in ("baseline", "candidate"):
            run.segment(number, arm=name, start=number, full=number, load_end=number + 1, end=number + 1,
                        repeat_idx=repeat)  # fmt: skip
            for i, n in enumerate(lengths[name]):
                run.request([(0.1, 1), (0.2, 1)], sent=number + 0.1, segment=number, arm=name, case_id=f"k{i}",
                            input_len=n)  # fmt: skip
            number += 1
    return run


def of(run: Run, key: str) -> list[Difference]:
    return [d for d in run.summary().environment if d.key == key]


def test_equal_prompt_tokens(run: Run) -> None:
    both(run, {"baseline": [10, 20, 30], "candidate": [10, 20, 30]})
    (pair,) = run.summary().equality.prompt_tokens
    assert (pair.arm, pair.baseline, pair.cases, pair.mismatched) == ("candidate", "baseline", 3, 0)
    assert (pair.median_difference, pair.examples, pair.reason) == (0.0, [], None)
    assert of(run, "requests.prompt_tokens") == []


def test_one_case_with_another_count_is_inconclusive_and_shown(run: Run) -> None:
    """Template or tokenizer differ: the case is named with both counts, once, in however many repeats."""
    both(run, {"baseline": [10, 20, 30], "candidate": [10, 23, 30]}, repeats=3)
    (pair,) = run.summary().equality.prompt_tokens
    assert (pair.cases, pair.mismatched) == (3, 1)
    assert [(e.case_id, e.stage, e.baseline, e.arm) for e in pair.examples] == [("k1", "one", 20, 23)]
    (found,) = of(run, "requests.prompt_tokens")
    assert (found.rule, found.values) == ("inconclusive", {"baseline": 20, "candidate": 23})
    assert "1 of 3 cases" in found.text
    run.scenario["arms"] = {"candidate": {"declared_differences": ["template"]}}
    assert [d.rule for d in of(run, "requests.prompt_tokens")] == ["declared"]


def test_examples_are_few_however_many_cases_differ(run: Run) -> None:
    both(run, {"baseline": list(range(10, 30)), "candidate": list(range(11, 31))})
    (pair,) = run.summary().equality.prompt_tokens
    assert (pair.mismatched, len(pair.examples), pair.median_difference) == (20, 5, 1.0)


def test_cases_of_one_arm_only_and_without_counts_are_left_out(run: Run) -> None:
    """C18: arms that ended by time have not asked the same number of cases."""
    both(run, {"baseline": [10, None, 30, 40], "candidate": [10, 21]})
    (pair,) = run.summary().equality.prompt_tokens
    assert (pair.cases, pair.mismatched) == (1, 0)


def test_nothing_to_compare_is_a_reason(run: Run) -> None:
    both(run, {"baseline": [None], "candidate": [10]})
    (pair,) = run.summary().equality.prompt_tokens
    assert (pair.cases, pair.median_difference) == (0, None)
    assert pair.reason == "no case has a prompt token count both in candidate and in baseline"


@pytest.mark.parametrize(("extra", "found"), [([0, 1, -1, 0, 2], 0), ([3, 3, 4, 3, 2], 1)])
def test_unique_first_lines_make_single_tokens_chance(run: Run, extra: list[int], found: int) -> None:
    """Without a cache salt the texts themselves differ: only a shift of the median is another template."""
    base = [50, 60, 70, 80, 90]
    both(run, {"baseline": base, "candidate": [b + e for b, e in zip(base, extra, strict=True)]}, salt=False)
    (pair,) = run.summary().equality.prompt_tokens
    assert not pair.same_text
    assert pair.mismatched >= 3
    assert len(of(run, "requests.prompt_tokens")) == found


def test_a_warm_run_has_the_same_text_whatever_the_salt(run: Run) -> None:
    run.scenario["workload"]["cache"] = "warm"
    both(run, {"baseline": [10], "candidate": [11]}, salt=False)
    assert len(of(run, "requests.prompt_tokens")) == 1


def test_a_warm_cache_on_one_arm_is_caught(run: Run) -> None:
    """H12, H13: hits from counters, by arm and repeat; the repeat that is furthest apart is named."""
    both(run, {"baseline": [100], "candidate": [100]}, repeats=2)
    for number, hits in enumerate((0, 0, 0, 60)):
        arm = "candidate" if number % 2 else "baseline"
        run.counted(number, arm=arm, start=number, end=number + 1, prefix_cache_queries=100, prefix_cache_hits=hits)
    shares = [(h.arm, h.repeat_idx, h.share.value, h.share.source) for h in run.summary().equality.cache_hits]
    assert shares == [
        ("baseline", 0, 0.0, "counters"), ("baseline", 1, 0.0, "counters"),
        ("candidate", 0, 0.0, "counters"), ("candidate", 1, 0.6, "counters"),
    ]  # fmt: skip
    (found,) = of(run, "requests.cache_hit_share")
    assert (found.rule, found.values) == ("inconclusive", {"baseline": 0.0, "candidate": 0.6})
    assert "in one, repeat 1," in found.text
    assert "the cache of candidate was warm" in found.text


def test_one_warm_stage_of_a_sweep_is_not_diluted_by_the_others(run: Run) -> None:
    """H13: the shares of a whole repeat would be 0.5 % apart."""
    for name in ("baseline", "candidate"):
        run.arm(name)
    for number in range(8):
        arm, stage = ("baseline", "candidate")[number % 2], number // 2
        run.segment(number, arm=arm, start=number, full=number, load_end=number + 1, end=number + 1,
                    stage=f"c{stage}", stage_index=stage)  # fmt: skip
        hits = 2 if (arm, stage) == ("candidate", 2) else 0
        run.counted(number, arm=arm, start=number, end=number + 1, prefix_cache_queries=100, prefix_cache_hits=hits)
    (found,) = of(run, "requests.cache_hit_share")
    assert "in c2, repeat 0," in found.text


@pytest.mark.parametrize(
    ("cache", "hits", "flagged"), [("cold", 1, False), ("cold", 2, True), ("warm", 5, False), ("warm", 6, True)]
)
def test_how_far_apart_caches_may_be(run: Run, cache: str, hits: int, flagged: bool) -> None:
    run.scenario["workload"]["cache"] = cache
    both(run, {"baseline": [100], "candidate": [100]})
    for number, (arm, n) in enumerate((("baseline", 0), ("candidate", hits))):
        run.counted(number, arm=arm, start=number, end=number + 1, prefix_cache_queries=100, prefix_cache_hits=n)
    assert bool(of(run, "requests.cache_hit_share")) is flagged


def test_cached_tokens_of_responses_where_counters_tell_nothing(run: Run) -> None:
    both(run, {"baseline": [100], "candidate": [100]})
    run.rows[0]["cached_tokens"], run.rows[1]["cached_tokens"] = 0, 80
    hits = run.summary().equality.cache_hits
    assert [(h.share.value, h.share.source, h.share.n) for h in hits] == [
        (0.0, "per_request", 100), (0.8, "per_request", 100),
    ]  # fmt: skip
    assert len(of(run, "requests.cache_hit_share")) == 1


def test_unknown_shares_are_absent_with_a_reason_and_flag_nothing(run: Run) -> None:
    both(run, {"baseline": [100], "candidate": [100]})
    assert {h.share.reason for h in run.summary().equality.cache_hits} == {
        "the counters do not hold prefix_cache_queries (the arm has no metrics page, or it was never scraped), and the "
        "responses do not tell cached tokens"
    }
    assert of(run, "requests.cache_hit_share") == []


def test_an_edge_that_could_not_be_had_is_named_with_its_page(run: Run) -> None:
    both(run, {"baseline": [100], "candidate": [100]})
    for number, arm in enumerate(("baseline", "candidate")):
        run.counted(number, arm=arm, start=number, end=number + 1, prefix_cache_queries=100, prefix_cache_hits=0)
    last = run.scrapes[-1]
    late = {"status": Scraped.UNREACHABLE, "reason": "no answer within 9 s", "page": None}
    run.scrapes += [replace(last, edge=None, segment=None, asked_ns=last.asked_ns + 250_000_000)]
    run.scrapes[-2] = replace(last, **late)
    known, unknown = (h.share for h in run.summary().equality.cache_hits)
    assert (known.value, unknown.value) == (0.0, None)
    assert unknown.reason == (
        f"the counters of segment 1 are not whole ({last.source}: no scrape at the end edge (unreachable: no answer "
        "within 9 s): counted until 0.250 s after it), and the responses do not tell cached tokens"
    )


@pytest.mark.parametrize(("made", "rule"), [(2, None), (3, "inconclusive")])
def test_tokens_that_were_not_for_us(run: Run, made: int, rule: str | None) -> None:
    both(run, {"baseline": [100], "candidate": [100]})
    run.counted(0, arm="baseline", start=0, end=1, generation_tokens=2)
    run.counted(1, arm="candidate", start=1, end=2, generation_tokens=made)
    found = of(run, "load.foreign")
    assert [d.rule for d in found] == ([] if rule is None else [rule])
    share = run.summary().equality.foreign_share["candidate"]
    assert share.value == pytest.approx((made - 2) / made)
    if found:
        assert "33.3% of the tokens that candidate made" in found[0].text


def test_a_little_foreign_load_is_noted(run: Run) -> None:
    run.arm("candidate")
    run.segment(0)
    run.request([(0.1, 500), (0.2, 500)])
    run.counted(0, generation_tokens=1005)
    (found,) = of(run, "load.foreign")
    assert found.rule == "noted"
    assert run.summary().equality.foreign_share["candidate"].n == 1005


def test_foreign_load_is_counted_where_the_server_was_never_idle(run: Run) -> None:
    """H20: the edges are not idle just because of the others."""
    run.arm("candidate")
    run.segment(0, idle=False)
    run.request([(0.1, 1), (0.2, 1)])
    run.counted(0, generation_tokens=10)
    assert run.summary().equality.foreign_share["candidate"].value == 0.8


def test_a_window_with_a_restart_counts_nothing(run: Run) -> None:
    run.arm("candidate")
    run.segment(0)
    run.request([(0.1, 1), (0.2, 1)])
    share = run.summary().equality.foreign_share["candidate"]
    assert (share.value, share.reason) == (None, "the server's tokens of no window could be counted")
