//! A vCPU's exits, each handled by the device or provider that it concerns.

use guest::layout::{DOORBELL, DOORBELL_DIED, DOORBELL_HALT, DOORBELL_IDLE};
use host::VcpuId;
use kvm_ioctls::VcpuExit;

use super::TscWrite;
use super::{NextExit, RunningVcpu, ready};
use crate::devices::LocalTimer;
use crate::guest_fault::{GuestFault, GuestFaultCause};
use crate::shared::Shared;

/// The errors after which KVM_RUN must be called again.
const INTERRUPTED: [i32; 2] = [libc::EINTR, libc::EAGAIN];

/// What an exit requires of its vCPU, after KVM's exit is dropped.
enum ExitEffect {
    Nothing,
    Doorbell(u8),
    Halt,
    Tsc(TscWrite),
    Die(GuestFaultCause),
    Unknown,
}

impl RunningVcpu {
    /// Runs the guest until its next exit, and handles that.
    pub(super) fn enter(&mut self) {
        // Interrupted or not: this thread checks for commands next.
        let _ = self.run_once();
    }

    /// `false` where KVM was interrupted before an exit.
    pub(super) fn run_once(&mut self) -> bool {
        let (shared, id) = (&self.shared, self.id);
        let inside = ready(shared, &self.handle, id, &mut self.steal, self.due.as_ref());
        let exit = self.fd.run();
        // Handling it may bring all vCPUs out, and this one is out.
        drop(inside);
        let effect = match exit {
            Err(error) if INTERRUPTED.contains(&error.errno()) => return false,
            Err(error) => ExitEffect::Die(GuestFaultCause::RunFailed { errno: error.errno() }),
            Ok(exit) => handle(exit, shared, id, &mut self.timer),
        };
        self.handle.count_exit();
        self.next = match effect {
            ExitEffect::Nothing => NextExit::Enter,
            ExitEffect::Doorbell(DOORBELL_IDLE) => NextExit::Idle,
            ExitEffect::Doorbell(DOORBELL_DIED) => {
                let (_, words) = self.shared.shared().vcpu(id.0 as usize).last_words.read();
                self.handle.die(GuestFault::from_last_words(&words));
                NextExit::Dead
            }
            ExitEffect::Doorbell(DOORBELL_HALT) if self.shared.vcpus.halt(id) => NextExit::Parked,
            ExitEffect::Doorbell(_) => NextExit::Enter,
            ExitEffect::Halt if self.fd.get_kvm_run().if_flag == 0 => {
                self.die(GuestFaultCause::HaltedForever)
            }
            ExitEffect::Halt => NextExit::Halted,
            // The write was completed without #GP already: a guest whose TSC is not
            // what it wrote must not go on.
            ExitEffect::Tsc(write) => match self.write_tsc(write) {
                Ok(()) => NextExit::Enter,
                Err(error) => {
                    self.die(GuestFaultCause::TscNotSet { errno: error.errno().unwrap_or(0) })
                }
            },
            ExitEffect::Die(cause) => self.die(cause),
            ExitEffect::Unknown => {
                let reason = self.fd.get_kvm_run().exit_reason;
                self.die(GuestFaultCause::UnknownExit { reason })
            }
        };
        true
    }
}

fn handle(exit: VcpuExit<'_>, shared: &Shared, vcpu: VcpuId, timer: &mut LocalTimer) -> ExitEffect {
    match exit {
        VcpuExit::IoOut(DOORBELL, data) => {
            return ExitEffect::Doorbell(data.first().copied().unwrap_or(0));
        }
        VcpuExit::IoOut(port, data) => {
            let named = data.first().copied().unwrap_or(0);
            if !shared.vcpus.hypercall(vcpu, port, named) {
                shared.with_devices(|devices, _| devices.port_write(port, data));
            }
        }
        VcpuExit::IoIn(port, data) => {
            shared.with_devices(|devices, now| devices.port_read(port, data, now));
        }
        VcpuExit::MmioWrite(address, data)
            if shared.network.as_ref().is_some_and(|card| card.write(address, data)) => {}
        VcpuExit::MmioWrite(address, data) => {
            shared.with_devices(|devices, now| devices.mmio_write(address, data, now));
        }
        VcpuExit::MmioRead(address, data) => {
            if !shared.network.as_ref().is_some_and(|card| card.read(address, data)) {
                shared.with_devices(|devices, now| {
                    devices.mmio_read(address, data, now);
                });
            }
        }
        VcpuExit::X86Rdmsr(access) => {
            let value = if LocalTimer::has(access.index) {
                timer.read_msr(access.index, &shared.moment())
            } else {
                shared.read_msr(vcpu, access.index)
            };
            *access.error = u8::from(value.is_none());
            *access.data = value.unwrap_or(0);
        }
        VcpuExit::X86Wrmsr(access) => {
            if let Some(write) = TscWrite::from_msr(access.index, access.data) {
                *access.error = 0;
                return ExitEffect::Tsc(write);
            }
            let done = if LocalTimer::has(access.index) {
                timer.write_msr(access.index, access.data, &shared.moment()).is_some()
            } else {
                shared.write_msr(vcpu, access.index, access.data)
            };
            *access.error = u8::from(!done);
        }
        VcpuExit::Hlt => return ExitEffect::Halt,
        VcpuExit::Intr | VcpuExit::IrqWindowOpen => {}
        VcpuExit::Shutdown => return ExitEffect::Die(GuestFaultCause::TripleFault),
        VcpuExit::InternalError => return ExitEffect::Die(GuestFaultCause::InternalError),
        VcpuExit::FailEntry(reason, _) => {
            return ExitEffect::Die(GuestFaultCause::FailedEntry { reason });
        }
        VcpuExit::Unsupported(reason) => {
            return ExitEffect::Die(GuestFaultCause::UnknownExit { reason });
        }
        // Exits that this machine never enables.
        _ => return ExitEffect::Unknown,
    }
    ExitEffect::Nothing
}
