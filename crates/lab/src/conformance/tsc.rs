//! The TSC's MSRs and its offset: what a guest or host sets is what RDTSC
//! shows, and kvm-clock's time does not follow it.

use std::ops::RangeInclusive;

use guest::request::Request;
use guest::source::Source;
use vmm::{MachineError, host_clock};

use super::checklist::{Checklist, Subject};
use crate::pages::reenter_all;
use crate::results::Verdict;
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

const IA32_TSC: u32 = 0x10;
const IA32_TSC_ADJUST: u32 = 0x3b;
/// By how much a TSC is moved: tens of seconds, so that no delay is mistaken
/// for it.
const JUMP: u64 = 1 << 37;
const WRITTEN: &str = "IA32_TSC written";
/// What kvm-clock may be off the time that the host saw pass.
const CLOCK_NS: u64 = 10_000;

/// The guest's clocks, between two readings of the host's.
#[derive(Debug, Clone, Copy)]
struct Moment {
    host_tsc: [u64; 2],
    host_ns: [u64; 2],
    tsc: u64,
    kvm_clock_ns: u64,
}

impl Moment {
    fn now(subject: &Subject<'_>) -> Result<Self> {
        let before = host_clock::read();
        let reading = subject.read(0, Source::KvmClock)?;
        let after = host_clock::read();
        Ok(Self {
            host_tsc: [before.tsc.0, after.tsc.0],
            host_ns: [before.boot.0, after.boot.0],
            tsc: reading.tsc_before,
            kvm_clock_ns: reading.time_ns,
        })
    }

    /// By how much the TSC was moved since, and how much of that the readings
    /// leave open.
    fn moved_since(&self, earlier: &Self) -> (i64, i64) {
        let most = self.host_tsc[1].wrapping_sub(earlier.host_tsc[0]);
        let least = self.host_tsc[0].wrapping_sub(earlier.host_tsc[1]);
        let passed = self.tsc.wrapping_sub(earlier.tsc);
        (passed.wrapping_sub(most).cast_signed(), most.wrapping_sub(least).cast_signed())
    }
}

/// Whether this KVM keeps a TSC offset that it is given: asked of a vCPU that
/// nothing of ours has touched, so that what our own code leaves undone is not
/// put down to KVM.
fn takes_offset() -> std::result::Result<bool, MachineError> {
    let failed = |call| move |error| MachineError::Kvm { call, error };
    let vm = vmm::kvm::open()?.create_vm().map_err(failed("KVM_CREATE_VM"))?;
    let vcpu = vm.create_vcpu(0).map_err(failed("KVM_CREATE_VCPU"))?;
    let asked = vmm::kvm::tsc_offset(&vcpu)?.wrapping_add(JUMP);
    vmm::kvm::set_tsc_offset(&vcpu, asked)?;
    Ok(vmm::kvm::tsc_offset(&vcpu)? == asked)
}

/// A TSC that did not move is nobody's fault but KVM's, where that takes no
/// offset at all.
fn judge(moved: RangeInclusive<i64>, takes_offset: bool) -> Verdict {
    if moved.contains(&0) && !takes_offset {
        let why = "this KVM takes a TSC offset and does nothing: it reads back as before";
        Verdict::NotMeasured(why.to_owned())
    } else {
        Verdict::of(moved.contains(&JUMP.cast_signed()))
    }
}

/// Moves the TSC by `cause`, and looks.
fn look(
    subject: &Subject<'_>,
    name: &str,
    checklist: &mut Checklist,
    cause: impl FnOnce(&Moment) -> Result,
) -> Result {
    let bar = format!("RDTSC moves by {JUMP} cycles");
    let before = Moment::now(subject)?;
    match cause(&before) {
        Err(LabError::Machine(MachineError::Declined { outcome, .. })) => {
            checklist.holds(name, &bar, format!("{outcome:?}"), false);
            return Ok(());
        }
        caused => caused?,
    }
    reenter_all(&subject.machine)?;
    let after = Moment::now(subject)?;
    let (moved, open) = after.moved_since(&before);
    let found = format!("moved by {moved} to {} cycles", moved + open);
    let verdict = judge(moved..=moved + open, takes_offset()?);
    checklist.judged(name, &bar, found, verdict);
    if !subject.is_own() && name == WRITTEN {
        // KVM leaves the page to its next update (kvm_set_msr_common).
        return Ok(());
    }
    let passed = after.kvm_clock_ns.wrapping_sub(before.kvm_clock_ns);
    let least = after.host_ns[0].saturating_sub(before.host_ns[1]);
    let most = after.host_ns[1] - before.host_ns[0];
    checklist.holds(
        &format!("{name}: kvm-clock goes on"),
        &format!("by the host's time, {} µs more either way", CLOCK_NS / 1000),
        format!("{passed} ns, where {least} to {most} ns passed"),
        (least.saturating_sub(CLOCK_NS)..=most + CLOCK_NS).contains(&passed),
    );
    Ok(())
}

pub(super) fn written(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    look(subject, WRITTEN, checklist, |before| {
        subject.write_msr(IA32_TSC, before.tsc.wrapping_add(JUMP))
    })
}

pub(super) fn adjusted(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let name = "IA32_TSC_ADJUST written";
    if subject.refuses(Request::ReadMsr { msr: IA32_TSC_ADJUST })? {
        checklist.not_measured(name, "RDTSC moves", "", "this KVM has no IA32_TSC_ADJUST");
        return Ok(());
    }
    let adjust = subject.read_msr(IA32_TSC_ADJUST)?.wrapping_add(JUMP);
    look(subject, name, checklist, |_| subject.write_msr(IA32_TSC_ADJUST, adjust))?;
    let read = subject.read_msr(IA32_TSC_ADJUST)?;
    checklist.holds(
        "IA32_TSC_ADJUST reads back",
        &format!("{adjust:#x}"),
        format!("{read:#x}"),
        read == adjust,
    );
    Ok(())
}

pub(super) fn offset(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    look(subject, "TSC offset set by the host", checklist, |_| {
        let offset = subject.machine.call_vcpu(0, |vcpu| vmm::kvm::tsc_offset(vcpu))??;
        subject.machine.set_tsc_offset(0, offset.wrapping_add(JUMP))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsc_that_stays_is_excused_only_where_kvm_takes_no_offset() {
        let jump = JUMP.cast_signed();
        assert!(matches!(judge(-5..=5, false), Verdict::NotMeasured(_)));
        assert_eq!(judge(-5..=5, true), Verdict::Failed);
        assert_eq!(judge(jump - 5..=jump + 5, false), Verdict::Passed);
        assert_eq!(judge(jump - 5..=jump + 5, true), Verdict::Passed);
        assert_eq!(judge(7..=9, false), Verdict::Failed);
    }
}
