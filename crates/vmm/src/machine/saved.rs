//! A machine saved whole, and made anew from that.

use std::sync::atomic::Ordering;
use std::time::Instant;

use host::{Event, GuestClock, Policy, VcpuId};
use pvclock::Nanos;

use super::{Machine, Start};
use crate::clock_state::{self, ClockState, RestoredClock, RestoredTsc, TscState};
use crate::devices::{Devices, DevicesState, LocalTimer, LocalTimerState};
use crate::error::MachineError;
use crate::guest_fault::GuestFault;
use crate::kvm::VcpuState;
use crate::memory::GuestRam;
use crate::settings::{Backend, Settings};
use crate::shared::{Inner, OwnTime};
use crate::vcpu::Next;
use crate::{host_clock, kvm};

/// A machine as it was: memory, vCPUs, devices, clock.
#[derive(Debug, Clone)]
pub struct Saved {
    settings: Settings,
    memory: Vec<u8>,
    vcpus: Vec<SavedVcpu>,
    devices: DevicesState,
    own_time: Nanos,
    /// KVM's clock; the TSCs are in it for either backend.
    clock: ClockState,
    host: Option<host::Saved>,
}

#[derive(Debug, Clone)]
struct SavedVcpu {
    state: VcpuState,
    timer: LocalTimerState,
    next: Next,
    guest_fault: Option<GuestFault>,
    asked: u64,
    tail: u64,
}

impl Machine {
    /// Takes all of it. It is paused by this, and may be resumed or dropped.
    ///
    /// # Errors
    /// A thread is gone, KVM's own error, or [`MachineError::Unsaveable`]:
    /// KVM's own Hyper-V clock lives in MSRs that are not taken here.
    pub fn save(&self) -> Result<Saved, MachineError> {
        if self.settings.backend == Backend::KernelHyperV {
            return Err(MachineError::Unsaveable { what: "KVM's own Hyper-V clock" });
        }
        self.pause()?;
        // All clocks together and first: the rest takes milliseconds.
        let (clock_ns, taken) = clock_state::save_clock(&self.vm)?;
        let host = self.shared.with_host(|host, now, _| host.save(now));
        let (devices, own_time) = self.shared.save_devices(taken);
        let mut vcpus = Vec::new();
        let mut tscs = Vec::new();
        for (index, handle) in self.vcpus.iter().enumerate() {
            let (state, tsc, timer, next) = self.on_vcpu(index, |vcpu| {
                (VcpuState::save(&vcpu.fd), TscState::of(&vcpu.fd), vcpu.timer.save(), vcpu.next)
            })?;
            tscs.push(tsc?);
            vcpus.push(SavedVcpu {
                state: state?,
                timer,
                next,
                guest_fault: handle.status.guest_fault(),
                asked: handle.asked.load(Ordering::Relaxed),
                tail: handle.tail.load(Ordering::Relaxed),
            });
        }
        Ok(Saved {
            settings: self.settings.clone(),
            memory: self.shared.ram.copy()?,
            vcpus,
            devices,
            own_time,
            clock: ClockState { clock_ns, taken, tscs },
            host,
        })
    }

    /// Makes the machine anew and lets it run; with it, what became of its
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
        let vm = kvm::create_vm(&kvm, &ram, &settings.backend)?;
        let mut now = host_clock::read();
        let away_ns = clock_state::away(saved.clock.taken, now, policy);
        let host = match (&saved.host, &settings.backend) {
            (Some(host), Backend::Own(settings)) => {
                Some(GuestClock::restore(host, *settings, policy, now)?)
            }
            _ => None,
        };
        let provider = host.as_ref().map(|(host, _)| host);
        let leaves = kvm::leaves(&kvm, &settings.backend, provider)?;
        let mut fds = Vec::new();
        for (index, vcpu) in saved.vcpus.iter().enumerate() {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &vm, id, leaves.as_deref())?;
            vcpu.state.restore(&fd)?;
            fds.push(fd);
        }
        let clock = match &host {
            None => {
                now = host_clock::read();
                let fds: Vec<_> = fds.iter().collect();
                clock_state::restore_at(&vm, &fds, &saved.clock, policy, now)?
            }
            Some((_, restored)) => {
                let mut tscs = Vec::new();
                for (fd, vcpu) in fds.iter().zip(&restored.vcpus) {
                    kvm::set_tsc_offset(fd, vcpu.tsc_offset)?;
                    let offset = kvm::tsc_offset(fd)?;
                    tscs.push(RestoredTsc { wanted: vcpu.tsc_offset, offset });
                }
                RestoredClock { away_ns, clock_ns: restored.clock.0, tscs }
            }
        };
        let mut own_time = OwnTime::starting(now);
        own_time.go_on(Nanos(saved.own_time.0 + clock.away_ns), now);
        let devices = Devices::restore(&saved.devices).map_err(MachineError::Devices)?;
        let inner = Inner::new(host.map(|(host, _)| host), devices, own_time);
        let mut machine = Self::around(vm, ram, inner, settings, started)?;
        for ((index, fd), vcpu) in fds.into_iter().enumerate().zip(&saved.vcpus) {
            machine.add(Start {
                id: VcpuId(index as u32),
                fd,
                timer: LocalTimer::restore(vcpu.timer),
                next: vcpu.next,
                guest_fault: vcpu.guest_fault,
                asked: vcpu.asked,
                tail: vcpu.tail,
            })?;
        }
        // Where KVM did not take an offset, our provider must know.
        for (index, tsc) in clock.tscs.iter().enumerate() {
            if tsc.offset != tsc.wanted {
                let vcpu = VcpuId(index as u32);
                machine.shared.tell(Event::TscOffsetChanged { vcpu, tsc_offset: tsc.offset });
            }
        }
        machine.send_all(|| crate::vcpu::Control::Resume);
        Ok((machine, clock))
    }
}
