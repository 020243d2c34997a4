#!/usr/bin/env bash
# Fuzzes the parsers and page readers, each from its seeds: validation/fuzz.sh [SECONDS [TARGET...]]
# It needs nightly and cargo-fuzz. A crash's input stays in validation/fuzz/engine/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

engine=validation/fuzz/engine seeds=validation/fuzz/seeds
machines=$PWD/$engine/corpus/machines
seconds=${1:-60}
shift || true
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(ls $seeds)
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: no nightly toolchain with cargo-fuzz" >&2
    echo "  try: rustup toolchain install nightly && cargo install --locked cargo-fuzz" >&2
    exit 1
fi

# The captured machines are seeds as well: each text for the parsers, each whole machine for the
# target that reads trees. Written anew each time, so that no copy is outdated.
rm -rf "$machines"
mkdir -p "$machines/text" "$machines/tree"
for machine in testdata/machines/*/; do
    name=$(basename "$machine")
    (cd "$machine" && find . -type f -printf '%P\n' | sort) | while read -r file; do
        cp "$machine/$file" "$machines/text/$name-${file//\//-}"
        printf -- '-- %s --\n' "$file"
        sed '$a\' "$machine/$file" # with a newline at its end
    done >"$machines/tree/$name"
done

# Built first, so that the first target's time is not spent on compiling.
cargo +nightly fuzz build --fuzz-dir $engine
crashed=()
for target in "${targets[@]}"; do
    echo "fuzz: $target: $seconds s"
    folders=("$PWD/$engine/corpus/$target" "$PWD/$seeds/$target")
    case $target in
        tree) folders+=("$machines/tree") ;;
        text_*) folders+=("$machines/text") ;;
    esac
    mkdir -p "${folders[0]}"
    FUZZ_TARGET=$target cargo +nightly fuzz run --fuzz-dir $engine any "${folders[@]}" -- \
        -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 </dev/null || crashed+=("$target")
done
echo "fuzz: ${#targets[@]} targets, ${#crashed[@]} crashed: ${crashed[*]}"
[ ${#crashed[@]} -eq 0 ]
