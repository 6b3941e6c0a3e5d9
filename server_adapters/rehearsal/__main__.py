"""`python -m server_adapters.rehearsal --spec draft:k=4 --hardware h100 --model 70b --port 8001`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from server_adapters.rehearsal.config import DTYPES, SPEC_METRICS, TEMPLATES, RehearsalConfig
from server_adapters.rehearsal.faults import KINDS
from server_adapters.rehearsal.hardware import GPUS, MODELS
from server_adapters.rehearsal.serve import EngineExitError, from_json, serve

_DEFAULTS = RehearsalConfig()


def parser() -> argparse.ArgumentParser:
    """Options of the command; their names are the fields of RehearsalConfig."""
    faults = "\n".join(f"  {name:18} {_fault_help(name)}" for name in KINDS)
    made = argparse.ArgumentParser(
        prog="specload rehearse",
        description="An OpenAI-compatible server with real speculative sampling and the times of named hardware.",
        epilog=f"faults (each also takes after=SECONDS, for=SECONDS, and share=0..1 where requests are hit):\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--spec", default=_DEFAULTS.spec, help="off, draft:k=4, ngram:k=4,min=2,max=4; schedule=1-8:4;9-256:1")
    add("--hardware", default=_DEFAULTS.hardware, choices=sorted(GPUS))
    add("--model", default=_DEFAULTS.model, choices=sorted(MODELS))
    add("--draft-model", default=_DEFAULTS.draft_model, choices=sorted(MODELS))
    add("--dtype", default=_DEFAULTS.dtype, choices=DTYPES, help="only told: both take two bytes")
    add("--template", default=_DEFAULTS.template, choices=TEMPLATES, help="system: a system message before chats")
    add("--generation-config", default=_DEFAULTS.generation_config, metavar="KEY=VALUE,…",
        help="defaults of what a request leaves out: temperature, top_p, top_k")  # fmt: skip
    add("--tensor-parallel", type=int, help="GPUs; without it as many as the weights need")
    add("--served-model-name")
    add("--host", default=_DEFAULTS.host)
    add("--port", type=int, default=8001, help="0 takes a free one")
    add("--speed", type=float, default=_DEFAULTS.speed, help="times real time")
    add("--jitter", type=float, default=_DEFAULTS.jitter, help="sigma of a step's log-normal factor")
    add("--numerics", type=float, default=_DEFAULTS.numerics, metavar="SIGMA",
        help="noise of the target's logits in nat, new in every step: near ties flip from run to run")  # fmt: skip
    add("--seed", type=int, default=_DEFAULTS.seed)
    add("--fault", action="append", default=[], dest="faults", metavar="NAME[:KEY=VALUE,…]")
    add("--max-num-seqs", type=int, default=_DEFAULTS.max_num_seqs)
    add("--max-num-batched-tokens", type=int, default=_DEFAULTS.max_num_batched_tokens)
    add("--max-model-len", type=int, default=_DEFAULTS.max_model_len)
    add("--num-blocks", type=int, help="KV blocks; without it what the memory holds")
    add("--max-num-queued-reqs", type=int)
    add("--max-num-queued-tokens", type=int)
    add("--scheduling-policy", default=_DEFAULTS.scheduling_policy, choices=["fcfs", "priority"])
    add("--per-request-spec-metrics", default=_DEFAULTS.per_request_spec_metrics, choices=SPEC_METRICS)
    add("--prompt-tokens-details", action="store_true", help="usage tells cached tokens")
    add("--stream-interval", type=int, default=_DEFAULTS.stream_interval)
    add("--api-key-env", metavar="NAME", help="environment variable with the key that /v1 asks for")
    add("--child", metavar="JSON", help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted. 1 where a fault ended the process, 2 where the configuration cannot run or the port
    cannot be had."""
    options = vars(parser().parse_args(argv))
    child = options.pop("child")
    try:
        if child is not None:
            serve(from_json(child), _say, until_eof=sys.stdin.fileno())
        else:
            serve(RehearsalConfig(**{**options, "faults": tuple(options["faults"])}), _say)
    except (ValueError, OSError) as error:
        print(f"specload rehearse: {error}", file=sys.stderr)
        return 2
    except EngineExitError as error:
        print(f"specload rehearse: {error}", file=sys.stderr)
        return 1
    return 0


def _say(url: str) -> None:
    print(url, flush=True)


def _fault_help(name: str) -> str:
    kind = KINDS[name]
    params = ", ".join(f"{key}={value:g}" if isinstance(value, float | int) else f"{key}={value}"
                       for key, value in kind.defaults.items())  # fmt: skip
    return f"{kind.what}{f' ({params})' if params else ''}"


if __name__ == "__main__":
    sys.exit(main())
