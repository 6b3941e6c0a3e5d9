"""Where the arms are: their own addresses, or in the second half of a swapped parallel design each other's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadgen.errors import TargetUnusable
from loadgen.experiment.preflight import Preflight, preflight, targets_of
from loadgen.experiment.servers import ArmServers
from loadgen.observe import Scrape, ScrapeArm, Scraper, TelemetrySample, TelemetrySources
from loadgen.plan import Plan, Segment
from loadgen.scenario import DRILL_SCRAPE_S, Scenario, Telemetry

#: What an arm must still be after it was started again, or has moved.
SAME = ("version", "speculation", "k", "spec_method", "max_model_len")


def with_places_exchanged(scenario: Scenario) -> Scenario:
    """The same scenario with every arm at the next one's addresses; what it asks there (model, headers) stays its own.

    Without comparison.swap it is the scenario as it is.
    """
    if not scenario.comparison.swap:
        return scenario
    names = list(scenario.arms)
    arms = {}
    for name, place in zip(names, names[1:] + names[:1], strict=True):
        there = scenario.arms[place]
        moved = {key: getattr(there, key) for key in ("url", "urls", "metrics_urls", "health_url", "telemetry")}
        arms[name] = scenario.arms[name].model_copy(update=moved)
    return scenario.model_copy(update={"arms": arms})


async def found_ready(scenario: Scenario, servers: ArmServers) -> Preflight:
    """Every arm, started where it has a command for that, and found usable; where they are to exchange their places
    without being started anew, at both. Raises TargetUnusable.

    On one node the arms are started in turn, the first one last: it stays for the first part of the plan.
    """
    if scenario.comparison.design == "restart":
        parts = []
        for name in reversed(scenario.arms):
            await servers.hold(scenario, name)
            parts.append(await preflight(scenario, (name,)))
        return merged(parts, scenario)
    await servers.hold(scenario, *scenario.arms)
    ready = await preflight(scenario)
    if scenario.comparison.swap and not any(arm.start for arm in scenario.arms.values()):
        try:
            check_same(ready, await preflight(with_places_exchanged(scenario)))
        except TargetUnusable as error:
            raise TargetUnusable(
                f"comparison.swap: the arms cannot exchange their URLs: {error}\n"
                "give them start and stop commands, or addresses that serve both by model or header"
            ) from None
    return ready


def merged(parts: Sequence[Preflight], scenario: Scenario) -> Preflight:
    """Several arms' preflights as one, in the scenario's order."""
    found = {name: arm for part in parts for name, arm in part.arms.items()}
    notes = tuple(note for part in reversed(parts) for note in part.notes)
    return Preflight({name: found[name] for name in scenario.arms}, parts[0].redact, notes)


def check_same(before: Preflight, now: Preflight) -> None:
    """Every arm of `now` is what it was at the preflight. Raises TargetUnusable with what is not."""
    problems = []
    for name, arm in now.arms.items():
        first = before.arms[name]
        pairs = [("model", first.model, arm.model)]
        pairs += [(key, getattr(first.capabilities, key), getattr(arm.capabilities, key)) for key in SAME]
        problems += [f"{name}: {key} was {was} at the preflight and is {found} now" for key, was, found in pairs
                     if was != found]  # fmt: skip
    if problems:
        raise TargetUnusable(before.redact("\n".join(problems)))


class Standing:
    """Which servers are up, where each arm is asked now, and the scraper that looks at them there.

    Built for the first segment of the plan, whose servers are there already; `scraper` is not yet started.
    """

    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        ready: Preflight,
        servers: ArmServers,
        on_scrape: Callable[[Scrape], None],
        on_sample: Callable[[TelemetrySample], None] = lambda _sample: None,
    ) -> None:
        self.servers = servers
        self._scenario = scenario
        self._exchanged = with_places_exchanged(scenario)
        self._ready = ready
        self._on_scrape = on_scrape
        self._on_sample = on_sample
        self._interval_s = scrape_interval_s(scenario, plan)
        self._place = self._needed(plan.segments[0])
        self.scraper = self._scraper()

    def fits(self, segment: Segment) -> bool:
        return self._needed(segment) == self._place

    async def move(self, segment: Segment) -> None:
        """Stop what is not needed, start what is, see that it is what it was. Raises TargetUnusable."""
        await self.scraper.stop()
        swapped, names = self._needed(segment)
        scenario = self._exchanged if swapped else self._scenario
        await self.servers.hold(scenario, *names)
        check_same(self._ready, await preflight(scenario, names))
        self._place = swapped, names
        self.scraper = self._scraper()
        await self.scraper.start()

    def _needed(self, segment: Segment) -> tuple[bool, tuple[str, ...]]:
        """Whether the arms have exchanged their places, and which of them are up."""
        alone = self._scenario.comparison.design == "restart"
        return segment.swapped, (segment.arm,) if alone else tuple(self._scenario.arms)

    def _scraper(self) -> Scraper:
        swapped, names = self._place
        places = self._exchanged if swapped else self._scenario
        arms = []
        for name in names:
            ready, page = self._ready.arms[name], targets_of(places.arms[name])[0]
            sources = sources_of(places.arms[name].telemetry, self.servers.pid(name))
            adapter, pages = ready.adapter.name, page.metrics_urls
            arms.append(ScrapeArm(name, adapter, ready.model, pages, page.headers, ready.reach, sources))
        return Scraper(arms, self._interval_s, self._scenario.scrape.timeout_s, self._on_scrape, self._on_sample)


def sources_of(keys: Telemetry, started_pid: int | None) -> TelemetrySources:
    """`started_pid`: of the arm's server, where it was started here and stays in the foreground."""
    return TelemetrySources(
        nvml=tuple(keys.nvml),
        gpu_metrics_urls=tuple(keys.gpu_metrics_urls),
        devices=tuple(keys.devices),
        pid=started_pid if keys.pid is None else keys.pid,
        interval_s=keys.interval_s,
    )


def scrape_interval_s(scenario: Scenario, plan: Plan) -> float:
    """The scenario's interval, or a tenth of the shortest part, so that every part has samples. A drill's counters tell
    when something moved: as often as can be."""
    if scenario.experiment == "drill":
        return DRILL_SCRAPE_S
    times = [s.duration_ns / 1e9 for s in plan.segments if s.duration_ns and s.phase == "measure"]
    shortest = min(times, default=float("inf"))
    return max(0.2, min(scenario.scrape.interval_s, shortest / 10))
