#!/usr/bin/env bash
# Builds the C of our own with AddressSanitizer and UndefinedBehaviorSanitizer and runs its tests under them. A read past
# an end, an overflow or an undefined shift ends the run. Leaks are not looked for: the interpreter keeps much to its end.
#
#     scripts/sanitize_c.sh [pytest arguments]      needs gcc and the virtual environment of `make setup`
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="$PWD/.venv/bin/python"
[ -x "$PYTHON" ] || { echo "sanitize_c: no .venv here: make setup" >&2; exit 3; }
ASAN="$(gcc -print-file-name=libasan.so)"
[ -e "$ASAN" ] || { echo "sanitize_c: this gcc has no libasan" >&2; exit 3; }

COPY="$(mktemp -d)"
trap 'rm -rf "$COPY"' EXIT
cp -r loadgen server_adapters tests setup.py pyproject.toml README.md scripts scenarios benchmarks "$COPY/"
cd "$COPY"
find . -name '*.so' -delete
export CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
export LDFLAGS="-fsanitize=address,undefined"
"$PYTHON" setup.py -q build_ext --inplace
[ "$(find . -name '*.so' | wc -l)" -eq 3 ] || { echo "sanitize_c: not all three extensions were built" >&2; exit 1; }

export LD_PRELOAD="$ASAN" PYTHONMALLOC=malloc PYTHONPATH="$COPY"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:exitcode=86 UBSAN_OPTIONS=print_stacktrace=1
"$PYTHON" - <<'END'
import loadgen.drive._sse, loadgen.drive.kernel._reader, server_adapters._plain
for module in (loadgen.drive._sse, loadgen.drive.kernel._reader, server_adapters._plain):
    assert module.__file__.startswith(__import__("os").environ["PYTHONPATH"]), module.__file__
END
"$PYTHON" -m pytest -q -p no:cacheprovider \
    tests/drive/kernel tests/drive/test_sse.py tests/drive/test_reading_runs.py tests/drive/test_read_exchange.py \
    tests/server_adapters/test_plain_c.py tests/server_adapters/test_openai_plain.py "$@"
