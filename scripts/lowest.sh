#!/usr/bin/env bash
# The unit tests with the lowest version of every dependency that pyproject.toml allows.
set -euo pipefail
source "$(dirname "$0")/env.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

.venv/bin/uv pip compile --quiet --no-header --python .venv/bin/python --resolution lowest-direct pyproject.toml \
    --output-file "$work/lowest.txt"
.venv/bin/uv venv --quiet --python .venv/bin/python "$work/venv"
.venv/bin/uv pip install --quiet --python "$work/venv/bin/python" --requirement "$work/lowest.txt" --group dev --editable .
# The pages show what the locked versions print, and are compared with those only.
"$work/venv/bin/python" -m pytest tests/unit -q --ignore tests/unit/test_docs.py "$@"
