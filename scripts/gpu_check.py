"""What gpu_check.sh needs beside vLLM: the scenarios of its steps, and the report on what they showed.

    python scripts/gpu_check.py scenarios OUT --model M --draft D --method draft_model --k 4 --rates 0.8,0.6,0.4,0.2 …
    python scripts/gpu_check.py report OUT --rates 0.8,0.6,0.4,0.2

The report compares with what is known: acceptance rates that vLLM was told to make, arms that are the same,
identities of the method. What a run did not show is "not shown", never "confirmed".
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CONFIRMED, REFUTED, NOT_SHOWN = "confirmed", "NOT confirmed", "not shown"
#: Allowed beside four standard errors: rounds of one request are not independent of its neighbours
SPARE = 0.01


@dataclass(frozen=True)
class Check:
    what: str
    state: str
    detail: str


def main(argv: list[str] | None = None) -> int:
    options = _arguments().parse_args(argv)
    rates = [float(rate) for rate in options.rates.split(",")]
    if options.what == "scenarios":
        for name, content in scenarios(options, rates).items():
            (options.out / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return 0
    checks = list(checks_of(options.out, rates))
    (options.out / "report.md").write_text(markdown(checks, options.out), encoding="utf-8")
    print(options.out / "report.md")
    return int(any(check.state != CONFIRMED for check in checks))


def _arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("what", choices=("scenarios", "report"))
    made.add_argument("out", type=Path)
    made.add_argument(
        "--rates", default="0.8,0.6,0.4,0.2", help="acceptance that synthetic sampling makes, by position"
    )
    made.add_argument("--model", default="")
    made.add_argument("--draft", default="")
    made.add_argument("--method", default="draft_model")
    made.add_argument("--python", default=sys.executable)
    made.add_argument("--port", type=int, default=8000)
    made.add_argument("--gpu", type=int, default=0)
    made.add_argument("--max-model-len", type=int, default=4096)
    return made


def scenarios(options: argparse.Namespace, rates: list[float]) -> dict[str, Any]:
    """By step. Each starts its own servers, one at a time: one GPU is enough."""
    k = len(rates)
    config = {"method": options.method, "model": options.draft, "num_speculative_tokens": k}
    known = {**config, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
    plain = _arm(options, None)
    pair = {"baseline": plain, "candidate": _arm(options, config)}
    launch = {
        "kind": "vllm", "python": options.python, "model": options.model,
        "speculative_config": {"method": options.method, "model": options.draft},
        "args": ["--max-model-len", str(options.max_model_len)], "env": {"CUDA_VISIBLE_DEVICES": str(options.gpu)},
    }  # fmt: skip
    swept = {"server": {"url": plain["url"]}}
    sweep = {"over": {"k": [0, *sorted({1, max(1, k // 2), k})]}, "repeats": 3, "launch": launch}
    return {
        "synthetic": _scenario("synthetic", {"candidate": _arm(options, known)}, 8, 160, repeats=1),
        "same": _scenario("same", {"baseline": plain, "candidate": plain}, 8, 160, repeats=4),
        "pair": _scenario("pair", pair, 8, 160, repeats=4),
        "draft_length": {**_scenario("draft-length", swept, 1, 24, repeats=1), "sweep": sweep},
    }


def _arm(options: argparse.Namespace, config: dict[str, Any] | None) -> dict[str, Any]:
    argv = ["env", f"CUDA_VISIBLE_DEVICES={options.gpu}", "VLLM_SERVER_DEV_MODE=1", options.python, "-m",
            "vllm.entrypoints.cli.main", "serve", options.model, "--host", "127.0.0.1", "--port", str(options.port),
            "--max-model-len", str(options.max_model_len)]  # fmt: skip
    if config is not None:
        argv += ["--speculative-config", json.dumps(config), "--per-request-spec-decode-metrics", "detailed"]
    return {
        "url": f"http://127.0.0.1:{options.port}", "speculation": "off" if config is None else "on", "start": argv,
        "start_timeout_s": 900.0, "telemetry": {"nvml": [options.gpu], "interval_s": 0.5},
    }  # fmt: skip


def _scenario(name: str, arms: dict[str, Any], users: int, cases: int, repeats: int) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "uniform", "low": 64, "high": 256}, "output_len": {"kind": "fixed", "value": 128}}
    design = {"comparison": {"design": "restart"}} if any("start" in arm for arm in arms.values()) else {}
    return {
        "version": 1, "name": f"gpu-{name}", "objective": "throughput", "environment": "disposable", "seed": 7,
        "repeats": repeats, "arms": arms,
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": users, "cases": cases}], "scrape": {"interval_s": 1}, **design,
    }  # fmt: skip


def checks_of(out: Path, rates: list[float]) -> Iterator[Check]:
    """In the order of the report, from the run directories under `out`."""
    known, manifest = _read(out / "synthetic", "summary.json"), _read(out / "synthetic", "manifest.json")
    yield from truth(known, rates)
    yield asynchronous(manifest)
    yield from told(known)
    yield nvml(known)
    yield same(_read(out / "same", "summary.json"))
    yield identity(_read(out / "pair", "summary.json"))
    yield advisor(_read(out / "draft_length", "sweep_summary.json"))


def truth(summary: dict[str, Any], rates: list[float]) -> Iterator[Check]:
    """Rates by position, and E, against those that the server was told to make."""
    spec = _speculation(summary)
    positions = spec.get("per_position") or []
    for place, rate in enumerate(rates):
        what = f"synthetic acceptance, position {place + 1}: {rate:g}"
        yield _near(what, positions[place] if place < len(positions) else None, rate, math.sqrt(rate * (1 - rate)))
    spread = math.sqrt(sum((2 * j + 1) * r for j, r in enumerate(rates)) - sum(rates) ** 2)
    yield _near(f"synthetic acceptance, E: {1 + sum(rates):g}", spec.get("e_verified"), 1 + sum(rates), spread)


def _near(what: str, found: dict[str, Any] | None, wanted: float, deviation: float) -> Check:
    """Within four standard errors of so many rounds, and SPARE."""
    if found is None or found.get("value") is None or not found.get("n"):
        return Check(what, NOT_SHOWN, (found or {}).get("reason") or "no run has it")
    allowed = 4 * deviation / math.sqrt(found["n"]) + SPARE
    state = CONFIRMED if abs(found["value"] - wanted) <= allowed else REFUTED
    return Check(what, state, f"{found['value']:.4f} over {found['n']:,} rounds; allowed ± {allowed:.4f}")


def asynchronous(manifest: dict[str, Any]) -> Check:
    what = "async scheduling is on with speculation"
    arm = manifest.get("arms", {}).get("candidate", {})
    fact = arm.get("environment", {}).get("scheduling.async")
    if fact is None or fact.get("value") is None:
        return Check(what, NOT_SHOWN, (fact or {}).get("reason") or "the server did not tell (VLLM_SERVER_DEV_MODE=1)")
    return Check(
        what, CONFIRMED if fact["value"] is True else REFUTED, f"scheduler_config.async_scheduling: {fact['value']}"
    )


def told(summary: dict[str, Any]) -> Iterator[Check]:
    """Assumptions: a full draft each round, one chunk a step, client and counters agree, the client keeps up."""
    spec = _speculation(summary)
    drafted, rounds = ((spec.get(name) or {}).get("value") for name in ("drafted", "rounds"))
    k = len(spec.get("per_position") or [])
    what = "every round drafts k tokens (vLLM counts placeholders under async scheduling)"
    if drafted and rounds and k:
        full = drafted / (rounds * k)
        yield Check(what, CONFIRMED if abs(full - 1) < 0.02 else REFUTED, f"{full:.4f} of k on average")
    else:
        yield Check(what, NOT_SHOWN, "no drafted tokens were told")
    apart = [r for r in summary.get("reconciliation", []) if r.get("ok") is False]
    what = "client, per-request statistics and counters agree"
    if summary.get("reconciliation"):
        names = ", ".join(dict.fromkeys(r["name"] for r in apart)) or "none differs"
        yield Check(what, REFUTED if apart else CONFIRMED, f"{len(summary['reconciliation'])} compared: {names}")
    else:
        yield Check(what, NOT_SHOWN, "nothing was compared")
    state = summary.get("validity", {}).get("state")
    why = "; ".join(summary.get("validity", {}).get("reasons", [])) or "no reason against it"
    words = {"valid": CONFIRMED, "doubtful": REFUTED, "invalid": REFUTED}
    yield Check("a chunk is a step and the client keeps up (measurement valid)", words.get(str(state), NOT_SHOWN), why)


def nvml(summary: dict[str, Any]) -> Check:
    use = (summary.get("resources") or {}).get("arms", {}).get("candidate", {}).get("overall", {})
    names = ("memory_peak_bytes", "utilization", "power_watts", "energy_joules")
    shown = {name: use[name]["value"] for name in names if (use.get(name) or {}).get("value") is not None}
    missing = [
        f"{name}: {(use.get(name) or {}).get('reason') or 'no run has it'}" for name in names if name not in shown
    ]
    values = ", ".join(f"{name} {value:,.4g}" for name, value in shown.items())
    state = CONFIRMED if not missing else REFUTED if shown else NOT_SHOWN
    return Check("NVML: memory, utilisation, power, energy", state, "; ".join(filter(None, (values, *missing))))


def same(summary: dict[str, Any]) -> Check:
    """Two arms that are the same server: what differs between them is the method's own error."""
    what = "two equal arms are found equal (speedup interval holds 1)"
    found = _first_row(summary).get("speedup", {}).get("value", {})
    if found.get("low") is None or found.get("high") is None:
        return Check(what, NOT_SHOWN, found.get("reason") or "no run has it")
    inside = found["low"] <= 1 <= found["high"]
    text = f"{found['value']:.4f} [{found['low']:.4f}, {found['high']:.4f}]; 1 run of 20 lies outside by chance"
    return Check(what, CONFIRMED if inside else REFUTED, text)


