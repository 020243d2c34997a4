#!/usr/bin/env bash
# Records what the judges say, for a comparison of two commits: build both, run this with each
# program, and `diff -r` the folders. A commit that changes an output names it, and why.
#
#     validation/judges.sh target/debug/parachron FOLDER
set -uo pipefail
program=$(realpath "$1") into=$(realpath -m "$2")
cd "$(dirname "$0")/.." && mkdir -p "$into"/{machines,logs,help}

for tree in testdata/machines/*/; do
    "$program" doctor --root "$tree" --format json >"$into/machines/$(basename "$tree")" 2>&1
done
for log in testdata/logs/*/log.txt; do
    name=$(basename "$(dirname "$log")")
    "$program" doctor --log "$log" --format json >"$into/logs/$name" 2>&1
done
"$program" --help >"$into/help/parachron" 2>&1
for command in $("$program" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p'); do
    "$program" "$command" --help >"$into/help/$command" 2>&1
done
if [ -w /dev/kvm ]; then
    "$program" lab --format json >"$into/lab" 2>/dev/null
fi
