#!/usr/bin/env bash
# The test command, for people and for .ci/run alike; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m pytest --cov=backread.store --cov-branch --cov-report=term "$@"
