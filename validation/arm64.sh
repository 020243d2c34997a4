#!/usr/bin/env bash
# The tests, built for arm64 and run by QEMU's user mode: validation/arm64.sh [-p PACKAGE]... [-- TEST...]
# apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
# rustup target add aarch64-unknown-linux-gnu
set -uo pipefail
cd "$(dirname "$0")/.."

# They run on the machine that builds, are of x86-64 alone, or have tests of x86-64's KVM.
excluded=(bench fuzz machines pvclock-kvm parachron-lab parachron-vmm xtask)

# Tests that cannot be right in QEMU's user mode (7.2), or in the namespace below: a name, or a
# part of several.
skipped=(
    # No SO_TIMESTAMPNS, with which the host's socket dates its messages.
    the_latest_status_is_read_until_the_daemon_hangs
    daemon::guard::tests::
    a_daemon_is_beside_only_where_this_one_leaves_the_discipline_to_it
    a_source_that_waits_for_the_kernel_is_reported_once_as_the_program_describes_it
    a_hosts_time_is_what_it_would_step_by
    a_host_that_is_asked_is_right_within_the_way_to_it
    without_a_source_it_does_not_start_and_without_a_reply_it_fails
    it_says_what_it_knows_and_takes_good_settings_alone
    it_looks_between_two_samples_only_where_nothing_else_tells_of_a_pause
    host::awaited::tests::
    host::local::tests::
    # A process has the memory, the start and the errors of the emulator.
    it_records_and_goes_on_where_it_was_killed
    it_stays_small_and_wakes_for_samples_alone
    a_flood_of_connections_to_its_metrics_is_bounded_and_closed
    a_missing_partner_and_one_that_sends_nonsense_are_distinguished
    a_guard_that_does_not_start_is_an_error
    # promtool, started from there, ends before it reads: not explained.
    promtool_
    # No openat2, with which a tree's links are followed inside it.
    tree::tests::links_stay_inside
    # No user but root in the namespace, and the host's socket as above.
    a_freeze_of_a_part_is_an_error_and_the_next_request_freezes_the_rest
    a_daemon_that_hangs_leaves_nothing_frozen
    a_thaw_that_fails_is_tried_again
    a_gate_that_another_process_opened_is_open
    a_workload_is_frozen_for_a_snapshot_and_thawed_after_the_limit
    a_workload_is_thawed_once_the_clock_is_measured
    an_ordinary_end_thaws
    more_clients_than_may_wait_are_refused
    groups_that_vanish_that_are_frozen_and_that_hold_the_daemon
    nothing_stays_frozen_after_a_kill_at_any_step
    the_next_start_thaws_what_was_left
)

command=(cargo test --no-fail-fast --target aarch64-unknown-linux-gnu)
while [ "${1:---}" != -- ]; do command+=("$1"); shift; done
case " ${command[*]} " in
*" -p "*) ;;
*) command+=(--workspace); for package in "${excluded[@]}"; do
    # Left out only where it is there: cargo refuses a name that it does not know.
    grep -rqsx "name = \"$package\"" --include=Cargo.toml crates validation xtask \
        && command+=(--exclude "$package"); done ;;
esac
command+=(--)
for test in "${skipped[@]}"; do command+=(--skip "$test"); done
command+=("${@:2}")

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# Programs that a test starts find their libraries as well.
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static
# The kernel is told that QEMU runs programs of arm64, so that tests can start some: for this
# command alone, in a user namespace (Linux 6.7; the bytes are ELF's, 64 bits, EM_AARCH64). Where
# that cannot be, those tests fail.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
RULE=":parachron-arm64:M::$magic:$mask:$(command -v qemu-aarch64-static):F"
export RULE PLACE=/proc/sys/fs/binfmt_misc
inner='mount -t binfmt_misc none "$PLACE" && printf %s "$RULE" >"$PLACE/register"; exec "$@"'
if unshare --user --map-root-user --mount true 2>/dev/null; then
    exec unshare --user --map-root-user --mount sh -c "$inner" sh "${command[@]}"
fi
exec "${command[@]}"
