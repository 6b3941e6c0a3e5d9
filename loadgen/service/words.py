"""Outcomes in our own words. What servers and other machines say is in the service's log, never in an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Exit codes of the command line by what a run has come to (docs/cli.md); tests hold the two together.
EXIT_CODES: Mapping[str, int] = {
    "pass": 0,
    "internal": 1,
    "usage": 2,
    "target": 3,
    "inconclusive": 98,
    "fail": 99,
    "interrupted": 130,
}

#: Part of our own message about a target -> what may be said of it to everybody.
_OF_TARGETS = (
    ("cannot be reached", "it cannot be reached"),
    ("did not answer in time", "it did not answer in time"),
    ("did not end it in time", "it began an answer and did not end it in time"),
    ("does not speak TLS", "it does not speak TLS on this port"),
    ("cannot be asked", "a header is no valid HTTP: check api_key and headers of the target"),
    ("refused us", "it refused us: check api_key or headers of the target"),
    ("redirects to", "it redirects, and redirects are not followed"),
    ("not an OpenAI-compatible server", "it is no OpenAI-compatible server"),
    ("lists no model", "it lists no model"),
    ("does not serve the model", "it does not serve the model that the target names"),
    ("models [", "it serves several models: name one in the target"),
    ("replicas differ", "its replicas are not alike"),
    ("not a model list", "its answer is no model list"),
    ("speculation", "its speculation is not what the scenario says"),
    ("test request", "it did not answer a test request as it should"),
    ("metrics", "its metrics page cannot be used"),
    ("did not start", "it could not be started"),
    ("is the server ready", "it is not ready"),
)


def about_found(kind: str, state: str, findings: Iterable[str]) -> str:
    """`findings`: names of what speaks against the target. Their sentences may hold a server's words."""
    named = ", ".join(dict.fromkeys(name.removeprefix(f"{kind}_") for name in findings))
    return f"{kind}: {state}{f': {named}' if named else ''}; the report says why"


def validity_of(kind: str | None, state: str | None) -> str | None:
    """An access check sends no load: there is no measurement that could be valid or invalid."""
    return None if kind == "access" else state


def why_no_validity(kind: str | None, validity: str | None) -> str | None:
    if validity is not None:
        return None
    return "does not apply: an access check sends no load" if kind == "access" else "nothing was measured"


def about_target(message: str) -> str:
    """One sentence for what may hold a server's words."""
    first = message.splitlines()[0] if message else ""
    arm = first.partition(" (")[0].partition(":")[0]
    named = f"{arm}: " if arm.replace("-", "").replace("_", "").isalnum() and len(arm) <= 32 else ""
    why = next((said for part, said in _OF_TARGETS if part in first), "it is not usable")
    return f"{named}{why}; details are in the service's log"
