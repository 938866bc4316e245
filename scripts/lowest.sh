#!/usr/bin/env bash
# The unit tests with the lowest version of every dependency that pyproject.toml allows.
set -euo pipefail
cd "$(dirname "$0")/.."
unset VIRTUAL_ENV
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

.venv/bin/uv pip compile --quiet --no-header --python .venv/bin/python --resolution lowest-direct pyproject.toml \
    --output-file "$work/lowest.txt"
.venv/bin/uv venv --quiet --python .venv/bin/python "$work/venv"
.venv/bin/uv pip install --quiet --python "$work/venv/bin/python" --requirement "$work/lowest.txt" --group dev --editable .
"$work/venv/bin/python" -m pytest tests/unit -q "$@"
