"""Flags: what distorts acceptance, each from a hand-made run."""

CHUNKS = [(0.1, 1), (0.14, 4), (0.18, 4), (0.22, 4)]


def codes(run) -> list[str]:
    return [flag.split(":")[0] for flag in run.overall().speculation.flags]


def test_phantom_round_on_a_full_prefix_hit(run) -> None:
    """Facts 1.1, distortion 2: 129-token prompt, 128 cached: the first round is k placeholders, all rejected."""
    run.segment()
    run.request(CHUNKS, input_len=129, cached_tokens=128, **run.speculated([(0, 4), (4, 4), (4, 4)]))
    assert codes(run) == ["phantom_rounds"]


def test_a_rejected_first_round_without_a_hit_is_no_phantom(run) -> None:
    run.segment()
    run.request(CHUNKS, input_len=129, cached_tokens=64, **run.speculated([(0, 4), (4, 4), (4, 4)]))
    run.request(CHUNKS, input_len=129, cached_tokens=128, **run.speculated([(1, 4), (0, 4), (4, 4)]))
    assert codes(run) == []


def test_phantom_is_only_possible_without_per_round_data(run) -> None:
    run.segment()
    run.request(CHUNKS, input_len=129, cached_tokens=128, **run.speculated([(0, 4), (4, 4)], detailed=False))
    assert codes(run) == ["phantom_rounds_possible"]


def test_zero_length_rounds(run) -> None:
    """Facts 1.1, distortion 5: structured output under async scheduling."""
    run.segment()
    run.request(CHUNKS, **run.speculated([(0, 0), (4, 4), (0, 0)]))
    assert run.overall().speculation.flags == ["zero_length_rounds: 2 rounds were counted without a draft token"]


def test_rounds_at_the_context_limit(run) -> None:
    """J1, facts 1.1, distortion 3: 500 + 12 of 512: ten rounds, none accepted, drafts cut short at the end."""
    run.arm(capabilities={"counts_artefact": False, "max_model_len": 512})
    run.segment()
    steps = [(2, 4), *[(0, 4)] * 7, (0, 3), (0, 2), (0, 1)]
    run.request([(0.1, 1), *[(0.2 + i / 100, 1) for i in range(11)]], input_len=500, **run.speculated(steps))
    assert codes(run) == ["beyond_drafter"]


def test_prompts_beyond_the_drafters_length(run) -> None:
    """J1: EAGLE heads report nothing beyond 2,048 tokens."""
    run.segment()
    run.request(CHUNKS, input_len=2000, **run.speculated([(4, 4)]))
    run.request(CHUNKS, input_len=2100, **run.speculated([(0, 4)] * 5))
    assert "beyond_drafter: all 1 requests with prompts beyond 2000 tokens" in run.overall().speculation.flags[1]


def test_counters_flat_while_tokens_flow(run) -> None:
    """D10: --disable-log-stats: an explicit diagnosis, not an acceptance of 0."""
    run.segment()
    run.request(CHUNKS)
    run.counted(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_at=[0, 0, 0, 0], generation_tokens=13)
    assert codes(run) == ["counters_flat"]
    assert run.overall().speculation.acceptance_rate.value is None


def test_flat_counters_against_statistics(run) -> None:
    """D18: the responses speculate, the counters do not move: another page is scraped."""
    run.segment()
    run.request(CHUNKS, **run.speculated([(3, 4)]))
    run.counted(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_at=[0, 0, 0, 0], generation_tokens=13)
    (flag,) = run.overall().speculation.flags
    assert "the responses tell of 4 drafted tokens" in flag


def test_e_of_one_with_drafts(run) -> None:
    """D19: acceptance collapsed: E ≈ 1 with drafts > 0."""
    run.segment()
    run.request([(0.1, 1), *[(0.2 + i / 100, 1) for i in range(30)]], **run.speculated([(0, 4)] * 30))
    assert codes(run) == ["no_acceptance"]


def test_acceptance_of_one_is_suspect_too(run) -> None:
    """D29: extremely high acceptance: repetition loop or self-draft."""
    run.segment()
    run.request([(0.1, 1), *[(0.2 + i / 100, 5) for i in range(60)]], **run.speculated([(4, 4)] * 60))
    assert codes(run) == ["acceptance_near_one"]


def test_statistics_that_contradict_themselves(run) -> None:
    """D16, invariant 3: Σ j·h_j ≠ A."""
    run.segment()
    run.request(CHUNKS, **{**run.speculated([(3, 4)]), "accepted_tokens": 2})
    run.request(CHUNKS, **run.speculated([(3, 4)]))
    assert run.overall().speculation.flags == [
        "identity_failed: the statistics of 1 of 2 requests contradict themselves"
    ]