def identity(summary: dict[str, Any]) -> Check:
    what = "decoding is E ÷ c times as fast"
    row = _first_row(summary)
    e, c, speed = (row.get(name, {}).get("value") for name in ("e_decode", "c", "speedup_decode"))
    if not (e and c and speed):
        return Check(what, NOT_SHOWN, "E, c or the speed of decoding is missing")
    state = CONFIRMED if abs(e / c / speed - 1) < 0.02 else REFUTED
    return Check(what, state, f"E {e:.3f} ÷ c {c:.3f} = {e / c:.3f}; measured {speed:.3f}")


def advisor(summary: dict[str, Any]) -> Check:
    what = "the advisor's E lies within what the sweep measured"
    rows = [at for advice in summary.get("advice", []) for at in advice["at"] if at["agrees"] is not None]
    if not rows:
        return Check(what, NOT_SHOWN, "no prediction could be compared")
    text = ", ".join(f"k {at['k']}: {at['e']['value']:.3f} for {at['measured_e']['value']:.3f}" for at in rows)
    return Check(what, CONFIRMED if all(at["agrees"] for at in rows) else REFUTED, text)


def _speculation(summary: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = summary.get("arms", {}).get("candidate", {}).get("overall", {}).get("speculation", {})
    return found


def _first_row(summary: dict[str, Any]) -> dict[str, Any]:
    rows = summary.get("comparison")
    return rows[0] if isinstance(rows, list) and rows else {}


def _read(step: Path, name: str) -> dict[str, Any]:
    """Of the step's newest run; empty where it left none."""
    found = sorted(step.glob(f"*/{name}"))
    return json.loads(found[-1].read_bytes()) if found else {}


def markdown(checks: list[Check], out: Path) -> str:
    counts = {state: sum(check.state == state for check in checks) for state in (CONFIRMED, REFUTED, NOT_SHOWN)}
    lines = ["# GPU check", "", ", ".join(f"{n} {state}" for state, n in counts.items()), ""]
    lines += ["| what | | numbers |", "|---|---|---|"]
    lines += [f"| {check.what} | {check.state} | {_cell(check.detail)} |" for check in checks]
    for name in ("node.txt", "steps.txt"):
        if (out / name).is_file():
            lines += ["", f"## {name}", "", "```", (out / name).read_text(encoding="utf-8").rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


if __name__ == "__main__":
    sys.exit(main())
