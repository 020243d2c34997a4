//! Control of a running machine: calls on its vCPUs' threads, moves, pauses, and calls to
//! KVM. Its VM and vCPUs are not handed out: the file descriptor of a vCPU keeps the VM
//! alive, and a guest that outlives the machine would run in memory that is no longer its
//! own.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ::kvm::KvmVcpu as _;
use host::{HostEvent, VcpuId};
use kvm_bindings::{KVM_CAP_ADJUST_CLOCK, kvm_clock_data, kvm_regs};
use pvclock::Nanos;

use super::Machine;
use crate::error::MachineError;
use crate::handover::{Control, KICK_AGAIN};
use crate::vcpu::RunningVcpu;
use crate::vmclock::MachineVmClock;
use crate::{kvm, run_delay};

impl Machine {
    /// Runs `action` on a vCPU's thread, between two entries.
    ///
    /// # Errors
    /// Its thread has ended.
    pub(crate) fn on_vcpu<R: Send + 'static>(
        &self,
        vcpu: usize,
        action: impl FnOnce(&mut RunningVcpu) -> R + Send + 'static,
    ) -> Result<R, MachineError> {
        let handle = self.handle(vcpu);
        let (sender, receiver) = channel();
        let gone = || MachineError::Thread(std::io::Error::other("it has ended"));
        let action = Box::new(move |vcpu: &mut RunningVcpu| {
            // The caller may have given up.
            let _ = sender.send(action(vcpu));
        });
        handle.send(Control::Do(action)).map_err(|_| gone())?;
        loop {
            handle.kick();
            match receiver.recv_timeout(KICK_AGAIN) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }

    /// How long a vCPU's entry takes in this machine's own code, without KVM_RUN and
    /// where nothing is due: ns, over so many.
    ///
    /// # Errors
    /// Its thread has ended.
    pub fn time_entries(&self, vcpu: usize, rounds: u32) -> Result<f64, MachineError> {
        self.on_vcpu(vcpu, move |vcpu| vcpu.time_entries(rounds))
    }

    /// Keeps a vCPU from running for so long, while the machine's time goes on, as a
    /// busy host does; returns how long it was, and how long of that its thread waited for a CPU.
    ///
    /// # Errors
    /// Its thread has ended.
    pub fn hold_vcpu(
        &self,
        vcpu: usize,
        span: Duration,
    ) -> Result<(Duration, Nanos), MachineError> {
        let waited_ns = || run_delay::of_this_thread().map_or(0, |waited| waited.0);
        self.on_vcpu(vcpu, move |_| {
            let (began, before_ns) = (Instant::now(), waited_ns());
            std::thread::sleep(span);
            (began.elapsed(), Nanos(waited_ns().saturating_sub(before_ns)))
        })
    }

    /// Moves a vCPU to a physical CPU, and keeps it there.
    ///
    /// # Errors
    /// The kernel does not bind it, or the thread has ended.
    pub fn move_vcpu(&self, vcpu: usize, cpu: u32) -> Result<(), MachineError> {
        self.on_vcpu(vcpu, move |vcpu| {
            let pinned = linux::cpus::pin(cpu)
                .map_err(|error| MachineError::Thread(std::io::Error::other(error)))?;
            // The binding stays for the rest of the thread's life.
            std::mem::forget(pinned);
            vcpu.shared.notify(HostEvent::VcpuMoved { vcpu: vcpu.id, physical_cpu: cpu });
            Ok(())
        })?
    }

    /// Sets a vCPU's TSC offset (its TSC less the host's, wrapping), and returns
    /// the one that KVM has then: not every KVM takes one.
    ///
    /// # Errors
    /// KVM's, or the thread has ended.
    pub fn set_tsc_offset(&self, vcpu: usize, offset: u64) -> Result<u64, MachineError> {
        self.on_vcpu(vcpu, move |vcpu| vcpu.set_tsc_offset(offset))?
    }

    /// Stops all vCPUs, each between two entries with no exit pending, and the
    /// machine's own time.
    ///
    /// # Errors
    /// A thread has ended.
    pub fn pause(&self) -> Result<(), MachineError> {
        for vcpu in 0..self.vcpus() {
            self.on_vcpu(vcpu, |vcpu| {
                vcpu.paused = true;
                vcpu.settle();
            })?;
        }
        self.shared.stop_time();
        self.shared.notify(HostEvent::Paused);
        Ok(())
    }

    /// Resumes them, with GUEST_STOPPED raised. Where the clock is KVM's, that
    /// is KVM_KVMCLOCK_CTRL.
    ///
    /// # Errors
    /// A thread has ended, or KVM's own error.
    pub fn resume(&self) -> Result<(), MachineError> {
        self.shared.notify(HostEvent::Resumed);
        if !self.shared.has_clock() {
            for vcpu in 0..self.vcpus() {
                self.on_vcpu(vcpu, |vcpu| vcpu.fd.announce_stop())??;
            }
        }
        self.shared.resume_time();
        self.shared.with_vmclock(MachineVmClock::tick);
        self.send_all(|| Control::Resume);
        Ok(())
    }

    /// KVM's clock of the VM: KVM_GET_CLOCK.
    ///
    /// # Errors
    /// KVM's own.
    pub fn kernel_clock(&self) -> Result<kvm_clock_data, MachineError> {
        self.vm.get_clock().map_err(MachineError::kvm("KVM_GET_CLOCK"))
    }

    /// Sets it: KVM_SET_CLOCK.
    ///
    /// # Errors
    /// KVM's own.
    pub fn set_kernel_clock(&self, clock: &kvm_clock_data) -> Result<(), MachineError> {
        self.vm.set_clock(clock).map_err(MachineError::kvm("KVM_SET_CLOCK"))
    }

    /// The flags that KVM_SET_CLOCK takes: KVM_CAP_ADJUST_CLOCK.
    pub fn kernel_clock_flags(&self) -> u32 {
        self.vm.check_extension_raw(KVM_CAP_ADJUST_CLOCK.into()).cast_unsigned()
    }

    /// Adds a vCPU that never runs: that is enough for KVM to synchronise its
    /// TSC.
    ///
    /// # Errors
    /// KVM's own.
    pub fn add_idle_vcpu(&self, id: VcpuId) -> Result<(), MachineError> {
        self.vm.create_vcpu(id.0.into()).map(drop).map_err(MachineError::kvm("KVM_CREATE_VCPU"))
    }

    /// A vCPU's TSC offset as KVM has it, wrapping.
    ///
    /// # Errors
    /// KVM's own, or the thread has ended.
    pub fn tsc_offset(&self, vcpu: usize) -> Result<u64, MachineError> {
        self.on_vcpu(vcpu, |vcpu| kvm::tsc_offset(&vcpu.fd))?
    }

    /// A vCPU's registers.
    ///
    /// # Errors
    /// KVM's own, or the thread has ended.
    pub fn registers(&self, vcpu: usize) -> Result<kvm_regs, MachineError> {
        self.on_vcpu(vcpu, |vcpu| vcpu.fd.get_regs())?.map_err(MachineError::kvm("KVM_GET_REGS"))
    }

    /// How long a vCPU's thread has waited for a CPU; `None` where this kernel
    /// does not report it.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn run_delay(&self, vcpu: usize) -> Result<Option<Nanos>, MachineError> {
        self.on_vcpu(vcpu, |_| run_delay::of_this_thread())
    }
}
