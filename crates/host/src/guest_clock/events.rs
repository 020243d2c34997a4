//! What each event does to the clock.

use pvclock::Nanos;

use super::{GuestClock, after};
use crate::tsc::Source;
use crate::vcpu::Vcpu;
use crate::{ClockMemory, HostClocks, HostEvent, HostLogEvent, VcpuId};

/// How long after one page all are written: KVMCLOCK_UPDATE_DELAY,
/// arch/x86/kvm/x86.c, before Linux 6.19.
const ALL_AFTER: Nanos = Nanos(100_000_000);

impl GuestClock {
    /// Handles an event. Time pages are written at each vCPU's next
    /// [`before_entry`](GuestClock::before_entry), Hyper-V's page and the flag
    /// of a preempted vCPU at once. Events of a vCPU that was never created
    /// are ignored.
    pub fn handle(&mut self, event: HostEvent, now: HostClocks, memory: &impl ClockMemory) {
        match event {
            HostEvent::VcpuCreated { vcpu, tsc_offset } => {
                self.vcpu_created(vcpu, tsc_offset, now, memory);
            }
            HostEvent::VcpuMoved { vcpu, physical_cpu } => self.vcpu_moved(vcpu, physical_cpu, now),
            HostEvent::TscOffsetChanged { vcpu, tsc_offset } => {
                if let Some(vcpu) = self.vcpus.get_mut(&vcpu) {
                    vcpu.tsc_offset = tsc_offset;
                    self.recompute(now, memory);
                }
            }
            HostEvent::TscFrequencyAdvertised { frequency } => {
                self.advertise(frequency, now);
                self.recompute(now, memory);
            }
            HostEvent::TscRateChanged { vcpu, rate } => {
                if !self.rate_changed(vcpu, rate, now) {
                    self.log.push(now.boot, HostLogEvent::RateRefused { rate });
                }
                self.recompute(now, memory);
            }
            HostEvent::ClockSet { clock } => self.clock_set(clock, now, memory),
            HostEvent::VcpuReset { vcpu } => self.vcpu_reset(vcpu, now, memory),
            // The guest does not run while its host sleeps (KVM:
            // kvm_arch_suspend_notifier).
            HostEvent::HostSuspended => self.stop_is_due(),
            HostEvent::HostResumed => self.host_resumed(now, memory),
            HostEvent::HostClocksource { is_tsc } => {
                self.settings.host_clocksource_is_tsc = is_tsc;
                self.recompute_if_changed(now, memory);
            }
            HostEvent::PhysicalCpuAdded { physical_cpu, tsc_agrees: false } => {
                self.strays.insert(physical_cpu);
                self.recompute(now, memory);
            }
            HostEvent::PhysicalCpuAdded { physical_cpu, .. }
            | HostEvent::PhysicalCpuRemoved { physical_cpu } => {
                self.strays.remove(&physical_cpu);
                self.recompute_if_changed(now, memory);
            }
            HostEvent::Paused => self.paused = true,
            HostEvent::Resumed => {
                if core::mem::take(&mut self.paused) {
                    self.stop_is_due();
                }
            }
            HostEvent::Timer => self.timer(now),
            HostEvent::VcpuPreempted { vcpu } => {
                if let Some(vcpu) = self.vcpus.get_mut(&vcpu) {
                    vcpu.write_preempted(memory);
                }
            }
            HostEvent::StealMeasured { vcpu, stolen } => {
                if let Some(vcpu) = self.vcpus.get_mut(&vcpu) {
                    vcpu.stolen = stolen;
                    vcpu.due.steal |= vcpu.steal_time.page().is_some();
                }
            }
        }
        self.raise_flags();
        self.latest = now;
    }

    /// For a vCPU that exists already, only its offset changes.
    fn vcpu_created(
        &mut self,
        id: VcpuId,
        tsc_offset: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) {
        match self.vcpus.get_mut(&id) {
            Some(vcpu) if vcpu.tsc_offset != tsc_offset => {
                vcpu.tsc_offset = tsc_offset;
                self.recompute(now, memory);
            }
            Some(_) => {}
            None => {
                self.vcpus.insert(id, Vcpu::new(self.source, tsc_offset));
                self.recompute_if_changed(now, memory);
            }
        }
    }

    fn vcpu_moved(&mut self, id: VcpuId, physical_cpu: u32, now: HostClocks) {
        let master_clock = self.master_clock();
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return };
        match vcpu.physical_cpu.replace(physical_cpu) {
            None => vcpu.time_is_due(),
            Some(before) if before != physical_cpu && !master_clock => {
                vcpu.time_is_due();
                self.all_are_due_soon(now);
            }
            Some(_) => {}
        }
    }

    fn vcpu_reset(&mut self, id: VcpuId, now: HostClocks, memory: &impl ClockMemory) {
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return };
        vcpu.reset();
        if id == Self::BOOT_VCPU {
            self.boot_vcpu_uses_old_msr = false;
            self.hyperv.reset();
            self.recompute_if_changed(now, memory);
        }
    }

    /// The one event that may set time back: what the guest read before does
    /// not count.
    fn clock_set(&mut self, clock: Nanos, now: HostClocks, memory: &impl ClockMemory) {
        self.log.push(now.boot, HostLogEvent::ClockSet { from: self.clock(now), to: clock });
        self.clock_offset = clock.0.wrapping_sub(now.boot.0);
        for vcpu in self.vcpus.values_mut() {
            vcpu.snapshot = None;
        }
        self.latest_read = Nanos(0);
        self.republish(now, memory);
    }

    /// A host's TSC may restart when the host wakes; the guest's must not.
    fn host_resumed(&mut self, now: HostClocks, memory: &impl ClockMemory) {
        if let Source::Real { .. } = self.source
            && now.tsc < self.latest.tsc
        {
            let before = self.latest;
            let lost = |source: Source| source.base(before).wrapping_sub(source.base(now));
            let cycles = lost(self.source);
            self.change_sources(|source| (source, lost(source).wrapping_neg()));
            self.log.push(now.boot, HostLogEvent::TscWentBack { cycles });
        }
        self.recompute(now, memory);
    }

    fn timer(&mut self, now: HostClocks) {
        if self.all_due_at.is_some_and(|at| at <= now.boot) {
            self.all_due_at = None;
            self.all_are_due();
        }
        if let Some(period) = self.settings.sync_period
            && self.sync_due_at.is_some_and(|at| at <= now.boot)
        {
            self.sync_due_at = Some(after(now.boot, period));
            self.all_are_due();
        }
    }

    /// One page was written; the others follow, so that they do not diverge.
    pub(super) fn all_are_due_soon(&mut self, now: HostClocks) {
        self.all_due_at.get_or_insert(after(now.boot, ALL_AFTER));
    }

    fn stop_is_due(&mut self) {
        for vcpu in self.vcpus.values_mut() {
            vcpu.stop_is_due();
        }
    }
}
