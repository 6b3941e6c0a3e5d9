"""The main numbers of a comparison, once more from its run directory alone: python docs/recompute.py RUN"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def t_quantile(df: float) -> float:
    """97.5 % of Student's t: with t = √df · tan θ its density is cos^(df − 1) θ."""
    x, weight = np.polynomial.legendre.leggauss(200)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        mid = (low + high) / 2
        inside = scale * mid / 2 * (weight @ np.cos(mid / 2 * (x + 1)) ** (df - 1))
        low, high = (mid, high) if inside < 0.475 else (low, mid)
    return math.sqrt(df) * math.tan(low)


def ratio_of(blocks: list[tuple[float, float]]) -> list[float | None]:
    """Geometric mean and 95 % interval; wider where the blocks are shown to be correlated from one to the next."""
    logs, n = np.array([math.log(mine / theirs) for mine, theirs in blocks]), len(blocks)
    if n < 3:
        return [math.exp(logs.mean()), None, None]
    off = logs - logs.mean()
    r = off[:-1] @ off[1:] / (off @ off)
    rho = r + (1 + 3 * r) / n
    v = 1 + 6 * min(rho, 0.8) if rho > 1.645 / math.sqrt(n) else 1.0
    half = t_quantile(max((n - 1) / v, 1)) * logs.std(ddof=1) * math.sqrt(v / n)
    return [math.exp(logs.mean() + d) for d in (0, -half, half)]


def rate(rows: list[dict], start: int, end: int) -> float:
    """Tokens per second that arrived in (start, end], of ok requests; what no chunk told of came with the last."""
    tokens = 0
    for r in (r for r in rows if r["outcome"] == "ok"):
        chunks = list(zip(r["chunk_times_s"] or [], r["chunk_tokens"] or [], strict=True))
        last = (r["last_token_ns"] if r["stream"] else r["end_ns"]), r["output_len"] - sum(n for _, n in chunks)
        at = [*((r["sent_ns"] + round(t * 1e9), n) for t, n in chunks), last]
        tokens += sum(n for ns, n in at if start < ns <= end)
    return tokens / ((end - start) / 1e9)


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
    rows = [r for _, block in mine.values() for r in block]
    sent = [r for r in rows if r["stream"]]
    ttft = sorted((r["first_token_ns"] - r["sent_ns"]) / 1e9 if r["outcome"] == "ok" else math.inf for r in sent)
    p95 = ttft[-(-95 * len(ttft) // 100) - 1]
    told = [(r["accepted_tokens"], r["drafted_tokens"]) for r in rows if r["outcome"] == "ok" and r["drafted_tokens"]]
    pairs = [(mine[key], base[key]) for key in sorted(mine.keys() & base.keys())]
    steady = all(p["full_ns"] and 3 * (p["load_end_ns"] - p["full_ns"]) >= p["ended_ns"] - p["started_ns"]
                 for pair in pairs for p, _ in pair)  # fmt: skip
    edges = ("full_ns", "load_end_ns") if steady else ("started_ns", "ended_ns")
    return {
        "ttft_p95_s": p95 if math.isfinite(p95) else None,
        "acceptance_rate": sum(a for a, _ in told) / sum(d for _, d in told) if told else None,
        "net_throughput": ratio_of([tuple(rate(block, p[edges[0]], p[edges[1]]) for p, block in pair)
                                    for pair in pairs]) if mine is not base else None,
    }  # fmt: skip


if __name__ == "__main__":
    json.dump(recompute(Path(sys.argv[1])), sys.stdout, indent=1)
