//! The TSC's MSRs and its offset: RDTSC shows what the guest or the host
//! writes, and kvm-clock's time does not change with it.

use std::ops::RangeInclusive;

use guest::layout::GuestPages;
use guest::request::GuestRequest;
use guest::source::Source;
use host::msr::KVM_SYSTEM_TIME;
use vmm::{MachineError, host_clock};

use super::subject::ConformanceSubject;
use crate::results::Verdict;
use crate::settings::{LabError, Result};
use crate::tsc_offsets::TscOffsets;

const IA32_TSC: u32 = 0x10;
const IA32_TSC_ADJUST: u32 = 0x3b;
/// How far a TSC jumps: tens of seconds, more than any delay.
const JUMP: u64 = 1 << 37;
const WRITTEN: &str = "IA32_TSC written";
/// How far kvm-clock may be from the time that passed on the host.
const CLOCK_NS: i64 = 10_000;

/// The guest's clocks, between two readings of the host's.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    host_tsc: [u64; 2],
    host_ns: [u64; 2],
    tsc: u64,
    kvm_clock_ns: u64,
}

impl ClockSample {
    fn now(subject: &ConformanceSubject<'_>) -> Result<Self> {
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

    /// How much time passed on the host since, at least and at most, ns.
    fn passed_since(&self, earlier: &Self) -> [i64; 2] {
        [(0, 1), (1, 0)].map(|(end, start)| {
            self.host_ns[end].wrapping_sub(earlier.host_ns[start]).cast_signed()
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

/// A TSC that did not jump, or not by as much, has not failed if KVM does not
/// keep offsets.
fn judge(jumped: RangeInclusive<i64>, offsets: TscOffsets) -> Verdict {
    Verdict::judge(jumped.contains(&JUMP.cast_signed())).excused(offsets.reason())
}

/// Makes the TSC jump by `cause`, and checks both clocks.
fn jump(
    subject: &ConformanceSubject<'_>,
    name: &str,
    cause: impl FnOnce(&ClockSample) -> Result,
) -> Result {
    if !subject.is_own() {
        // A jump before this one may not have reached the page yet.
        subject.write_msr(KVM_SYSTEM_TIME, GuestPages::time_address(0) | 1)?;
        subject.reenter_all()?;
    }
    let expected = format!("RDTSC jumps by {JUMP} cycles");
    let before = ClockSample::now(subject)?;
    match cause(&before) {
        Err(LabError::Machine(MachineError::Declined { outcome, .. })) => {
            subject.holds(name, &expected, format!("{outcome:?}"), false);
            return Ok(());
        }
        caused => caused?,
    }
    // A TSC that is written is that much further on from the moment of the write
    // on, not from the reading before.
    let late = if name == WRITTEN {
        host_clock::read().tsc.0.wrapping_sub(before.host_tsc[0]).cast_signed()
    } else {
        0
    };
    subject.reenter_all()?;
    let after = ClockSample::now(subject)?;
    let (least, most) = after.jumped_since(&before);
    let most = most.saturating_add(late);
    let found = format!("jumped by {least} to {most} cycles");
    let verdict = judge(least..=most, TscOffsets::probe()?);
    subject.record(name, &expected, found, verdict);
    if !subject.is_own() && name == WRITTEN {
        // KVM does not rewrite the page before its next update
        // (kvm_set_msr_common).
        return Ok(());
    }
    let name = format!("{name}: kvm-clock unaffected");
    let expected = format!("advances by the host's time, ± {} µs", CLOCK_NS / 1000);
    let passed = after.kvm_clock_ns.wrapping_sub(before.kvm_clock_ns).cast_signed();
    let [least, most] = after.passed_since(&before);
    let found = format!("{passed} ns, while {least} to {most} ns passed on the host");
    let holds = (least - CLOCK_NS..=most + CLOCK_NS).contains(&passed);
    // The page was computed from a TSC that KVM then set elsewhere.
    subject.record(&name, &expected, found, subject.by_tsc(holds)?);
    Ok(())
}

pub(super) fn write_tsc(subject: &ConformanceSubject<'_>) -> Result {
    jump(subject, WRITTEN, |before| subject.write_msr(IA32_TSC, before.tsc.wrapping_add(JUMP)))
}

pub(super) fn write_tsc_adjust(subject: &ConformanceSubject<'_>) -> Result {
    let name = "IA32_TSC_ADJUST written";
    if subject.refuses(GuestRequest::ReadMsr { msr: IA32_TSC_ADJUST })? {
        subject.not_measured(name, "RDTSC jumps", "this KVM has no IA32_TSC_ADJUST");
        return Ok(());
    }
    let adjust = subject.read_msr(IA32_TSC_ADJUST)?.wrapping_add(JUMP);
    jump(subject, name, |_| subject.write_msr(IA32_TSC_ADJUST, adjust))?;
    subject.reads_back("IA32_TSC_ADJUST reads back", IA32_TSC_ADJUST, adjust)
}

pub(super) fn offset(subject: &ConformanceSubject<'_>) -> Result {
    let machine = &subject.machine;
    jump(subject, "TSC offset set by the host", |_| {
        let offset = machine.tsc_offset(0)?;
        machine.set_tsc_offset(0, offset.wrapping_add(JUMP))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsc_that_does_not_jump_is_excused_only_if_kvm_keeps_no_offset() {
        let jump = JUMP.cast_signed();
        for offsets in [TscOffsets::Ignored, TscOffsets::Moved] {
            assert!(matches!(judge(-5..=5, offsets), Verdict::NotMeasured(_)));
            assert_eq!(judge(jump - 5..=jump + 5, offsets), Verdict::Passed);
        }
        assert_eq!(judge(-5..=5, TscOffsets::Kept), Verdict::Failed);
        assert_eq!(judge(jump - 5..=jump + 5, TscOffsets::Kept), Verdict::Passed);
    }
}
