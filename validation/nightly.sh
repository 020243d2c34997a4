#!/usr/bin/env bash
# What takes too long for CI, or needs a quiet machine: one command after another, none beside
# another. A command that succeeded leaves its output in target/nightly/COMMIT, and is not repeated
# at that commit: start it again after a stop. Its list: validation/nightly.sh --list
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

commands=$(grep -v '^#' <<'LIST'
# All tests, with the large numbers of cases: a million histories, a thousand kills of the gate.
PARACHRON_LONG=1 cargo test --workspace --no-fail-fast
cargo test --manifest-path extras/clock/Cargo.toml
PARACHRON_LONG=1 cargo test --manifest-path extras/fleet-map/Cargo.toml
PARACHRON_LONG=1 cargo test --release -p parachron-keeper
PARACHRON_LONG=1 cargo test --release -p parachron-daemon --test program gate::
# Every machine under QEMU, one at a time.
cargo xtask machines --resume
cargo xtask machines --only gate-7.3 --restores 1000
cargo xtask machines --resume --only linux-on-provider --only linux-moved --only linux-again
# Interpreters that detect undefined behaviour, other processors, the oldest Rust.
MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri-tests cargo +nightly miri test -p pvclock
MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri-tests cargo +nightly miri test -p parachron-vmm --lib memory
MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri-tests cargo +nightly miri test --manifest-path extras/clock/Cargo.toml -p parachron-clock --lib
validation/arm64.sh
cargo +1.88 check --workspace --locked
validation/fuzz.sh 60
# Packages: made, installed, upgraded and erased.
cargo xtask dist
packaging/installed.sh
# Timing.
cargo run --release -p parachron -- lab
cargo xtask bench read
cargo xtask bench host
cargo xtask bench doctor
LIST
)
if [ "${1:-}" = --list ]; then
    echo "$commands"
    exit
fi

folder="${CARGO_TARGET_DIR:-target}/nightly/$(git describe --always --dirty --abbrev=12 --exclude='*')"
mkdir -p "$folder" || exit 2
failed=0
while read -r command; do
    name=$(tr -cs '[:alnum:].' - <<<"$command")
    name=${name%-}
    if [ -e "$folder/$name" ]; then
        echo "== passed before: $command"
        continue
    fi
    begun=$SECONDS
    echo "== $command"
    if bash -c "$command" >"$folder/$name.log" 2>&1 </dev/null; then
        mv "$folder/$name.log" "$folder/$name"
        echo "== passed, $((SECONDS - begun)) s"
    else
        echo "== FAILED, $((SECONDS - begun)) s; $folder/$name.log ends:"
        tail -n 12 "$folder/$name.log"
        failed=$((failed + 1))
    fi
done <<<"$commands"
echo "nightly: $failed failed, at $(basename "$folder")"
[ "$failed" -eq 0 ]
