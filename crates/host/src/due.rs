//! Whether a vCPU has an update due, for its own thread to see without a lock.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether a vCPU has an update due. Its thread looks at this before each entry, and
/// takes the lock of the [`GuestClock`](crate::GuestClock) and reads the host's clocks
/// only if so. An event that comes after the look brings the vCPU out again
/// ([`HostEvent::stops_all`](crate::HostEvent::stops_all)), or can wait for its next entry.
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, HostClocks, ClockProvider, PlainMemory, ClockSettings, VcpuId, msr};
/// use pvclock::{Hertz, Nanos, Ticks};
/// use pvclock::units::UnixTime;
///
/// let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
/// let (memory, vcpu) = (PlainMemory::new(1), VcpuId(0));
/// let mut clock = GuestClock::new(ClockSettings::new(ClockProvider::Kvm, Hertz(1_000_000_000)), now)?;
/// clock.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, now, &memory);
/// let due = clock.due_flag(vcpu).ok_or("no such vCPU")?;
/// assert!(!due.is_due());
/// clock.write_msr(vcpu, msr::KVM_SYSTEM_TIME, PlainMemory::time(0).0 | 1, now, &memory)?;
/// assert!(due.is_due());
/// clock.before_entry(vcpu, now, &memory);
/// assert!(!due.is_due());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DueFlag(Arc<AtomicBool>);

impl DueFlag {
    /// Whether [`before_entry`](crate::GuestClock::before_entry) has something to do.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The flag as its clock owns it: a copy of the clock has flags of its own.
#[derive(Debug, Default)]
pub(crate) struct OwnFlag(Arc<AtomicBool>);

impl Clone for OwnFlag {
    fn clone(&self) -> Self {
        Self(Arc::new(AtomicBool::new(self.0.load(Ordering::Relaxed))))
    }
}

impl OwnFlag {
    pub(crate) fn share(&self) -> DueFlag {
        DueFlag(Arc::clone(&self.0))
    }

    #[inline]
    pub(crate) fn set(&self, is_due: bool) {
        self.0.store(is_due, Ordering::Release);
    }
}
