#!/usr/bin/env bash
# Build the wheel, install it alone (no dev dependencies, no source tree) and use it.
set -euo pipefail
source "$(dirname "$0")/env.sh"
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

.venv/bin/uv build --quiet --wheel --out-dir "$work/dist"
.venv/bin/uv venv --quiet --python .venv/bin/python "$work/venv"
.venv/bin/uv pip install --quiet --python "$work/venv/bin/python" "$work"/dist/*.whl

cd "$work"
export HOME=$work BACKREAD_PATH=$work/memory.db BACKREAD_EMBEDDER=none
unset PYTHONPATH BACKREAD_MODELS_DIR BACKREAD_CONFIG OPENAI_API_KEY OPENAI_BASE_URL BACKREAD_MODEL
backread=$work/venv/bin/backread
"$backread" --version
"$backread" --help >/dev/null
"$backread" add --user ann The spare key is under the blue pot
"$backread" search --user ann spare key | grep -q "blue pot"
"$work/venv/bin/python" "$root/scripts/check_imports.py"
