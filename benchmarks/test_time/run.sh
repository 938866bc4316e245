#!/usr/bin/env bash
# Run the designs that work when the question comes, without a model:
#
#     benchmarks/test_time/run.sh LOCOMO10.JSON LONGMEMEVAL_FOLDER
#
# The first is LoCoMo's file, the second a folder with the compact form of LongMemEval. Records and reports go beside the
# specs; run again, it goes on where it was.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
backread=${BACKREAD:-$here/../../.venv/bin/backread}
[ $# -eq 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

for spec in locomo locomo_equal_tokens longmemeval_s_real longmemeval_s_like; do
    data=$2
    case $spec in locomo*) data=$1 ;; esac
    "$backread" bench run "$here/$spec.toml" --data "$data" --out "$here/results/$spec"
    baseline=naive_rag/hybrid/budget=500
    [ "$spec" = locomo_equal_tokens ] && baseline=naive_rag/hybrid/budget=469
    "$backread" bench report "$here/results/$spec" --baseline "$baseline"
done
