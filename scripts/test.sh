#!/usr/bin/env bash
# The test command, for people and for .ci/run alike; arguments go to pytest. Without any, coverage of the store counts.
set -euo pipefail
cd "$(dirname "$0")/.."
floor=95
[ $# -eq 0 ] || floor=0
exec .venv/bin/python -m pytest --cov=backread.store --cov-branch --cov-report=term --cov-fail-under=$floor "$@"
