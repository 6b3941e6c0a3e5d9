"""The process of one run: `python -m loadgen.service.runner.child`, spoken to through its pipes (`messages`).

It is the command line's own path (`loadgen.experiment.run_experiment`), with another ear and mouth: a `Stop` is a
SIGINT to itself, end of file on stdin one, too. What stdout is used for otherwise goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from loadgen.control import Live
from loadgen.errors import ScenarioError, SpecloadError, TargetUnusable
from loadgen.experiment import (
    DEFAULT_TRANSPORT,
    CanaryOptions,
    RunOptions,
    RunResult,
    ending_of,
    run_canary,
    run_experiment,
    worst_word,
)
from loadgen.export import Metrics, MetricsTeller
from loadgen.plan import Plan, Segment
from loadgen.redact import Redactor, printable
from loadgen.scenario import LoadedScenario
from loadgen.service.jobs import loaded_of
from loadgen.service.runner.messages import Begun, Ended, Measured, Said, SegmentTold, Start, Stop
from loadgen.service.runner.outbox import Outbox
from loadgen.service.runner.settling import Settling
from loadgen.service.runner.watching import Watched
from loadgen.service.words import about_found, about_target, validity_of

TELL_INTERVAL_S = 1.0
#: The service may have gone: nobody waits longer for what it was told.
LAST_WORDS_S = 10.0
_SERVICE = "the end of the service"


class Told:
    """`loadgen.experiment.Progress` that tells the service."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.path: Path | None = None

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None:
        """Notes may quote servers: they are in the report, not here."""
        self.path = path
        groups = len({segment.group for segment in plan.segments})
        requests = plan.totals.requests
        self._outbox.put(Begun(path=str(path), segments=groups, requests=None if requests is None else int(requests)))

    def segment(self, segment: Segment, number: int, total: int) -> None:
        self._outbox.put(
            SegmentTold(
                number=number, total=total, arm=segment.arm, phase=segment.phase, stage=segment.stage,
                block=segment.block, repeat_idx=segment.repeat_idx, concurrency=segment.concurrency,
                rate_per_s=segment.rate_per_s,
            )
        )  # fmt: skip

    def ended(self, requests: int, failed: int) -> None:
        """The metrics tell."""

    def live(self, segment: Segment, live: Live) -> None:
        """The metrics tell."""

    def say(self, text: str) -> None:
        self._outbox.put(Said(text=text))


