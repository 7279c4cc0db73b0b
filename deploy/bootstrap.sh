#!/bin/sh
# bootstrap.sh VENV LOCK makes the virtual environment, or completes it. requirements.lock has what running needs,
# requirements-dev.lock beside that what tests and lint need. Needs Python 3.11 or newer with venv: PYTHON, or the
# system's, or the first on the path. The system's comes first because distributions build theirs with profiles of use;
# one built without, as version managers do, costs every process a seventh more.
set -eu
venv=$1
lock=${2:-requirements.lock}
fits() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || ! fits /usr/bin/python3 || python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "nodeplane needs Python 3.11 or newer; set PYTHON to one (found: $("$python" --version 2>&1 || echo none))" >&2
    exit 1
}
if ! "$python" -m venv "$venv" 2>/dev/null; then
    rm -rf "$venv"
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
        echo "python3 has no venv module: install it (Debian: apt-get install python3-venv) and run make again" >&2
        exit 1
    }
    echo "installing python3-venv"
    { apt-get update && apt-get install -y --no-install-recommends python3-venv; } >/dev/null 2>&1
    "$python" -m venv "$venv"
fi
echo "installing $lock into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile \
    -r "$lock"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
# Compiled once, here: else each start would do it, where bytecode may not be kept or nobody has run it yet.
# On all processors, which pip does not do; some packages carry files that are no Python of this version.
"$venv/bin/python" -m compileall -qq -j 0 "$venv"/lib/python3*/site-packages || :
"$venv/bin/python" -m compileall -q -j 0 protocols actors supervisor || echo "bytecode cannot be kept: starts take longer"
