#!/usr/bin/env bash
# Build the documentation as a site in site/; a link that leads nowhere is an error. Look at it: python -m http.server -d site
set -euo pipefail
source "$(dirname "$0")/env.sh"
.venv/bin/uv sync --frozen --inexact --quiet --group docs
.venv/bin/python scripts/stage_docs.py
.venv/bin/zensical build --strict --clean --config-file build/mkdocs.yml
rm -rf site
mv build/site site
