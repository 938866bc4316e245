#!/usr/bin/env bash
# Everything a machine can check without running the product: style, types, import contract, sizes.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/ruff check
.venv/bin/ruff format --check
.venv/bin/mypy
.venv/bin/lint-imports --no-logo
.venv/bin/python scripts/check_sizes.py
