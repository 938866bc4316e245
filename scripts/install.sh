#!/usr/bin/env bash
# Make .venv with exactly what uv.lock names, and fetch the weights of the default embedder. Safe to run again.
set -euo pipefail
source "$(dirname "$0")/env.sh"
uv_version=0.13.9

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "backread needs Python 3.11 or later; name one: make install PYTHON=/path/to/python3" >&2
    return 1
}

if ! .venv/bin/python -c '' 2>/dev/null; then
    python=$(find_python)
    rm -rf .venv
    # Debian keeps the part of venv that brings pip in a package of its own: go on without it.
    "$python" -m venv .venv >/dev/null 2>&1 || "$python" -m venv --clear --without-pip .venv
fi
if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    if .venv/bin/python -c 'import pip' 2>/dev/null; then
        .venv/bin/python -m pip install --quiet "uv==$uv_version"
    else
        "$(find_python)" -m pip --python .venv/bin/python install --quiet "uv==$uv_version"
    fi
fi
.venv/bin/uv sync --frozen --inexact --quiet

if ! report=$(.venv/bin/python scripts/fetch_weights.py minilm); then
    cat >&2 <<'MESSAGE'
The weights of the default embedder could not be fetched. Everything works without them, but search is by text only
and says so, and tests marked `weights` are skipped. To try again: .venv/bin/backread models fetch minilm
MESSAGE
elif [[ $report != *"already there"* ]]; then
    echo "$report"
fi
