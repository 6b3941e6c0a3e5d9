"""The main numbers of a comparison, once more from its run directory alone: python docs/recompute.py RUN"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def recompute(run: Path) -> dict:
    """{stage: {arm: …}}: TTFT P95 of all streams sent, acceptance, net throughput ÷ that of the arm `baseline`."""
    phases = {p["segment"]: p for p in map(json.loads, (run / "phases.jsonl").read_text().splitlines())}
    stages: dict = {}
    for row in pq.read_table(run / "requests.parquet").to_pylist():
        p = phases[row["segment"]]
        if p["phase"] == "measure":
            blocks = stages.setdefault(p["stage"], {}).setdefault(p["arm"], {})
            blocks.setdefault((p["repeat_idx"], p["block"]), (p, []))[1].append(row)
    return {stage: {arm: numbers(arms["baseline"], arms[arm]) for arm in arms} for stage, arms in stages.items()}


def numbers(base: dict, mine: dict) -> dict:
    rows = [r | {"ok": r["outcome"] == "ok"} for _, block in mine.values() for r in block]
    ttft = sorted((r["first_token_ns"] - r["sent_ns"]) / 1e9 if r["ok"] else math.inf for r in rows if r["stream"])
    p95 = ttft[-(-95 * len(ttft) // 100) - 1]
    told = [(r["accepted_tokens"], r["drafted_tokens"]) for r in rows if r["ok"] and r["drafted_tokens"]]
    pairs = [(mine[block], base[block]) for block in sorted(mine.keys() & base.keys())]
    spans = [(p["load_end_ns"] - (p["full_ns"] or math.inf), p["ended_ns"] - p["started_ns"])
             for pair in pairs for p, _ in pair]  # fmt: skip
    edges = ("full_ns", "load_end_ns") if all(3 * s >= w for s, w in spans) else ("started_ns", "ended_ns")
    logs = [math.log(rate(*one, *edges) / rate(*other, *edges)) for one, other in pairs]
    return {
        "ttft_p95_s": p95 if math.isfinite(p95) else None,
        "acceptance_rate": sum(a for a, _ in told) / sum(d for _, d in told) if told else None,
        "net_throughput": None if mine is base else interval(np.array(logs)),
    }


def rate(phase: dict, rows: list[dict], start: str, end: str) -> float:
    """Tokens per second that arrived in (start, end], of ok requests; what no chunk told of came with the last."""
    tokens = 0
    for r in (r for r in rows if r["outcome"] == "ok"):
        at = [(r["sent_ns"] + round(t * 1e9), n)
              for t, n in zip(r["chunk_times_s"] or [], r["chunk_tokens"] or [], strict=True)]  # fmt: skip
        at.append((r["last_token_ns"] if r["stream"] else r["end_ns"], r["output_len"] - sum(n for _, n in at)))
        tokens += sum(n for ns, n in at if phase[start] < ns <= phase[end])
    return tokens / ((phase[end] - phase[start]) / 1e9)


def interval(logs: np.ndarray) -> list[float | None]:
    """Geometric mean and its 95 % t interval; wider where blocks are shown to be correlated from one to the next."""
    n, off = len(logs), logs - logs.mean()
    if n < 3:
        return [math.exp(logs.mean()), None, None]
    r = off[:-1] @ off[1:] / (off @ off)
    rho = r + (1 + 3 * r) / n
    v = 1 + 6 * min(rho, 0.8) if rho > 1.645 / math.sqrt(n) else 1.0
    df = max((n - 1) / v, 1)  # with t = √df · tan θ the density of Student's t is cos^(df − 1) θ
    theta = np.linspace(0, math.pi / 2, 2_000_001)
    area = np.cumsum(np.cos(theta[1:] - theta[1] / 2) ** (df - 1))
    t = math.sqrt(df) * math.tan(np.interp(0.95 * area[-1], area, theta[1:]))
    half = t * logs.std(ddof=1) * math.sqrt(v / n)
    return [math.exp(logs.mean() + d) for d in (0, -half, half)]


if __name__ == "__main__":
    json.dump(recompute(Path(sys.argv[1])), sys.stdout, indent=1)
