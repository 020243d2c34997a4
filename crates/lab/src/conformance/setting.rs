//! Time across KVM_SET_CLOCK, and across our provider's equal.

use guest::source::Source;
use host::{Event, VcpuId};
use kvm_bindings::{KVM_CAP_ADJUST_CLOCK, KVM_CLOCK_REALTIME, kvm_clock_data};
use pvclock::Nanos;
use vmm::{MachineError, host_clock};

use super::checklist::{Checklist, Subject};
use super::kvm_clock::kvm_clock;
use crate::pages::reenter_all;
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// What the clock is set to, as kvm_clock_test has it.
const SET_S: [u64; 2] = [0, 180];
/// By how much real time is said to have passed since.
const PASSED_S: [i64; 2] = [180, -180];
/// Setting the clock and asking for it take less than this.
const SOON_NS: u64 = 5 * NANOS_PER_SECOND;

/// What the host says the guest's clock says.
fn host_says(subject: &Subject<'_>) -> Result<u64> {
    match subject.machine.with_host(|host, now, _| host.time(VcpuId(0), now)) {
        Some(time) => Ok(time.0),
        None => Ok(kvm_clock(subject)?.clock),
    }
}

fn set_kernel(subject: &Subject<'_>, clock: &kvm_clock_data) -> Result {
    let failed = |error| MachineError::Kvm { call: "KVM_SET_CLOCK", error };
    Ok(subject.machine.vm().set_clock(clock).map_err(failed)?)
}

/// The guest's clock lies between the host's two ideas of it, and those soon
/// after what it was set to.
fn look(subject: &Subject<'_>, name: &str, set_ns: u64, checklist: &mut Checklist) -> Result {
    reenter_all(&subject.machine)?;
    let before = host_says(subject)?;
    let guest = subject.read(0, Source::KvmClock)?.time_ns;
    let after = host_says(subject)?;
    checklist.holds(
        name,
        "guest between the host's before and after, soon after what was set",
        format!(
            "guest {guest} ns, {} ns after and {} ns before the host's",
            guest.wrapping_sub(before).cast_signed(),
            after.wrapping_sub(guest).cast_signed()
        ),
        (before..=after).contains(&guest) && guest.wrapping_sub(set_ns) < SOON_NS,
    );
    Ok(())
}

pub(super) fn clock(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    for set_s in SET_S {
        let clock = set_s * NANOS_PER_SECOND;
        if subject.is_own() {
            subject.machine.tell(Event::ClockSet { clock: Nanos(clock) });
        } else {
            set_kernel(subject, &kvm_clock_data { clock, ..Default::default() })?;
        }
        look(subject, &format!("clock set to {set_s} s"), clock, checklist)?;
    }
    Ok(())
}

/// With KVM_CLOCK_REALTIME the clock goes on by the real time that has passed,
/// and by none where that is less than none.
pub(super) fn by_real_time(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    if subject.is_own() {
        // `restore` tells of the policies that ours has for this.
        return Ok(());
    }
    let flags = subject.machine.vm().check_extension_raw(KVM_CAP_ADJUST_CLOCK.into());
    for passed_s in PASSED_S {
        let name = format!("clock set by real time {passed_s} s ago");
        if flags.cast_unsigned() & KVM_CLOCK_REALTIME == 0 {
            let why = "this KVM has no KVM_CLOCK_REALTIME (Linux 5.16)";
            checklist.not_measured(&name, "the clock goes on by it", "", why);
            continue;
        }
        let passed_ns = passed_s * NANOS_PER_SECOND.cast_signed();
        let realtime = host_clock::read().real.0.0.wrapping_add_signed(-passed_ns);
        let flags = KVM_CLOCK_REALTIME;
        set_kernel(subject, &kvm_clock_data { flags, realtime, ..Default::default() })?;
        look(subject, &name, passed_ns.max(0).cast_unsigned(), checklist)?;
    }
    Ok(())
}
