"""Failures by cause."""


def test_causes_are_counted_and_named(run) -> None:
    """F10, F11: what failed, how often, of which traffic, in the server's words."""
    run.segment()
    run.request([(0.1, 5)])
    for task in ("code", "short_qa", "code"):
        run.request(
            [],
            outcome="http_error",
            error_class="BadRequestError",
            error_status=400,
            error_message="too long",
            task_type=task,
        )
    run.request([], outcome="refused", error_class="connect", error_message="nobody there", task_type="code")
    found = run.summary().arms["candidate"].failures
    assert [(f.outcome, f.error_class, f.error_status, f.n) for f in found] == [
        ("http_error", "BadRequestError", 400, 3),
        ("refused", "connect", None, 1),
    ]
    assert found[0].task_types == ["code", "short_qa"]
    assert found[0].example == "too long"


def test_no_failure_is_no_entry(run) -> None:
    run.segment()
    run.request([(0.1, 5)])
    assert run.summary().arms["candidate"].failures == []
