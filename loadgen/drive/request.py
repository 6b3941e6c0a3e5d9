"""From a case to a request ready to be sent, and to prepared ones ahead of their time."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx
import orjson

from loadgen.clock import now_ns
from loadgen.drive.asking import Asking
from loadgen.drive.post import REQUEST_ID, Destination, Post, destination
from loadgen.drive.slack import Slack
from loadgen.drive.types import Exchange
from loadgen.plan import Case, Rendered, Segment
from server_adapters.base import Adapter, Ask, Capabilities, Endpoint, Prompt, Sampling, Target

#: requests made ahead of their time while the load runs: enough for a burst, small in memory
PREPARED_AHEAD = 64
FILL_AT_ONCE = 4
#: and before it begins: at most so many, of so many bytes together, made in so long
FIRST_MOST, FIRST_BYTES, FIRST_NS = 20_000, 32 * 2**20, 1_000_000_000


@dataclass(frozen=True, slots=True)
class DriveArm:
    """One side of the comparison as the driver needs it: `targets` are its replicas, used in turn; `swapped_targets`
    where they are while the arms have exchanged their places."""

    name: str
    adapter: Adapter
    targets: tuple[Target, ...]
    model: str
    capabilities: Capabilities
    endpoint: Endpoint
    swapped_targets: tuple[Target, ...] = ()
    #: response header that tells which server answered, in lower case
    served_by_header: str | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request, built. `fault` says why it could not be: it then ends as a client fault, never unsaid."""

    case: Case
    request_id: str
    replica: str
    sampling: Sampling
    prompt: str | None
    exchange: Exchange
    post: Post | None
    fault: str | None = None
    served_by_header: str | None = None


class RequestBuilder:
    """Builds an arm's requests of one segment. Request `index` goes to replica `index mod replicas`.

    Every request has an id of its own (A25), and in a cold run a cache salt,
    or where the server knows none a first line like no other; salts of one segment begin with its `nonce`.
    """

    def __init__(
        self,
        arm: DriveArm,
        asking: Asking,
        segment: Segment,
        render: Callable[[Case], Rendered],
        nonce: str | None = None,
    ) -> None:
        self._arm = arm
        self._targets = arm.swapped_targets if segment.swapped else arm.targets
        self._asking = asking
        self._segment = segment
        self._render = render
        self._nonce = nonce or secrets.token_hex(8)
        self._replicas = tuple(replica_of(target) for target in self._targets)
        self._destinations: dict[tuple[object, ...], Destination] = {}

    def build(self, case: Case) -> Outgoing:
        """Never raises: a request that cannot be built carries its fault."""
        number = case.index % len(self._targets)
        replica = self._replicas[number]
        request_id = f"{self._segment.number}-{case.index}-{secrets.token_hex(8)}"
        sampling = replace(self._asking.sampling[case.task_index], seed=case.sampling_seed)
        exchange = Exchange()
        try:
            ask = self._ask(case, sampling, request_id)
            post = self._post(number, ask, exchange)
        except Exception as bug:
            fault = f"{type(bug).__name__}: {bug}"
            return Outgoing(case, request_id, replica, sampling, None, exchange, None, fault)
        prompt = _as_text(ask.prompt) if self._asking.keep_text else None
        header = self._arm.served_by_header
        return Outgoing(case, request_id, replica, sampling, prompt, exchange, post, served_by_header=header)

    def _ask(self, case: Case, sampling: Sampling, request_id: str) -> Ask:
        rendered, capabilities = self._render(case), self._arm.capabilities
        prompt, salt = rendered.prompt, None
        if self._asking.cold:
            salt = self._salt(case)
            if not capabilities.cache_salt:
                prompt, salt = with_first_line(prompt, unique_line(salt)), None
        return Ask(
            endpoint=self._arm.endpoint,
            model=self._arm.model,
            prompt=prompt,
            max_tokens=case.output_len_requested,
            sampling=sampling,
            stream=case.stream,
            request_id=request_id,
            cache_salt=salt,
            json_schema=rendered.json_schema,
        )

    def _salt(self, case: Case) -> str:
        return self._nonce if self._asking.shared_prefix else f"{self._nonce}-{case.index}"

    def _post(self, number: int, ask: Ask, exchange: Exchange) -> Post:
        wire = self._arm.adapter.build(ask, self._arm.capabilities)
        alike = tuple((k, v) for k, v in wire.headers.items() if k.lower() != REQUEST_ID)
        key = (number, wire.path, alike)
        to = self._destinations.get(key)
        if to is None:
            target = self._targets[number]
            own = [(name, value.get_secret_value()) for name, value in target.headers.items()]
            to = self._destinations[key] = destination(target.url, wire.path, alike, own)
        return Post(to, ask.request_id, wire.body, exchange)


class Prepared:
    """The requests of a segment in order, some made ahead so that none is late for being made."""

    def __init__(self, cases: Iterator[Case], builder: RequestBuilder, ahead: int = PREPARED_AHEAD) -> None:
        self._cases = cases
        self._builder = builder
        self._ahead = ahead
        self._ready: deque[Outgoing] = deque()
        self._wanted = asyncio.Event()
        self._wanted.set()

    def take(self) -> Outgoing:
        """The next request. LookupError where the segment's cases have ended."""
        self._wanted.set()
        if self._ready:
            return self._ready.popleft()
        return self._builder.build(self._next())

    def skip(self) -> None:
        """Give the next request up."""
        self._wanted.set()
        if self._ready:
            self._ready.popleft()
        else:
            self._next()

    def _next(self) -> Case:
        case = next(self._cases, None)
        if case is None:
            raise LookupError("the segment has no case left")
        return case

    async def make_ready(self) -> None:
        """Before the segment: as many as its time may need at once, so that the load begins with requests made."""
        begun_ns = now_ns()
        size = 0
        while len(self._ready) < FIRST_MOST and size < FIRST_BYTES and now_ns() - begun_ns < FIRST_NS:
            case = next(self._cases, None)
            if case is None:
                return
            outgoing = self._builder.build(case)
            size += len(outgoing.post.body) if outgoing.post else 0
            self._ready.append(outgoing)
            if len(self._ready) % PREPARED_AHEAD == 0:
                await asyncio.sleep(0)

    async def fill(self, slack: Slack) -> None:
        """Runs beside the segment; ends with its cases. A few requests at a time, other tasks in between."""
        while True:
            await self._wanted.wait()
            while len(self._ready) < self._ahead:
                for _ in range(FILL_AT_ONCE):
                    case = next(self._cases, None)
                    if case is None:
                        return
                    self._ready.append(self._builder.build(case))
                await slack.spare()
            self._wanted.clear()


def replica_of(target: Target) -> str:
    """The target's address without credentials."""
    url = httpx.URL(target.url)
    return str(url.copy_with(username=None, password=None)).rstrip("/") if url.userinfo else target.url.rstrip("/")


def unique_line(salt: str) -> str:
    """A line that is the same length for every salt, in tokens too where digits are tokens of their own."""
    digits = int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=8).digest(), "big") % 10**12
    return f"Reference {digits:012d}."


def with_first_line(prompt: Prompt, line: str) -> Prompt:
    """`prompt` with `line` before everything else: of messages, before the first one's text."""
    if isinstance(prompt, str):
        return f"{line}\n{prompt}"
    first, *rest = prompt
    content = first.get("content")
    if isinstance(content, list):
        content = [{"type": "text", "text": f"{line}\n"}, *content]
    else:
        content = f"{line}\n{content or ''}"
    return ({**first, "content": content}, *rest)


def _as_text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()
