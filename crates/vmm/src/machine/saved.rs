//! A machine saved whole, and restored.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ::kvm::{ClockState, Host, HostTsc, RestoredTsc, SavedTsc, host_clock};
use host::{Event, GuestClock, HostClocks, Policy, VcpuId};
use kvm_ioctls::{VcpuFd, VmFd};
use pvclock::Nanos;

use super::{Machine, Start};
use crate::devices::{Devices, DevicesState, LocalTimer, LocalTimerState};
use crate::error::MachineError;
use crate::guest_fault::GuestFault;
use crate::kvm;
use crate::kvm::VcpuState;
use crate::memory::GuestRam;
use crate::settings::{Backend, Settings};
use crate::shared::{Inner, OwnTime};
use crate::vcpu::Next;

/// A saved machine: memory, vCPUs, devices, clock.
#[derive(Debug, Clone)]
pub struct Saved {
    settings: Settings,
    memory: Vec<u8>,
    vcpus: Vec<SavedVcpu>,
    devices: DevicesState,
    own_time: Nanos,
    /// KVM's clock; for each backend it contains the TSCs.
    clock: ClockState,
    host: Option<host::Saved>,
    taken: HostClocks,
}

impl Saved {
    /// The host's clocks at the moment at which the guest's stood: KVM's where
    /// its clock is the guest's, else our provider's.
    pub const fn taken(&self) -> HostClocks {
        self.taken
    }
}

/// The restored clock of a machine: KVM's, or our provider's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredClock {
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
struct SavedVcpu {
    state: VcpuState,
    timer: LocalTimerState,
    next: Next,
    guest_fault: Option<GuestFault>,
    last_request: u64,
    tail: u64,
}

impl Machine {
    /// Saves all of it. This pauses the machine; resume or drop it afterwards.
    ///
    /// # Errors
    /// A thread has ended, KVM's own error, or [`MachineError::Unsaveable`]:
    /// the MSRs of KVM's own Hyper-V clock are not saved here, nor the interrupt
    /// controllers and local APICs that a Linux guest has in KVM.
    pub fn save(&self) -> Result<Saved, MachineError> {
        if self.settings.backend == Backend::KernelHyperV {
            return Err(MachineError::Unsaveable { what: "KVM's own Hyper-V clock" });
        }
        if self.settings.has_kernel_apic() {
            return Err(MachineError::Unsaveable { what: "KVM's own interrupt controllers" });
        }
        let host_tsc = kvm::query_host(&kvm::open()?)?;
        self.pause()?;
        // All clocks together and first: the rest takes milliseconds.
        let clock = ::kvm::save_clock(&self.vm, host_tsc)?;
        let taken = clock.taken;
        let own = self.shared.with_clock(|host, now, _| (host.save(now), now));
        let (host, host_taken) = own.unzip();
        let (devices, own_time) = self.shared.save_devices(taken);
        let mut vcpus = Vec::new();
        let mut tscs = Vec::new();
        for (index, handle) in self.vcpus.iter().enumerate() {
            let (state, tsc, timer, next) = self.on_vcpu(index, move |vcpu| {
                let tsc = SavedTsc::save(&vcpu.fd, host_tsc, taken);
                (VcpuState::save(&vcpu.fd), tsc, vcpu.timer.save(), vcpu.next.as_restored())
            })?;
            tscs.push(tsc?);
            vcpus.push(SavedVcpu {
                state: state?,
                timer,
                next,
                guest_fault: handle.status.guest_fault(),
                last_request: handle.last_request.load(Ordering::Relaxed),
                tail: handle.tail.load(Ordering::Relaxed),
            });
        }
        Ok(Saved {
            settings: self.settings.clone(),
            memory: self.shared.ram.copy()?,
            vcpus,
            devices,
            own_time,
            clock: ClockState::new(clock, Host::new(host_tsc), tscs),
            host,
            taken: host_taken.unwrap_or(taken),
        })
    }

