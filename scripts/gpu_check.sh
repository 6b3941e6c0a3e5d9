#!/usr/bin/env bash
# What to run on a first GPU node: confirms there what could not be tried without one, and writes a report.
#
#   scripts/gpu_check.sh --model ORG/MODEL --draft ORG/DRAFT [--method draft_model|eagle|eagle3|mtp] [--rates 0.8,0.6,0.4,0.2]
#                        [--python PYTHON] [--port 8000] [--gpu 0] [--max-model-len 4096] [--out DIR] [--dry-run]
#
# It starts vLLM servers on one GPU, one after the other, each through a scenario with `start`:
#   synthetic      acceptance that vLLM makes to order (rejection_sample_method: synthetic), against that known truth; async
#                  scheduling as the server tells it; NVML beside it
#   same           the same server without speculation as both arms: what the method says of no difference
#   pair           without and with speculation: E ÷ c beside the measured speed of decoding
#   draft_length   a sweep over k: the advisor's predictions beside what is measured
# About 30 servers are started: an hour or two with a model of 8B. PYTHON has vLLM >= 0.29 (default: python3);
# the variable SPECLOAD_PYTHON names the Python that has specload (default: python3).
#
# This script has not run on a GPU yet: its parts were tested without one, its vLLM flags were read in vLLM 0.32's source.
# Exit codes: 0 everything confirmed, 1 something not confirmed or not shown (the report says what), 2 usage, 3 no GPU or
# no vLLM.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
python=python3 own=${SPECLOAD_PYTHON:-python3} port=8000 gpu=0 method=draft_model rates=0.8,0.6,0.4,0.2 length=4096
model='' draft='' out='' dry=no

usage() {
    sed -n '4,5p' "$here/gpu_check.sh" | sed 's/^# *//'
}
fail() { # fail CODE MESSAGE
    echo "gpu_check: $2" >&2
    exit "$1"
}

while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=yes && shift && continue ;;
    -h | --help) usage && exit 0 ;;
    --model | --draft | --method | --rates | --python | --port | --gpu | --max-model-len | --out)
        [ $# -ge 2 ] || fail 2 "$1 needs a value"
        ;;
    *) fail 2 "unknown argument $1; $(usage)" ;;
    esac
    case $1 in
    --model) model=$2 ;; --draft) draft=$2 ;; --method) method=$2 ;; --rates) rates=$2 ;; --python) python=$2 ;;
    --port) port=$2 ;; --gpu) gpu=$2 ;; --max-model-len) length=$2 ;; --out) out=$2 ;;
    esac
    shift 2
done
[ -n "$model" ] || fail 2 "--model is missing: the target model, a name or a folder"
[ -n "$draft" ] || fail 2 "--draft is missing: the drafter's model (async scheduling and full drafts need a model-based one)"
[[ $port =~ ^[0-9]+$ ]] || fail 2 "--port $port: not a number"
[[ $gpu =~ ^[0-9]+$ ]] || fail 2 "--gpu $gpu: not a number"
[[ $length =~ ^[0-9]+$ ]] || fail 2 "--max-model-len $length: not a number"
[[ $rates =~ ^(0(\.[0-9]+)?|1(\.0+)?)(,(0(\.[0-9]+)?|1(\.0+)?))*$ ]] || fail 2 "--rates $rates: numbers from 0 to 1, with commas"
rising=$(tr ',' '\n' <<<"$rates" | awk 'NR > 1 && $1 > last { print "yes"; exit } { last = $1 }')
[ -z "$rising" ] || fail 2 "--rates $rates: must not rise (a token is accepted only after those before it)"
python=$(command -v "$python" || echo "$python") # a path: the sweep's scenario wants one
out=${out:-gpu-check-$(date -u +%Y%m%dT%H%M%SZ)}

do_() { # do_ COMMAND...: print it, and run it unless this is a dry run
    printf '%q ' "$@"
    printf '\n'
    [ "$dry" = yes ] || "$@"
}
step() { # step NAME COMMAND...: into its log; a step that fails is noted and does not end the check
    local name=$1 code=0
    shift
    echo "# $name"
    if [ "$dry" = yes ]; then
        do_ "$@"
        return
    fi
    do_ "$@" >"$out/$name.log" 2>&1 || code=$?
    echo "$name: exit code $code" | tee -a "$out/steps.txt"
}
node() {
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,power.limit --format=csv
    "$python" -c 'import vllm; print("vllm", vllm.__version__)'
    "$own" -m loadgen doctor
}

if [ "$dry" = no ]; then
    command -v nvidia-smi >/dev/null 2>&1 || fail 3 "no nvidia-smi: this is no node with an NVIDIA GPU (--dry-run shows what would be done)"
    nvidia-smi -i "$gpu" >/dev/null 2>&1 || fail 3 "nvidia-smi does not know GPU $gpu"
    "$python" -c 'import vllm' 2>/dev/null || fail 3 "$python has no vLLM: name one with --python"
    mkdir -p "$out"
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}

step node node
[ "$dry" = yes ] || mv "$out/node.log" "$out/node.txt"
do_ "$own" "$here/gpu_check.py" scenarios "$out" --model "$model" --draft "$draft" --method "$method" --rates "$rates" \
    --python "$python" --port "$port" --gpu "$gpu" --max-model-len "$length"
for name in synthetic same pair; do
    step "$name" "$own" -m loadgen run "$out/$name.yaml" --out "$out/$name"
done
step draft_length "$own" -m loadgen sweep "$out/draft_length.yaml" --out "$out/draft_length"
do_ "$own" "$here/gpu_check.py" report "$out" --rates "$rates"
