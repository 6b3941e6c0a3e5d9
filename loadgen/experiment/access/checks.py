"""The looks at one server: keys, transport, what is open, what a browser may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
from pydantic import SecretStr

from loadgen.analyze import AccessCheck
from loadgen.analyze import AccessWord as Word
from loadgen.experiment.access import tls
from loadgen.experiment.access.looks import Looks, Seen, wrong_key
from loadgen.experiment.background import is_local
from loadgen.scenario import AccessKeys, Reach
from server_adapters.routes import COMMON, ROUTES, Kind

_MODELS = "/v1/models"
#: Routes whose keys are looked at, and what the names of those checks begin with.
_KEYED = ((_MODELS, ""), ("/v1/completions", "completions_"), ("/v1/chat/completions", "chat_"))
_STRANGER = "https://elsewhere.invalid"
#: Headers that say which software answers.
_BANNERS = ("server", "x-powered-by", "via")


@dataclass(frozen=True)
class Place:
    """One server of an arm. `headers`: with the right key; empty: the scenario has none."""

    arm: str
    url: str
    shown: str
    adapter: str
    headers: Mapping[str, SecretStr]
    reach: Reach
    metrics_urls: Mapping[str, str]


class Checks:
    """`note` gets each check as it is made."""

    def __init__(self, place: Place, keys: AccessKeys, looks: Looks, note: Callable[[AccessCheck], None]) -> None:
        self._place, self._keys, self._looks, self._note = place, keys, looks, note
        url = urlsplit(place.url)
        self._host, self._secure = url.hostname or "", url.scheme == "https"
        self._port = url.port or (443 if self._secure else 80)
        self._address = place.reach.address_of(self._host)
        self._trusted = True
        self._answered = False

    async def all(self) -> bool:
        """Whether the server answered at all."""
        await self._transport()
        await self._key()
        if not self._answered:
            return False
        await self._pages()
        await self._routes()
        await self._browser()
        self._say("audit_log", "not_shown", "the endpoint's own audit log cannot be seen from a client", "nothing")
        return True

    def _say(self, check: str, state: Word, seen: str, how: str, place: str | None = None) -> None:
        where = place or self._place.shown
        self._note(AccessCheck(arm=self._place.arm, place=where, check=check, state=state, seen=seen, how=how))

    async def _get(self, path: str, headers: Mapping[str, SecretStr] | None = None, method: str = "GET",
                   extra: Mapping[str, str] | None = None) -> Seen:  # fmt: skip
        url = path if path.startswith("http") else f"{self._place.url.rstrip('/')}{path}"
        return await self._looks.get(
            self._place.reach, url, headers, method=method, verified=self._trusted, extra=extra
        )

    # ------------------------------------------------------------------ transport

    async def _transport(self) -> None:
        if not self._secure:
            here = is_local(self._place.url)
            what = "plain HTTP: keys, prompts and answers can be read on the way"
            self._say("transport", "warning" if here else "fail", f"{what}{' (loopback)' if here else ''}", "its URL")
            return
        await self._versions()
        await self._certificate()
        for port in dict.fromkeys((self._port, 80)):
            line = await asyncio.to_thread(tls.plain_http, self._host, port, self._keys.timeout_s, self._address)
            how = f"HEAD / without TLS at port {port}"
            if line is None:
                self._say("plain_http", "pass", f"nothing answers plain HTTP at port {port}", how)
            else:
                status = line.split(" ")[1:2]
                moved = bool(status) and status[0] in ("301", "302", "307", "308", "400", "403", "426")
                self._say("plain_http", "pass" if moved else "fail", f"{line} at port {port}", how)

    async def _versions(self) -> None:
        taken, unknown = [], []
        for number in range(len(tls.VERSIONS)):
            name, takes, why = await asyncio.to_thread(
                tls.version, self._host, self._port, number, self._keys.timeout_s, self._address
            )
            if takes is None:
                unknown.append(f"{name}: {why}")
            elif takes:
                taken.append(name)
        how = "a handshake with each version alone"
        if not taken:
            self._say("transport", "not_shown", f"no version of TLS was agreed on ({'; '.join(unknown)})", how)
            return
        old = [name for name in taken if name in ("1.0", "1.1")]
        rest = f"; not shown: {'; '.join(unknown)}" if unknown else ""
        self._say("transport", "fail" if old else "pass", f"TLS {', '.join(taken)}{rest}", how)

    async def _certificate(self) -> None:
        how = "a handshake, checked against the arm's authorities"
        try:
            found = await asyncio.to_thread(
                tls.certificate,
                self._host,
                self._port,
                self._place.reach.ssl_context(),
                self._keys.timeout_s,
                self._address,
            )
        except OSError as error:
            self._say("certificate", "not_shown", f"no connection: {error}", how)
            return
        self._trusted = found.problem is None
        if not self._place.reach.verify:
            how, self._trusted = f"{how}; the scenario says tls.verify: false", True
            self._say("certificate", "fail", "certificates are not checked (tls.verify: false)", how)
        elif found.problem is not None:
            self._say("certificate", "fail", f"not accepted: {found.problem}", how)
        else:
            self._say("certificate", "pass", f"accepted for {self._host} ({found.subject})", how)
        if found.days is None:
            self._say("certificate_days", "not_shown", "its end could not be read", how)
        else:
            enough = found.days >= self._keys.certificate_days
            least = f"access.certificate_days: {self._keys.certificate_days}"
            state: Word = "fail" if found.days <= 0 else "pass" if enough else "warning"
            self._say("certificate_days", state, f"good for {found.days:.0f} days more ({least})", how)

    # ------------------------------------------------------------------ keys

    async def _key(self) -> None:
        """/v1/models; and the routes of completions, which a GET cannot use: only a refusal says something there."""
        ways = (("key_missing", None, "without a key"), ("key_wrong", wrong_key(), "with a wrong key"))
        for path, prefix in _KEYED:
            for check, headers, words in ways:
                if headers is not None and not self._trusted:
                    self._say(prefix + check, "not_shown", "no key is sent over TLS that is not trusted", "nothing")
                    continue
                self._keyed(prefix + check, await self._get(path, headers), f"GET {path} {words}")
        if not self._place.headers:
            self._say("key_right", "not_shown", "the scenario names no api_key for this arm", "nothing")
            return
        if not self._trusted:
            self._say("key_right", "not_shown", "no key is sent over TLS that is not trusted", "nothing")
            return
        seen = await self._get(_MODELS, self._place.headers)
        word: Word = "pass" if seen.status == 200 else "not_shown" if seen.tells_nothing else "fail"
        self._say("key_right", word, _came(seen), f"GET {_MODELS} with the right key")

    def _keyed(self, check: str, seen: Seen, how: str) -> None:
        self._answered |= seen.status is not None
        if seen.guarded:
            self._say(check, "pass", _came(seen), how)
        elif seen.status is None:
            self._say(check, "not_shown", seen.problem or "no answer", how)
        elif seen.status in (404, 405) or seen.tells_nothing:
            self._say(check, "not_shown", f"{_came(seen)}: says nothing of keys", how)
        else:
            self._say(check, "fail", f"{_came(seen)}: let in", how)

    # ------------------------------------------------------------------ what is open

    async def _pages(self) -> None:
        for shown, url in self._place.metrics_urls.items():
            seen = await self._get(url)
            state: Word = "warning" if seen.open else "not_shown" if seen.tells_nothing else "pass"
            self._say(
                "metrics", state, f"{_came(seen)}{': open to all' if seen.open else ''}", "GET without a key", shown
            )

    async def _routes(self) -> None:
        """What is listed in the API's own description is known from it; the others are looked for one by one."""
        described = await self._get("/openapi.json")
        methods = _methods(described)
        wanted: dict[str, Kind] = {**COMMON, **ROUTES.get(self._place.adapter, {})}
        wanted |= dict.fromkeys(self._keys.routes, "changes")
        del wanted["/openapi.json"]
        self._route("/openapi.json", "tells", described, "GET")
        for path, kind in wanted.items():
            if kind == "tells":
                self._route(path, kind, await self._get(path), "GET")
            elif methods is not None and path in methods and "get" not in methods[path]:
                self._route(path, kind, await self._get(path), "GET, which it has not")
            elif methods is not None and path not in methods and path not in self._keys.routes:
                self._say("route", "pass", f"{path}: not among the routes of /openapi.json", "GET /openapi.json")
            else:
                self._route(path, kind, await self._get(path, method="OPTIONS"), "OPTIONS")

    def _route(self, path: str, kind: Kind, seen: Seen, how: str) -> None:
        how = f"{how} without a key"
        if seen.tells_nothing:
            self._say("route", "not_shown", f"{path}: {_came(seen)}", how)
        elif not seen.open:
            self._say("route", "pass", f"{path}: {_came(seen)}", how)
        elif kind == "tells":
            state: Word = "fail" if path == "/server_info" else "warning"
            self._say("route", state, f"{path}: {_came(seen)}: open to all", how)
        elif how.startswith("OPTIONS"):
            allow = seen.headers.get("allow")
            told = f"{_came(seen)}{f', allow: {allow}' if allow else ''}"
            self._say("route", "warning", f"{path}: {told}: is there; whether it asks for a key is not shown", how)
        else:
            self._say("route", "fail", f"{path}: {_came(seen)}: changes the server, and asks for no key", how)

    async def _browser(self) -> None:
        how = f"OPTIONS {_MODELS} from {_STRANGER}"
        seen = await self._get(
            _MODELS, method="OPTIONS", extra={"Origin": _STRANGER, "Access-Control-Request-Method": "GET"}
        )
        allowed = seen.headers.get("access-control-allow-origin")
        with_keys = seen.headers.get("access-control-allow-credentials", "").lower() == "true"
        if seen.status is None:
            self._say("cors", "not_shown", seen.problem or "no answer", how)
        elif allowed in ("*", _STRANGER):
            state: Word = "fail" if allowed == _STRANGER and with_keys else "warning"
            words = "pages of any site may ask it from a browser"
            self._say("cors", state, f"allow-origin {allowed}{', with credentials' if with_keys else ''}: {words}", how)
        else:
            self._say("cors", "pass", f"allow-origin {allowed or 'not given'}", how)
        told = [f"{name}: {seen.headers[name]}" for name in _BANNERS if name in seen.headers]
        self._say("banner", "info", ", ".join(told) or "no header names the software", how)


def _came(seen: Seen) -> str:
    return f"status {seen.status}" if seen.status is not None else (seen.problem or "no answer")


def _methods(seen: Seen) -> dict[str, set[str]] | None:
    """Path -> methods of an API description; None where there is none."""
    if seen.status != 200:
        return None
    try:
        paths = orjson.loads(seen.body).get("paths")
    except (ValueError, AttributeError):
        return None
    if not isinstance(paths, dict):
        return None
    return {str(path): set(how) if isinstance(how, dict) else set() for path, how in paths.items()}