class Run:
    """`redact` knows every secret that the run was given."""

    def __init__(self, start: Start, outbox: Outbox, redact: Redactor) -> None:
        self._start = start
        self._outbox = outbox
        self._redact = redact
        self._told = Told(outbox)
        self._interrupted_by = "the user"
        self._metrics = Metrics()
        self._teller = MetricsTeller(self._metrics)

    def to_its_end(self) -> Ended:
        """Whatever ends it, it is said how."""
        try:
            loaded = loaded_of(self._start)
            ended = asyncio.run(self._told_of(self._watched(loaded) if self._start.watching else self._driven(loaded)))
        except KeyboardInterrupt:
            return self._ended("interrupted", "interrupted", f"interrupted by {self._interrupted_by}, before any load")
        except TargetUnusable as error:
            self._log(str(error))
            return self._ended("target", "failed", about_target(str(error)))
        except ScenarioError as error:
            return self._ended("usage", "failed", "the scenario cannot be run as it is", tuple(error.problems))
        except SpecloadError as error:
            self._log(str(error))
            return self._ended("internal", "failed", "the run's records cannot be written; see the service's log")
        except Exception:
            self._log(traceback.format_exc())
            return self._ended("internal", "failed", "internal error of the run; see the service's log")
        self._tell_metrics()
        return ended

    async def _driven(self, loaded: LoadedScenario) -> Ended:
        options = RunOptions(
            self._start.out, self._start.overrides, workers=self._start.workers,
            transport=self._start.transport or DEFAULT_TRANSPORT, time_budget_s=self._start.time_budget_s,
            metrics=self._metrics, run_id=self._start.run_id, interrupted_by=lambda: self._interrupted_by,
            cuts="stopping it again cuts them", log=self._log,
        )  # fmt: skip
        return self._judged(await run_experiment(loaded, options, self._told))

    async def _watched(self, loaded: LoadedScenario) -> Ended:
        start, asked = self._start, self._start.watching
        assert asked is not None
        settling = Settling(start.outgoing, start.resolve)
        options = CanaryOptions(
            start.out, asked.for_s, asked.dry_run, self._metrics, client=settling.client, place=settling.switch,
            canary_id=start.run_id,
        )  # fmt: skip
        folder, result = await run_canary(loaded, options, Watched(self._outbox, self._log))
        return Ended(ending=result.verdict, state="finished", verdict=result.verdict, path=str(folder))

    async def _told_of(self, work: Coroutine[Any, Any, Ended]) -> Ended:
        """Told to stop, and telling how it goes, meanwhile."""
        listening = asyncio.create_task(self._listen())
        telling = asyncio.create_task(self._tell())
        try:
            return await work
        finally:
            listening.cancel()
            telling.cancel()

    async def _listen(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            stop = Stop.model_validate_json(line)
            self._interrupted_by = stop.by
            for _ in range(2 if stop.stop == "cut" else 1):
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(0)
        self._interrupted_by = _SERVICE
        signal.raise_signal(signal.SIGINT)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_INTERVAL_S)
            if not self._outbox.waiting:
                self._tell_metrics()

    def _tell_metrics(self) -> None:
        changes = self._teller.take()
        if changes is not None:
            self._outbox.put(Measured(changes=changes))

    def _judged(self, result: RunResult) -> Ended:
        ending, why = ending_of(result)
        self._told.path = result.path
        found = None if result.found is None else result.found.state
        verdict = worst_word(None if result.verdict is None else result.verdict.verdict, found)
        reason = result.reason if result.state != "finished" else why
        if reason is None and result.found is not None and found == verdict != "pass":
            against = (finding.id for finding in result.found.findings if finding.severity == "bad")
            reason = about_found(result.found.kind, result.found.state, against)
        validity = validity_of(None if result.found is None else result.found.kind, result.summary.validity.state)
        return self._ended(ending, result.state, reason, (), verdict, validity)

    def _ended(
        self,
        ending: str,
        state: str,
        reason: str | None,
        problems: tuple[str, ...] = (),
        verdict: str | None = None,
        validity: str | None = None,
    ) -> Ended:
        path = None if self._told.path is None else str(self._told.path)
        return Ended(
            ending=ending, state=state, reason=None if reason is None else self._redact(reason),
            problems=tuple(map(self._redact, problems)), verdict=verdict, validity=validity, path=path,
        )  # fmt: skip

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the service has gone; the records are still to be closed
            print(printable(self._redact(text)), file=sys.stderr, flush=True)


def main() -> int:
    outbox = Outbox(_own_stdout())
    line = _first_line()
    if not line:
        return 0
    start = Start.model_validate_json(line)
    ended = Run(start, outbox, Redactor(secrets_of(start.arms))).to_its_end()
    outbox.put(ended)
    outbox.close(LAST_WORDS_S)
    return 0


def _own_stdout() -> int:
    """Whatever a library prints must not be taken for a message."""
    fd = os.dup(1)
    os.dup2(2, 1)
    return fd


def _first_line() -> bytes:
    """Byte by byte: what comes after it is the loop's to read."""
    found = bytearray()
    while not found.endswith(b"\n"):
        if not (piece := os.read(0, 1)):
            return b""
        found += piece
    return bytes(found)


def secrets_of(arms: Mapping[str, Mapping[str, Any]]) -> list[SecretStr]:
    """Header values. API keys are read by the run itself, which masks them."""
    return [SecretStr(str(value)) for arm in arms.values() for value in arm.get("headers", {}).values()]


if __name__ == "__main__":
    sys.exit(main())
