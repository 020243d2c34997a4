//! A machine saved whole, and restored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ::kvm::{
    HostCapabilities, HostTsc, KvmClockState, KvmVcpu as _, RestoredTsc, SavedTsc, host_clock,
};
use host::{GuestClock, HostClocks, HostEvent, RestorePolicy, SavedGuestClock, VcpuId};
use kvm_ioctls::{VcpuFd, VmFd};
use pvclock::{Hertz, Nanos};

use super::{Machine, VcpuProgress};
use crate::devices::{Devices, DevicesState};
use crate::error::MachineError;
use crate::handover::Control;
use crate::kvm;
use crate::kvm::{Chips, VcpuState};
use crate::linux_boot::HypercallPage;
use crate::memory::GuestRam;
use crate::settings::{ClockBackend, Settings};
use crate::shared::{Inner, OwnTime};
use crate::vcpu::{IA32_TSC_ADJUST, IA32_TSC_DEADLINE};

/// A saved machine: memory, vCPUs, devices, clock.
#[derive(Debug, Clone)]
pub struct SavedMachine {
    settings: Settings,
    /// Runs of its memory that are not zeros, each with its address.
    memory: Vec<(u64, Vec<u8>)>,
    vcpus: Vec<SavedMachineVcpu>,
    devices: DevicesState,
    own_time: Nanos,
    /// KVM's clock; for each backend it contains the TSCs.
    clock: KvmClockState,
    host: Option<SavedGuestClock>,
    /// The VMClock's marks.
    vmclock: Option<(u64, u64)>,
    /// Of a Linux guest.
    chips: Option<Chips>,
    hypercalls: Option<HypercallPage>,
}

impl SavedMachine {
    /// The host's clocks at the moment at which the guest's stood: KVM's where
    /// its clock is the guest's, else our provider's.
    pub fn host_clocks(&self) -> HostClocks {
        self.host.as_ref().map_or(self.clock.clock.taken, SavedGuestClock::host_clocks)
    }

    /// As if the saving host's TSC had had another rate than it had.
    #[must_use]
    pub fn told_rate(mut self, rate: Hertz) -> Self {
        self.clock.host.tsc.frequency = rate;
        self.clock.tscs.iter_mut().for_each(|tsc| tsc.frequency = rate);
        self.host = self.host.map(|host| host.with_rate(rate));
        self
    }
}

/// The restored clock of a machine: KVM's, or our provider's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredVmClock {
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// The guest's clock after the restore.
    pub clock: Nanos,
    /// Each vCPU's TSC.
    pub tscs: Vec<RestoredTsc>,
    /// When the restore began: with `Freeze` nothing passed until then.
    pub began: HostClocks,
    /// From when on the clocks go on: `away` ends here.
    pub since: HostClocks,
    /// How far the guest's clock may be from the plan, but for errors of the
    /// hosts' real time.
    pub bound: Nanos,
}

#[derive(Debug, Clone)]
struct SavedMachineVcpu {
    state: VcpuState,
    progress: VcpuProgress,
}

impl Machine {
    /// Saves all of it. This pauses the machine; resume or drop it afterwards.
    ///
    /// # Errors
    /// A thread has ended, KVM's own error, or [`MachineError::Unsaveable`]:
    /// the MSRs of KVM's own Hyper-V clock are not saved here.
    pub fn save(&self) -> Result<SavedMachine, MachineError> {
        if self.settings.backend == ClockBackend::KernelHyperV {
            return Err(MachineError::Unsaveable { what: "KVM's own Hyper-V clock" });
        }
        if self.settings.network.is_some() {
            return Err(MachineError::Unsaveable { what: "a network card" });
        }
        let is_linux = self.settings.linux.is_some();
        if is_linux && self.guest_fault().is_some() {
            return Err(MachineError::Unsaveable { what: "a Linux guest that has ended" });
        }
        let kvm = kvm::open()?;
        let here = kvm::query_host(&kvm)?;
        let host_tsc = here.tsc;
        let msrs = Arc::new(kvm::msrs(&kvm)?);
        self.pause()?;
        // All clocks together and first: the rest takes milliseconds.
        let clock = ::kvm::save_clock(&self.vm, host_tsc)?;
        let taken = clock.taken;
        let host = self.shared.with_clock(|host, now, _| host.save(now));
        let (devices, own_time) = self.shared.save_devices(taken);
        let mut vcpus = Vec::new();
        let mut tscs = Vec::new();
        for (index, handle) in self.shared.vcpus.all().iter().enumerate() {
            let msrs = Arc::clone(&msrs);
            let (state, tsc, timer, next) = self.on_vcpu(index, move |vcpu| {
                let tsc = SavedTsc::save(&vcpu.fd, host_tsc, taken);
                let state = VcpuState::save(&vcpu.fd, &msrs, is_linux);
                (state, tsc, vcpu.timer, vcpu.next.as_restored())
            })?;
            tscs.push(tsc?);
            let progress = VcpuProgress {
                timer,
                next,
                guest_fault: handle.guest_fault(),
                last_request: handle.last_request.load(Ordering::Relaxed),
            };
            vcpus.push(SavedMachineVcpu { state: state?, progress });
        }
        Ok(SavedMachine {
            settings: self.settings.clone(),
            memory: self.shared.ram.runs()?,
            vcpus,
            devices,
            own_time,
            clock: KvmClockState::new(clock, here, tscs),
            host,
            vmclock: self.shared.with_vmclock(|vmclock, _| vmclock.marks()),
            chips: if is_linux { Some(Chips::save(&self.vm)?) } else { None },
            hypercalls: self.shared.lock().hypercalls.clone(),
        })
    }

