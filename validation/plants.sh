#!/bin/sh
# Plants known bugs in a scratch copy of the tree, one at a time, and runs the lab: each must
# turn it red. For a bug that no host without TSC offsets shows, a crate's unit tests must fail.
#
#   validation/plants.sh            all of them
#   validation/plants.sh steal-time scale
#
# A bar: 10 of each 12 are seen. Needs /dev/kvm, perl, and an idle machine: a busy one turns
# checks of time into "not measured", which is not red.
set -eu

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
scratch=${PLANTS_DIR:-$(mktemp -d)}
tree=$scratch/tree
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$scratch/target}"
git -C "$root" worktree add --force --detach "$tree" HEAD >/dev/null
trap 'git -C "$root" worktree remove --force "$tree"' EXIT

# name | files | perl substitution | what must turn red: experiments of the lab, or "unit CRATE"
plants() {
    cat <<'PLANTS'
scale|crates/pvclock/src/scale.rs|s/mul: mul as u32, shift/mul: mul as u32 - 1, shift/|conformance
stopped-lost|crates/pvclock/src/kvm_clock/writer.rs|s/Flags\(standing\.0 & Flags::GUEST_STOPPED\.0\)/Flags(standing.0 & 0)/|updates
version-even|crates/pvclock/src/sequence.rs|s/version\.store\(mark\);/version.store(mark & !1);/|conformance
wall-clock|crates/host/src/guest_clock/kvm.rs|s/now\.real\.0\.0\.saturating_sub\(/(now.real.0.0 + 300_000).saturating_sub(/|conformance
tsc-offset|crates/host/src/plan.rs|s/tsc_offset: tsc\.wrapping_sub\(base\)/tsc_offset: 0/|unit pvclock-host
steal-time|crates/host/src/vcpu.rs|s/held\.wrapping_add\(more\)/held.wrapping_add(more \& 0)/|conformance
lost-tick|crates/host/src/ticks.rs|s/self\.given \+= u64::from\(gives\);/let gives = gives \&\& now.0 \/ self.period.0 % 8 != 7;\n        self.given += u64::from(gives);/|ticks
restored-late|crates/host/src/plan.rs crates/host/src/transfer.rs|s/let sum = clock\.0\.checked_add\(away\.0\)/let sum = clock.0.checked_add(away.0 + 20_000)/; s/saved\.spread\.0\.saturating_add\(roundings\)/saved.spread.0.saturating_add(roundings + 50_000)/|restore
stable-flag|crates/host/src/guest_clock.rs|s/Err\(PerVcpu::TscOffsets\)/Ok(())/|updates
hyperv-ahead|crates/host/src/hyperv.rs|s/units\.wrapping_sub\(scaled/(units + 100).wrapping_sub(scaled/|offset
kvm-ahead|crates/host/src/guest_clock.rs|s/let clock = self\.clock_of_host\(now\);\n        TimeUpdate/let clock = Nanos(self.clock_of_host(now).0 + 9_000);\n        TimeUpdate/|offset
never-stable|crates/host/src/guest_clock.rs|s/(fn master_clock_rule.*?\{\n)/$1        if !self.vcpus.is_empty() {\n            return Err(PerVcpu::NoVcpu);\n        }\n/|monotonic
snapshot-jitter|crates/host/src/guest_clock.rs|s/let clock = self\.clock_of_host\(now\);\n        TimeUpdate/let clock = Nanos(self.clock_of_host(now).0 + now.tsc.0 % 8_192);\n        TimeUpdate/|updates
frequency|crates/host/src/settings.rs|s/let scale = Scale::from_hertz\(advertised\)/let scale = Scale::from_hertz(Hertz(advertised.0 + advertised.0 \/ 6_667))/|drift
PLANTS
}

red=0 tried=0
plants >"$scratch/plants"
while IFS='|' read -r name file change where; do
    case " $* " in *" $name "* | "  ") ;; *) continue ;; esac
    tried=$((tried + 1))
    git -C "$tree" checkout -q -- .
    (cd "$tree" && perl -0pi -e "$change" $file)
    if git -C "$tree" diff --quiet; then
        echo "$name: $file has no such code any more: change the plant" >&2
        exit 2
    fi
    log=$scratch/$name.log
    case $where in
    unit*)
        run="cargo test -q -p ${where#unit } --lib"
        build="$run --no-run"
        ;;
    *)
        build="cargo build -q -p parachron"
        run="$CARGO_TARGET_DIR/debug/parachron lab $where"
        ;;
    esac
    (cd "$tree" && $build) >"$log" 2>&1 </dev/null ||
        { echo "$name: does not build: $log" >&2; exit 2; }
    # 1: a check failed. Any other failure is not the lab's verdict.
    code=0
    (cd "$tree" && $run) >>"$log" 2>&1 </dev/null || code=$?
    case $where:$code in
    unit*:0 | *:0) seen=green ;;
    unit*:* | *:1) seen=red; red=$((red + 1)) ;;
    *) seen="exit $code" ;;
    esac
    echo "$name|$where|$seen"
done <"$scratch/plants"
echo "$red of $tried red; logs in $scratch"
[ "$red" -ge $((tried * 10 / 12)) ]
