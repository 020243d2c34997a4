//! A thread that meets the provider's deadlines, which a vCPU that never leaves the
//! guest would not, tells it when the host's clock is no longer TSC-based, and keeps the
//! VMClock up to date.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use host::HostEvent;

use crate::error::MachineError;
use crate::host_clock;
use crate::shared::Shared;

/// The shortest time between two deadlines, whatever the configured period.
const LEAST: Duration = Duration::from_millis(1);

/// How long the provider may think that the host still has its TSC: KVM is told by the
/// kernel at once (`pvclock_gtod_notify`), a process has to look.
const LOOK: Duration = Duration::from_millis(100);

/// The host's clocksource as last seen: what an experiment tells the provider stands
/// until it changes.
struct Clocksource {
    is_tsc: bool,
}

impl Clocksource {
    fn look(&mut self, shared: &Shared, is_tsc: Option<bool>) {
        if let Some(is_tsc) = is_tsc.filter(|&is_tsc| is_tsc != self.is_tsc) {
            self.is_tsc = is_tsc;
            shared.notify(HostEvent::HostClocksource { is_tsc });
        }
        let is_tsc = self.is_tsc;
        shared.with_vmclock(|vmclock, ram| {
            vmclock.host_has_tsc(is_tsc, ram);
            vmclock.tick(ram);
        });
    }
}

/// The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Alarm {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, MachineError> {
        let waited_on = Arc::clone(shared);
        // Before a vCPU runs.
        let mut clocksource = Clocksource { is_tsc: true };
        clocksource.look(shared, host_clock::clocksource_is_tsc());
        let thread = std::thread::Builder::new()
            .name("deadlines".to_owned())
            .spawn(move || {
                while let Some(is_due) = waited_on.wait_for_deadline(LOOK) {
                    if is_due {
                        waited_on.meet_deadline();
                        std::thread::sleep(LEAST);
                    }
                    clocksource.look(&waited_on, host_clock::clocksource_is_tsc());
                }
            })
            .map_err(MachineError::Thread)?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.end_deadlines();
        if let Some(thread) = self.thread.take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use host::{ClockProvider, GuestClock, PerVcpu, VcpuId};
    use pvclock::Hertz;

    use super::*;
    use crate::devices::{Devices, Present};
    use crate::memory::GuestRam;
    use crate::shared::{Inner, OwnTime};

    #[test]
    fn a_host_that_gives_its_tsc_up_ends_the_master_clock() {
        let now = host_clock::read();
        let clock =
            GuestClock::new(host::ClockSettings::new(ClockProvider::Kvm, Hertz(1 << 31)), now)
                .unwrap();
        let devices = Devices::new(&Present::ALL);
        let inner = Inner::new(Some(clock), devices, OwnTime::starting(now));
        let shared = Shared::new(GuestRam::new(guest::layout::MEMORY_MIN).unwrap(), inner);
        shared.notify(HostEvent::VcpuCreated { vcpu: VcpuId(0), tsc_offset: 0 });
        let why = || shared.with_clock(|clock, _, _| clock.why_per_vcpu()).unwrap();
        let mut clocksource = Clocksource { is_tsc: true };
        for (seen, expected) in [
            (Some(true), None),
            (Some(false), Some(PerVcpu::HostClocksource)),
            (None, Some(PerVcpu::HostClocksource)),
            (Some(true), None),
        ] {
            clocksource.look(&shared, seen);
            assert_eq!(why(), expected, "{seen:?}");
        }
    }
}
