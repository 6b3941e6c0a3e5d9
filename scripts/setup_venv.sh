#!/bin/sh
# Make the project's own virtual environment: setup_venv.sh [DIR]. Needs Python >= 3.11, pip and a package index.
set -eu
venv=${1:-.venv}
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "specload needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11." >&2
    exit 2
fi
echo "making $venv, and installing specload and its development tools into it (minutes, the first time) ..."
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' 2>&1 | grep -v '^WARNING: Location' || true
"$venv/bin/specload" --version >/dev/null
if [ "$(uname)" = Linux ] && ! "$venv/bin/python" -c 'import loadgen.drive.kernel._reader' 2>/dev/null; then
    echo "no C compiler here, or no Python headers: sockets are read in Python, which costs two to three times the CPU" >&2
fi
touch "$venv/.installed"
