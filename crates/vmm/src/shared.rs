//! State that all vCPUs of a machine share: memory, devices, the provider, and
//! the machine's own time.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use guest::protocol::SharedArea;
use host::{GuestClock, HostClocks, HostEvent, VcpuId};
use pvclock::Nanos;

use crate::devices::{Devices, DevicesState, Moment};
use crate::handover::{Control, Vcpus};
use crate::host_clock;
use crate::linux_boot::HypercallPage;
use crate::memory::GuestRam;
use crate::network::NetworkLink;
use crate::vmclock::MachineVmClock;

/// The machine's own time: the host's, less the time that it was stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnTime {
    /// Host boot time less machine time, wrapping.
    pub(crate) behind: u64,
    /// Its value, while it is stopped.
    pub(crate) stopped_at: Option<Nanos>,
}

impl OwnTime {
    pub(crate) fn starting(now: HostClocks) -> Self {
        Self { behind: now.boot.0, stopped_at: None }
    }

    pub(crate) fn guest_ns(&self, now: HostClocks) -> Nanos {
        self.stopped_at.unwrap_or(Nanos(now.boot.0.wrapping_sub(self.behind)))
    }

    /// Continues from `from`, now.
    pub(crate) fn resume(&mut self, from: Nanos, now: HostClocks) {
        *self = Self { behind: now.boot.0.wrapping_sub(from.0), stopped_at: None };
    }
}

/// The part under one lock: each access to it is short.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) host: Option<GuestClock>,
    pub(crate) devices: Devices,
    pub(crate) own_time: OwnTime,
    /// Where this machine has Hyper-V's hypercall page.
    pub(crate) hypercalls: Option<HypercallPage>,
    pub(crate) vmclock: Option<MachineVmClock>,
    /// Nobody waits for the provider's deadlines any more.
    deadlines_ended: bool,
}

impl Inner {
    pub(crate) fn new(host: Option<GuestClock>, devices: Devices, own_time: OwnTime) -> Self {
        let (hypercalls, vmclock) = (None, None);
        Self { host, devices, own_time, hypercalls, vmclock, deadlines_ended: false }
    }

    fn moment(&self) -> Moment {
        let now = host_clock::read();
        Moment { since_start: self.own_time.guest_ns(now), real: now.real }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.host.as_ref().and_then(GuestClock::deadline)
    }
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ram: GuestRam,
    pub(crate) vcpus: Vcpus,
    pub(crate) network: Option<Arc<NetworkLink>>,
    inner: Mutex<Inner>,
    /// The provider has another deadline, or the wait is over.
    deadline_changed: Condvar,
}

impl Shared {
    /// Of so many vCPUs, and what each of their threads takes its commands from.
    pub(crate) fn new(
        ram: GuestRam,
        inner: Inner,
        network: Option<Arc<NetworkLink>>,
        vcpus: usize,
    ) -> (Self, Vec<Receiver<Control>>) {
        let (vcpus, receivers) = Vcpus::new(vcpus);
        let (inner, deadline_changed) = (Mutex::new(inner), Condvar::new());
        (Self { ram, vcpus, network, inner, deadline_changed }, receivers)
    }

    pub(crate) fn shared(&self) -> &SharedArea {
        self.ram.shared()
    }