    /// Restores the machine and lets it run; returns it with its restored
    /// clock.
    ///
    /// # Errors
    /// No KVM, or its own error.
    pub fn restore(saved: &Saved, policy: Policy) -> Result<(Self, RestoredClock), MachineError> {
        let started = Instant::now();
        let kvm = kvm::open()?;
        let ram = GuestRam::new(saved.memory.len() as u64)?;
        ram.write(0, &saved.memory)?;
        let settings = &saved.settings;
        let vm = kvm::create_vm(&kvm, &ram, settings)?;
        let host_tsc = kvm::query_host(&kvm)?;
        let now = host_clock::read();
        let host = match (&saved.host, &settings.backend) {
            (Some(host), Backend::Own(settings)) => {
                Some(GuestClock::restore(host, *settings, policy, now)?)
            }
            _ => None,
        };
        let provider = host.as_ref().map(|(host, _)| host);
        let leaves = kvm::leaves(&kvm, settings, provider)?;
        let mut fds = Vec::new();
        for (index, vcpu) in saved.vcpus.iter().enumerate() {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &vm, id, leaves.as_deref())?;
            vcpu.state.restore(&fd)?;
            fds.push(fd);
        }
        let clock = match &host {
            None => restore_kernel_clock(&vm, &fds, saved, host_tsc, policy)?,
            Some((_, restored)) => set_tscs(&fds, restored, host_tsc, now)?,
        };
        let now = clock.since;
        let mut own_time = OwnTime::starting(now);
        own_time.resume(Nanos(saved.own_time.0.saturating_add(clock.away.0)), now);
        let devices = Devices::restore(&saved.devices).map_err(MachineError::Devices)?;
        let inner = Inner::new(host.map(|(host, _)| host), devices, own_time);
        let mut machine = Self::around(vm, ram, inner, settings, started, None)?;
        for ((index, fd), vcpu) in fds.into_iter().enumerate().zip(&saved.vcpus) {
            machine.add(Start {
                id: VcpuId(index as u32),
                fd,
                timer: LocalTimer::restore(vcpu.timer),
                next: vcpu.next,
                guest_fault: vcpu.guest_fault,
                last_request: vcpu.last_request,
                tail: vcpu.tail,
            })?;
        }
        // Where KVM did not take an offset, the provider must know.
        for (index, tsc) in clock.tscs.iter().enumerate() {
            if tsc.offset != tsc.wanted {
                let vcpu = VcpuId(index as u32);
                machine.shared.notify(Event::TscOffsetChanged { vcpu, tsc_offset: tsc.offset });
            }
        }
        machine.send_all(|| crate::vcpu::Control::Resume);
        Ok((machine, clock))
    }
}

fn restore_kernel_clock(
    vm: &VmFd,
    fds: &[VcpuFd],
    saved: &Saved,
    host_tsc: HostTsc,
    policy: Policy,
) -> Result<RestoredClock, MachineError> {
    let fds: Vec<_> = fds.iter().collect();
    let restored = ::kvm::restore(vm, &fds, &saved.clock, &Host::new(host_tsc), policy)?;
    let clock = restored.clock;
    Ok(RestoredClock {
        away: clock.plan.away,
        clock: clock.plan.clock,
        tscs: restored.tscs,
        began: clock.began,
        since: clock.since,
        bound: clock.step.bound,
    })
}

/// Our provider's clock continues as of `now`; the TSCs are all that KVM has of it.
fn set_tscs(
    fds: &[VcpuFd],
    restored: &host::Restored,
    host_tsc: HostTsc,
    now: HostClocks,
) -> Result<RestoredClock, MachineError> {
    let tscs = fds.iter().zip(&restored.vcpus).map(|(fd, vcpu)| {
        let (frequency, wanted) = (host_tsc.frequency, vcpu.tsc_offset);
        Ok(RestoredTsc { frequency, wanted, offset: kvm::set_tsc_offset(fd, wanted)? })
    });
    Ok(RestoredClock {
        away: restored.away,
        clock: restored.clock,
        tscs: tscs.collect::<Result<_, MachineError>>()?,
        began: now,
        since: now,
        bound: restored.step.bound,
    })
}
