//! A thread that meets the provider's deadlines, which a vCPU that never leaves the
//! guest would not, tells it when the host's clock is no longer TSC-based, and keeps the
//! VMClock up to date.

use std::sync::Arc;
use std::time::Duration;

use host::HostEvent;

use crate::error::MachineError;
use crate::handover::Background;
use crate::host_clock;
use crate::shared::Shared;

/// The shortest time between two deadlines, whatever the configured period.
const LEAST: Duration = Duration::from_millis(1);

/// How long the provider may think that the host still has its TSC: KVM is told by the
/// kernel at once (`pvclock_gtod_notify`), a process has to look.
const LOOK: Duration = Duration::from_millis(100);

/// Passes on what the host's clocksource is, where that has changed since `is_tsc`: what an
/// experiment tells the provider stands until then.
fn look(shared: &Shared, is_tsc: &mut bool, found: Option<bool>) {
    if let Some(found) = found.filter(|found| found != is_tsc) {
        *is_tsc = found;
        shared.notify(HostEvent::HostClocksource { is_tsc: found });
    }
    shared.with_vmclock(|vmclock, ram| {
        vmclock.host_has_tsc(*is_tsc, ram);
        vmclock.tick(ram);
    });
}

/// Starts it.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Background, MachineError> {
    let (waited_on, ended) = (Arc::clone(shared), Arc::clone(shared));
    // Before a vCPU runs.
    let mut is_tsc = true;
    look(shared, &mut is_tsc, host_clock::clocksource_is_tsc());
    let run = move || {
        while let Some(is_due) = waited_on.wait_for_deadline(LOOK) {
            if is_due {
                waited_on.meet_deadline();
                std::thread::sleep(LEAST);
            }
            look(&waited_on, &mut is_tsc, host_clock::clocksource_is_tsc());
        }
    };
    Background::start("deadlines", run, move || ended.end_deadlines())
}

#[cfg(test)]
mod tests {
    use host::{ClockProvider, GuestClock, PerVcpu, VcpuId};
    use pvclock::Hertz;

    use super::*;
    use crate::devices::Devices;
    use crate::memory::GuestRam;
    use crate::shared::{Inner, OwnTime};

    #[test]
    fn a_host_that_gives_its_tsc_up_ends_the_master_clock() {
        let now = host_clock::read();
        let clock =
            GuestClock::new(host::ClockSettings::new(ClockProvider::Kvm, Hertz(1 << 31)), now)
                .unwrap();
        let devices = Devices::new(true, None);
        let inner = Inner::new(Some(clock), devices, OwnTime::starting(now));
        let ram = GuestRam::new(guest::layout::MEMORY_MIN).unwrap();
        let (shared, _) = Shared::new(ram, inner, None, 1);
        shared.notify(HostEvent::VcpuCreated { vcpu: VcpuId(0), tsc_offset: 0 });
        let why = || shared.with_clock(|clock, _, _| clock.why_per_vcpu()).unwrap();
        let mut is_tsc = true;
        for (seen, expected) in [
            (Some(true), None),
            (Some(false), Some(PerVcpu::HostClocksource)),
            (None, Some(PerVcpu::HostClocksource)),
            (Some(true), None),
        ] {
            look(&shared, &mut is_tsc, seen);
            assert_eq!(why(), expected, "{seen:?}");
        }
    }
}
