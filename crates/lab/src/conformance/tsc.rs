//! The TSC's MSRs and its offset: RDTSC shows what the guest or the host
//! writes, and kvm-clock's time does not change with it.

use std::ops::RangeInclusive;

use guest::request::Request;
use guest::source::Source;
use vmm::{Machine, MachineError};

use super::subject::Subject;
use crate::results::Verdict;
use crate::settings::{LabError, Result};

const IA32_TSC: u32 = 0x10;
const IA32_TSC_ADJUST: u32 = 0x3b;
/// How far a TSC jumps: tens of seconds, more than any delay.
const JUMP: u64 = 1 << 37;
const WRITTEN: &str = "IA32_TSC written";
/// How far kvm-clock may be from the time that passed on the host.
const CLOCK_NS: u64 = 10_000;

/// The guest's clocks, between two readings of the host's.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    host_tsc: [u64; 2],
    host_ns: [u64; 2],
    tsc: u64,
    kvm_clock_ns: u64,
}

impl ClockSample {
    fn now(subject: &Subject<'_>) -> Result<Self> {
        let before = subject.host_clocks();
        let reading = subject.read(0, Source::KvmClock)?;
        let after = subject.host_clocks();
        Ok(Self {
            host_tsc: [before.tsc.0, after.tsc.0],
            host_ns: [before.boot.0, after.boot.0],
            tsc: reading.tsc_before,
            kvm_clock_ns: reading.time_ns,
        })
    }

    /// How far the TSC jumped since, at least and at most.
    fn jumped_since(&self, earlier: &Self) -> (i64, i64) {
        let most = self.host_tsc[1].wrapping_sub(earlier.host_tsc[0]);
        let least = self.host_tsc[0].wrapping_sub(earlier.host_tsc[1]);
        let passed = self.tsc.wrapping_sub(earlier.tsc);
        (passed.wrapping_sub(most).cast_signed(), passed.wrapping_sub(least).cast_signed())
    }
}

/// Whether this KVM keeps a TSC offset that is set: tested on a fresh vCPU, so
/// that a fault of our own code is not taken for KVM's.
fn keeps_offset() -> std::result::Result<bool, MachineError> {
    let failed = |call| move |error| MachineError::Kvm { call, error };
    let vm = vmm::kvm::open()?.create_vm().map_err(failed("KVM_CREATE_VM"))?;
    let vcpu = vm.create_vcpu(0).map_err(failed("KVM_CREATE_VCPU"))?;
    let set = vmm::kvm::tsc_offset(&vcpu)?.wrapping_add(JUMP);
    vmm::kvm::set_tsc_offset(&vcpu, set)?;
    Ok(vmm::kvm::tsc_offset(&vcpu)? == set)
}

/// A TSC that did not jump has not failed if this KVM ignores every offset.
fn judge(jumped: RangeInclusive<i64>, keeps_offset: bool) -> Verdict {
    if jumped.contains(&0) && !keeps_offset {
        let why = "this KVM ignores a TSC offset: it reads back as before";
        Verdict::NotMeasured(why.to_owned())
    } else {
        Verdict::of(jumped.contains(&JUMP.cast_signed()))
    }
}

/// Makes the TSC jump by `cause`, and checks both clocks.
fn jump(subject: &Subject<'_>, name: &str, cause: impl FnOnce(&ClockSample) -> Result) -> Result {
    let expected = format!("RDTSC jumps by {JUMP} cycles");
    let before = ClockSample::now(subject)?;
    match cause(&before) {
        Err(LabError::Machine(MachineError::Declined { outcome, .. })) => {
            subject.holds(name, &expected, format!("{outcome:?}"), false);
            return Ok(());
        }
        caused => caused?,
    }
    subject.reenter_all()?;
    let after = ClockSample::now(subject)?;
    let (least, most) = after.jumped_since(&before);
    let found = format!("jumped by {least} to {most} cycles");
    let verdict = judge(least..=most, keeps_offset()?);
    subject.judged(name, &expected, found, verdict);
    if !subject.is_own() && name == WRITTEN {
        // KVM does not rewrite the page before its next update
        // (kvm_set_msr_common).
        return Ok(());
    }
    let passed = after.kvm_clock_ns.wrapping_sub(before.kvm_clock_ns);
    let least = after.host_ns[0].saturating_sub(before.host_ns[1]);
    let most = after.host_ns[1] - before.host_ns[0];
    subject.holds(
        &format!("{name}: kvm-clock unaffected"),
        &format!("advances by the host's time, ± {} µs", CLOCK_NS / 1000),
        format!("{passed} ns, while {least} to {most} ns passed"),
        (least.saturating_sub(CLOCK_NS)..=most + CLOCK_NS).contains(&passed),
    );
    Ok(())
}

pub(super) fn written(subject: &Subject<'_>, _: &Machine) -> Result {
    jump(subject, WRITTEN, |before| subject.write_msr(IA32_TSC, before.tsc.wrapping_add(JUMP)))
}

pub(super) fn adjusted(subject: &Subject<'_>, _: &Machine) -> Result {
    let name = "IA32_TSC_ADJUST written";
    if subject.refuses(Request::ReadMsr { msr: IA32_TSC_ADJUST })? {
        subject.not_measured(name, "RDTSC jumps", "this KVM has no IA32_TSC_ADJUST");
        return Ok(());
    }
    let adjust = subject.read_msr(IA32_TSC_ADJUST)?.wrapping_add(JUMP);
    jump(subject, name, |_| subject.write_msr(IA32_TSC_ADJUST, adjust))?;
    subject.reads_back("IA32_TSC_ADJUST reads back", IA32_TSC_ADJUST, adjust)
}

pub(super) fn offset(subject: &Subject<'_>, machine: &Machine) -> Result {
    jump(subject, "TSC offset set by the host", |_| {
        let offset = machine.call_vcpu(0, |vcpu| vmm::kvm::tsc_offset(vcpu))??;
        machine.set_tsc_offset(0, offset.wrapping_add(JUMP))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsc_that_does_not_jump_is_excused_only_if_kvm_ignores_offsets() {
        let jump = JUMP.cast_signed();
        assert!(matches!(judge(-5..=5, false), Verdict::NotMeasured(_)));
        assert_eq!(judge(-5..=5, true), Verdict::Failed);
        assert_eq!(judge(jump - 5..=jump + 5, false), Verdict::Passed);
        assert_eq!(judge(jump - 5..=jump + 5, true), Verdict::Passed);
        assert_eq!(judge(7..=9, false), Verdict::Failed);
    }
}