    /// A vCPU that panicked leaves valid state: each device is changed in one
    /// call.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `action` with the provider, if the clock is ours.
    pub(crate) fn with_clock<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, HostClocks, &GuestRam) -> R,
    ) -> Option<R> {
        let mut inner = self.lock();
        // After the lock is taken: time passes while waiting for it.
        let now = host_clock::read();
        let before = inner.deadline();
        let result = inner.host.as_mut().map(|host| action(host, now, &self.ram));
        if inner.deadline() != before {
            self.deadline_changed.notify_all();
        }
        result
    }

    /// The same while no vCPU runs guest code: whatever takes a new common
    /// snapshot must be done like this ([`HostEvent::stops_all`]).
    pub(crate) fn with_clock_exclusive<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, HostClocks, &GuestRam) -> R,
    ) -> Option<R> {
        let _out = self.vcpus.bring_all_out();
        self.with_clock(action)
    }

    /// Waits for the provider's deadline, but at most so long, and returns whether it
    /// has come; `None` at the end.
    pub(crate) fn wait_for_deadline(&self, at_most: Duration) -> Option<bool> {
        let started = Instant::now();
        let mut inner = self.lock();
        while !inner.deadlines_ended {
            let left = inner.deadline().map(|at| at.0.saturating_sub(host_clock::boot().0));
            let rest = at_most.saturating_sub(started.elapsed());
            let wait = left.map_or(rest, |ns| rest.min(Duration::from_nanos(ns)));
            if left == Some(0) || rest.is_zero() {
                return Some(left == Some(0));
            }
            let waited = self.deadline_changed.wait_timeout(inner, wait);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Handles the deadline: all vCPUs leave the guest and write their pages on
    /// their way in.
    pub(crate) fn meet_deadline(&self) {
        let _ = self.with_clock_exclusive(|host, now, ram| host.handle(HostEvent::Timer, now, ram));
    }

    pub(crate) fn end_deadlines(&self) {
        self.lock().deadlines_ended = true;
        self.deadline_changed.notify_all();
    }

    pub(crate) fn has_clock(&self) -> bool {
        self.lock().host.is_some()
    }

    /// Stops the machine's own time.
    pub(crate) fn stop_time(&self) {
        let mut inner = self.lock();
        inner.own_time.stopped_at = Some(inner.own_time.guest_ns(host_clock::read()));
    }

    /// Continues it from where it stopped.
    pub(crate) fn resume_time(&self) {
        let mut inner = self.lock();
        let now = host_clock::read();
        let from = inner.own_time.guest_ns(now);
        inner.own_time.resume(from, now);
    }

    pub(crate) fn save_devices(&self, now: HostClocks) -> (DevicesState, Nanos) {
        let inner = self.lock();
        (inner.devices.save(), inner.own_time.guest_ns(now))
    }

    /// Passes an event to the provider, if the clock is ours, with all vCPUs
    /// out of the guest where the event needs that.
    pub(crate) fn notify(&self, event: HostEvent) {
        let _ = if event.stops_all() {
            self.with_clock_exclusive(|host, now, ram| host.handle(event, now, ram))
        } else {
            self.with_clock(|host, now, ram| host.handle(event, now, ram))
        };
    }

    /// Runs `action` with the VMClock, if there is one.
    pub(crate) fn with_vmclock<R>(
        &self,
        action: impl FnOnce(&mut MachineVmClock, &GuestRam) -> R,
    ) -> Option<R> {
        self.lock().vmclock.as_mut().map(|vmclock| action(vmclock, &self.ram))
    }

    /// `None`: #GP for the guest.
    pub(crate) fn read_msr(&self, vcpu: VcpuId, msr: u32) -> Option<u64> {
        if let Some(page) = &self.lock().hypercalls
            && let Some(value) = page.read(msr)
        {
            return Some(value);
        }
        self.with_clock(|host, now, ram| host.read_msr(vcpu, msr, now, ram).ok()).flatten()
    }

    /// The old kvm-clock MSR ends the master clock and the new one starts it; a
    /// guest writes these seldom, so all vCPUs leave the guest for each write.
    ///
    /// `false`: #GP for the guest.
    pub(crate) fn write_msr(&self, vcpu: VcpuId, msr: u32, value: u64) -> bool {
        if let Some(page) = &mut self.lock().hypercalls
            && let Some(written) = page.write(msr, value, &self.ram)
        {
            return written;
        }
        self.with_clock_exclusive(|host, now, ram| host.write_msr(vcpu, msr, value, now, ram))
            .is_some_and(|written| written.is_ok())
    }

    /// Runs `action` with the devices, at this moment.
    pub(crate) fn with_devices<R>(&self, action: impl FnOnce(&mut Devices, &Moment) -> R) -> R {
        let mut inner = self.lock();
        let moment = inner.moment();
        action(&mut inner.devices, &moment)
    }

    pub(crate) fn moment(&self) -> Moment {
        self.lock().moment()
    }
}
