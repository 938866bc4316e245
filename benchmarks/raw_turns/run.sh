#!/usr/bin/env bash
# Remake every figure of docs/bench-results.md that needs no model:
#
#     benchmarks/raw_turns/run.sh LOCOMO10.JSON LONGMEMEVAL_FOLDER
#
# The first is LoCoMo's file, the second a folder with the compact form of LongMemEval. Records and reports go beside the
# specs; run again, it goes on where it was. Vectors are kept by text in the user's cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
backread=${BACKREAD:-$here/../../.venv/bin/backread}
[ $# -eq 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

for spec in locomo longmemeval_s_real longmemeval_s_real_all_roles longmemeval_s_like; do
    data=$2
    [ "$spec" = locomo ] && data=$1
    "$backread" bench run "$here/$spec.toml" --data "$data" --out "$here/results/$spec"
    "$backread" bench report "$here/results/$spec" --baseline naive_rag/bm25
done
