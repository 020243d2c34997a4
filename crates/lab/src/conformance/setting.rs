//! Time across KVM_SET_CLOCK, and across the same on our provider.

use guest::source::Source;
use host::HostEvent;
use kvm_bindings::{KVM_CLOCK_REALTIME, kvm_clock_data};
use pvclock::Nanos;
use vmm::host_clock;

use super::subject::ConformanceSubject;
use crate::results::Verdict;
use crate::settings::Result;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// What the clock is set to: as in kvm_clock_test and hyperv_clock, and higher.
pub(super) const SET_S: [u64; 2] = [0, 180];
/// How long ago the clock was saved, by the real time that comes with it.
const PASSED_S: [i64; 2] = [180, -180];
/// Setting the clock and reading it take less than this.
pub(super) const SOON_NS: u64 = 5 * NANOS_PER_SECOND;

/// The guest's clock by its host.
pub(super) fn host_ns(subject: &ConformanceSubject<'_>) -> Result<u64> {
    match subject.provider_ns() {
        Some(ns) => Ok(ns),
        None => Ok(subject.machine.kernel_clock()?.clock),
    }
}

/// The guest's clock lies between two readings by its host, soon after what
/// the clock was set to.
fn check(subject: &ConformanceSubject<'_>, name: &str, set_ns: u64) -> Result {
    subject.reenter_all()?;
    let before = host_ns(subject)?;
    let guest = subject.read(0, Source::KvmClock)?.time_ns;
    let after = host_ns(subject)?;
    let holds = (before..=after).contains(&guest) && guest.wrapping_sub(set_ns) < SOON_NS;
    // KVM follows what it does itself to a TSC, ours cannot.
    let verdict = if subject.is_own() { subject.by_tsc(holds)? } else { Verdict::judge(holds) };
    subject.record(
        name,
        "guest's time between the host's readings before and after, within 5 s of the set time",
        format!(
            "guest {guest} ns, {} ns after the first reading, {} ns before the second",
            guest.wrapping_sub(before).cast_signed(),
            after.wrapping_sub(guest).cast_signed()
        ),
        verdict,
    );
    Ok(())
}

/// Sets the VM's clock, ns.
pub(super) fn set(subject: &ConformanceSubject<'_>, clock: u64) -> Result {
    if subject.is_own() {
        subject.machine.notify(HostEvent::ClockSet { clock: Nanos(clock) });
    } else {
        let data = kvm_clock_data { clock, ..Default::default() };
        subject.machine.set_kernel_clock(&data)?;
    }
    Ok(())
}

pub(super) fn clock(subject: &ConformanceSubject<'_>) -> Result {
    for set_s in SET_S {
        let clock = set_s * NANOS_PER_SECOND;
        set(subject, clock)?;
        check(subject, &format!("clock set to {set_s} s"), clock)?;
    }
    Ok(())
}

/// With KVM_CLOCK_REALTIME the clock advances by the real time that has
/// passed, and not at all if that is negative.
pub(super) fn by_real_time(subject: &ConformanceSubject<'_>) -> Result {
    let machine = &subject.machine;
    if subject.is_own() {
        // `restore` tests our provider's policies for this.
        return Ok(());
    }
    for passed_s in PASSED_S {
        let name = format!("clock set with a real time {passed_s} s ago");
        if machine.kernel_clock_flags() & KVM_CLOCK_REALTIME == 0 {
            let why = "this KVM has no KVM_CLOCK_REALTIME, which needs Linux 5.16 or later";
            subject.not_measured(&name, "the clock advances by that time", why);
            continue;
        }
        let passed_ns = passed_s * NANOS_PER_SECOND.cast_signed();
        let realtime = host_clock::read().real.0.0.wrapping_add_signed(-passed_ns);
        let flags = KVM_CLOCK_REALTIME;
        machine.set_kernel_clock(&kvm_clock_data { flags, realtime, ..Default::default() })?;
        check(subject, &name, passed_ns.max(0).cast_unsigned())?;
    }
    Ok(())
}
