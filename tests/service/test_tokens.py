"""Tokens, sessions, rates: who asks, and how often."""

from __future__ import annotations

import pytest

from loadgen.service.config import TokenKeys
from loadgen.service.limits import MOST_ASKERS, RateLimit
from loadgen.service.roles import ACCESS, Access, Role, allowed
from loadgen.service.sessions import MOST_SESSIONS, Sessions, csrf_matches
from loadgen.service.tokens import Identity, Tokens, hashed, matches, new_token


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_new_token_is_known_and_its_hash_does_not_hold_it() -> None:
    token, kept = new_token("ci_1")
    assert kept.startswith("scrypt$16384$8$1$")
    assert token not in kept
    tokens = Tokens([TokenKeys(name="ci_1", role="operator", hash=kept)])
    assert tokens.who(token) == Identity("ci_1", Role.OPERATOR)
    assert tokens.seen(token) == Identity("ci_1", Role.OPERATOR)
    assert tokens.who(token) == Identity("ci_1", Role.OPERATOR)


@pytest.mark.parametrize("wrong", ["", "sl", "sl_a_", "sl_b_x", "x" * 5000, "sl_a_\udcff", "bearer", "sl_a_right "])
def test_others_are_nobody(wrong: str) -> None:
    tokens = Tokens([TokenKeys(name="a", role="viewer", hash=hashed("sl_a_right", n=16))])
    assert tokens.who(wrong) is None
    assert tokens.seen(wrong) is None


def test_hashes_are_salted_and_compared_whole() -> None:
    one, other = hashed("sl_a_x", n=16), hashed("sl_a_x", n=16)
    assert one != other
    assert matches("sl_a_x", one)
    assert matches("sl_a_x", other)
    assert not matches("sl_a_y", one)


def test_a_session_ends_by_time_and_by_logout() -> None:
    clock = Clock()
    sessions = Sessions(1.0, clock)
    who = Identity("a", Role.VIEWER)
    cookie, session = sessions.begin(who)
    other, second = sessions.begin(who)
    assert sessions.find(cookie) == session
    assert sessions.find("nothing") is None
    assert session.csrf != second.csrf
    assert csrf_matches(session, session.csrf)
    assert not csrf_matches(session, second.csrf)
    assert not csrf_matches(session, None)
    sessions.end(other)
    assert sessions.find(other) is None
    clock.now_s += 3600
    assert sessions.find(cookie) is None


def test_sessions_are_bounded() -> None:
    sessions = Sessions(1.0)
    first, _ = sessions.begin(Identity("a", Role.VIEWER))
    for _ in range(MOST_SESSIONS):
        sessions.begin(Identity("a", Role.VIEWER))
    assert sessions.find(first) is None


def test_a_bucket_empties_and_fills() -> None:
    clock = Clock()
    limit = RateLimit(6, clock)
    assert [limit.take("a") for _ in range(6)] == [None] * 6
    assert limit.take("a") == pytest.approx(10.0)
    limit.give_back("a")
    assert (limit.take("a"), limit.take("a")) == (None, pytest.approx(10.0))
    assert limit.take("b") is None
    clock.now_s += 10
    assert limit.take("a") is None
    assert limit.take("a") == pytest.approx(10.0)
    clock.now_s += 6000
    assert [limit.take("a") for _ in range(6)] == [None] * 6
    assert limit.take("a") is not None


def test_askers_are_bounded() -> None:
    limit = RateLimit(1, Clock())
    for i in range(MOST_ASKERS + 5):
        limit.take(str(i))
    assert limit.take("0") is None  # forgotten, so full again
    assert limit.take(str(MOST_ASKERS + 4)) is not None


@pytest.mark.parametrize("access", list(Access))
def test_the_table_of_roles(access: Access) -> None:
    expected = {
        Access.OPEN: (True, True, True), Access.METRICS: (False, True, True), Access.VIEWER: (False, True, True),
        Access.OPERATOR: (False, False, True),
    }  # fmt: skip
    roles = (None, Role.VIEWER, Role.OPERATOR)
    assert tuple(allowed(role, access, metrics_open=False) for role in roles) == expected[access]


def test_what_is_in_no_table_is_for_nobody_and_metrics_may_be_open() -> None:
    assert not any(allowed(role, None, metrics_open=True) for role in (None, *Role))
    assert allowed(None, Access.METRICS, metrics_open=True)
    assert not allowed(None, Access.VIEWER, metrics_open=True)
    assert all(method == method.upper() and path.startswith("/") for method, path in ACCESS)