    /// Restores the machine and lets it run; returns it with its restored
    /// clock.
    ///
    /// # Errors
    /// No KVM, or its own error.
    pub fn restore(
        saved: &SavedMachine,
        policy: RestorePolicy,
    ) -> Result<(Self, RestoredVmClock), MachineError> {
        let started = Instant::now();
        let kvm = kvm::open()?;
        let here = kvm::query_host(&kvm)?;
        let settings = &saved.settings;
        let ram = GuestRam::new(settings.memory)?;
        saved.memory.iter().try_for_each(|(address, bytes)| ram.write(*address, bytes))?;
        let vm = kvm::create_vm(&kvm, &ram, settings)?;
        let now = host_clock::read();
        let host = match (&saved.host, &settings.backend) {
            (Some(host), ClockBackend::Own(settings)) => {
                Some(GuestClock::restore(host, *settings, policy, now)?)
            }
            _ => None,
        };
        let mut fds = Vec::new();
        for (id, vcpu) in (0..).zip(&saved.vcpus) {
            let fd = vm.create_vcpu(id).map_err(MachineError::kvm("KVM_CREATE_VCPU"))?;
            vcpu.state.restore(&fd)?;
            fds.push(fd);
        }
        if let Some(chips) = &saved.chips {
            chips.restore(&vm)?;
        }
        let clock = match &host {
            None => restore_kernel_clock(&vm, &fds, saved, &here, policy)?,
            Some((_, restored)) => set_tscs(&fds, restored, saved, here.tsc, now)?,
        };
        let now = clock.since;
        let mut own_time = OwnTime::starting(now);
        own_time.resume(Nanos(saved.own_time.0.saturating_add(clock.away.0)), now);
        let line = Self::serial_line(&vm, settings)?;
        let devices = Devices::restore(&saved.devices, line).ok_or(MachineError::Devices)?;
        let mut inner = Inner::new(host.map(|(host, _)| host), devices, own_time);
        inner.hypercalls.clone_from(&saved.hypercalls);
        let (mut machine, receivers) = Self::around(vm, ram, inner, settings, started, None)?;
        for (id, ((fd, control), vcpu)) in
            (0..).map(VcpuId).zip(fds.into_iter().zip(receivers).zip(&saved.vcpus))
        {
            machine.add(id, fd, control, vcpu.progress)?;
        }
        // Where KVM did not take an offset, the provider must know.
        for (index, tsc) in clock.tscs.iter().enumerate() {
            if tsc.offset != tsc.wanted {
                let vcpu = VcpuId(index as u32);
                machine.shared.notify(HostEvent::TscOffsetChanged { vcpu, tsc_offset: tsc.offset });
            }
        }
        machine.start_vmclock(&kvm, saved.vmclock)?;
        machine.send_all(|| Control::Resume);
        Ok((machine, clock))
    }
}

fn restore_kernel_clock(
    vm: &VmFd,
    fds: &[VcpuFd],
    saved: &SavedMachine,
    here: &HostCapabilities,
    policy: RestorePolicy,
) -> Result<RestoredVmClock, MachineError> {
    let fds: Vec<_> = fds.iter().collect();
    let restored = ::kvm::restore(vm, &fds, &saved.clock, here, policy)?;
    let clock = restored.clock;
    Ok(RestoredVmClock {
        away: clock.plan.away,
        clock: clock.plan.clock,
        tscs: restored.tscs,
        began: clock.began,
        since: clock.since,
        bound: clock.step.bound,
    })
}

/// Our provider's clock continues as of `now`; the TSCs are all that KVM has of it, and
/// what counts in them.
fn set_tscs(
    fds: &[VcpuFd],
    restored: &host::RestoredTransfer,
    saved: &SavedMachine,
    host_tsc: HostTsc,
    now: HostClocks,
) -> Result<RestoredVmClock, MachineError> {
    let tscs = fds.iter().zip(&restored.vcpus).zip(&saved.clock.tscs).map(|((fd, vcpu), tsc)| {
        let (frequency, wanted) = (host_tsc.frequency, vcpu.tsc_offset);
        let offset = kvm::set_tsc_offset(fd, wanted)?;
        for (msr, value) in [(IA32_TSC_ADJUST, tsc.adjust), (IA32_TSC_DEADLINE, tsc.deadline)] {
            if let Some(value) = value.filter(|value| *value != 0)
                && !fd.set_msr(msr, value)?
            {
                return Err(::kvm::Error::Msr { msr, value }.into());
            }
        }
        Ok(RestoredTsc::new(frequency, wanted, offset))
    });
    Ok(RestoredVmClock {
        away: restored.away,
        clock: restored.clock,
        tscs: tscs.collect::<Result<_, MachineError>>()?,
        began: now,
        since: now,
        bound: restored.step.bound,
    })
}

#[cfg(test)]
mod tests;
