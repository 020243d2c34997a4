#!/bin/sh
# How many instructions a read of the clock and of a VMClock page takes, on x86-64 by
# stepping, on arm64 in QEMU, which logs each. From the repository's root; it needs
# rustup's target aarch64-unknown-linux-gnu, gcc-aarch64-linux-gnu, qemu-user-static and root.
set -eu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
target=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc

build() { # TARGET CC
    cargo build --quiet --profile dist --target "$1" -p parachron-pvclock-c
    cargo build --quiet --profile dist --target "$1" --target-dir "$target" \
        --manifest-path extras/clock/c/Cargo.toml
    # Both libraries bring Rust's standard library.
    "$2" -std=c11 -O2 -static -I extras/clock/c/include -I crates/pvclock/c/include \
        validation/bench/reads.c "$target/$1/dist/libclock_c.a" "$target/$1/dist/libpvclock_c.a" \
        -Wl,--allow-multiple-definition,--no-warnings -lpthread -ldl -lm -o "$work/$1"
}

build x86_64-unknown-linux-gnu cc
echo "x86-64:" && "$work/x86_64-unknown-linux-gnu"

build aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc
mkfifo "$work/log"
# There the clock asks which clocksource the kernel has: the host's is another.
echo arch_sys_counter >"$work/clocksource"
unshare --mount sh -c 'mount --bind "$1/clocksource" \
    /sys/devices/system/clocksource/clocksource0/current_clocksource &&
    exec qemu-aarch64-static -singlestep -d exec,nochain -D "$1/log" \
    "$1/aarch64-unknown-linux-gnu"' sh "$work" >"$work/said" &
echo "arm64:"
# A line ends with the name of the function that the instruction is in.
awk '
    $NF == "counted" || $NF == "fewest" {
        if (inside && (!(inside in fewest) || count < fewest[inside])) fewest[inside] = count
        inside = ""
    }
    !inside && ($NF == "nothing" || $NF == "clock_read" || $NF == "vmclock_read") {
        inside = $NF; count = 0
    }
    inside { count++ }
    END {
        print "parachron_clock_now", fewest["clock_read"] - fewest["nothing"]
        print "pvclock_vmclock_read", fewest["vmclock_read"] - fewest["nothing"]
    }' "$work/log"
wait && head -n 1 "$work/said"
