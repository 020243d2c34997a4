//! One vCPU's thread: it runs the guest, handles its exits, and executes
//! commands between them.

mod exits;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use ::kvm::KvmVcpu as _;
use host::{DueFlag, HostEvent, VcpuId};
use kvm_ioctls::VcpuFd;

use crate::devices::LocalTimer;
use crate::error::MachineError;
use crate::guest_fault::{FaultRegisters, GuestFault, GuestFaultCause};
use crate::handover::{Control, InsideGuard, VcpuHandle};
use crate::run_delay::StealMeter;
use crate::shared::Shared;
use crate::{host_clock, kvm};

/// All that comes before KVM_RUN: seldom anything, and then some looks.
#[inline]
fn ready<'v>(
    shared: &Shared,
    handle: &'v VcpuHandle,
    id: VcpuId,
    steal: &mut Option<StealMeter>,
    due: Option<&DueFlag>,
) -> InsideGuard<'v> {
    if let Some(stolen) = steal.as_mut().and_then(StealMeter::sample) {
        shared.notify(HostEvent::StealMeasured { vcpu: id, stolen });
    }
    let inside = shared.vcpus.enter(handle);
    if due.is_some_and(DueFlag::is_due) {
        let _ = shared.with_clock(|host, now, ram| host.before_entry(id, now, ram));
    }
    inside
}

/// What the thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextExit {
    /// Enters the guest.
    Enter,
    /// Waits for a request.
    Idle,
    /// Waits for an interrupt.
    Halted,
    /// Waits for another vCPU's kick.
    Parked,
    /// Never enters the guest again, but executes commands.
    Dead,
}

impl NextExit {
    /// What a copy of it does: whom it waited for to be kicked by does not know it.
    pub(crate) fn as_restored(self) -> Self {
        if self == Self::Parked { Self::Enter } else { self }
    }
}

/// A vCPU on its thread.
pub(crate) struct RunningVcpu {
    pub(crate) id: VcpuId,
    pub(crate) fd: VcpuFd,
    pub(crate) shared: Arc<Shared>,
    /// As other threads see it.
    pub(crate) handle: Arc<VcpuHandle>,
    pub(crate) timer: LocalTimer,
    pub(crate) tsc_offset: u64,
    pub(crate) control: Receiver<Control>,
    pub(crate) paused: bool,
    pub(crate) next: NextExit,
    /// Only where the clock is ours; else the kernel keeps steal time.
    pub(crate) steal: Option<StealMeter>,
    /// Whether our provider has a page of this vCPU to write.
    pub(crate) due: Option<DueFlag>,
}

impl RunningVcpu {
    /// Until it is stopped.
    pub(crate) fn run(mut self) {
        while self.obey() {
            if self.next == NextExit::Enter && !self.paused {
                self.enter();
            }
        }
    }

    /// Executes a command; waits while there is no reason to enter. `false` at
    /// the end.
    fn obey(&mut self) -> bool {
        let waits = self.paused || self.next != NextExit::Enter;
        let control = if !waits {
            match self.handle.next_command(&self.control) {
                Ok(control) => control,
                Err(error) => return error == TryRecvError::Empty,
            }
        } else if self.paused || self.next != NextExit::Halted {
            if self.next == NextExit::Idle && !self.paused && self.request_waits() {
                self.next = NextExit::Enter;
                return true;
            }
            match self.control.recv() {
                Ok(control) => control,
                Err(_) => return false,
            }
        } else {
            match self.control.recv_timeout(self.until_timer()) {
                Ok(control) => control,
                Err(RecvTimeoutError::Timeout) => {
                    self.next = self.wake_by_timer();
                    return true;
                }
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        };
        self.perform(control)
    }

    fn perform(&mut self, control: Control) -> bool {
        match control {
            Control::Do(action) => action(self),
            Control::Resume => self.paused = false,
            Control::Wake if matches!(self.next, NextExit::Idle | NextExit::Parked) => {
                self.next = NextExit::Enter;
            }
            Control::Wake => {}
            Control::Stop => return false,
        }
        true
    }

    /// Publishes that it is idle, then checks again: `send_request` writes the request
    /// first and reads `idle` then, so one of the two sees the other.
    fn request_waits(&self) -> bool {
        let idle = &self.handle.idle;
        idle.store(true, Ordering::SeqCst);
        let mailbox = self.shared.shared().vcpu(self.id.0 as usize);
        let waits = mailbox.request.number() != mailbox.reply.number();
        waits && idle.swap(false, Ordering::SeqCst)
    }

    /// How long a halted vCPU may sleep.
    fn until_timer(&self) -> Duration {
        let now = self.shared.moment().since_start;
        match self.timer.deadline() {
            Some(deadline) => Duration::from_nanos(deadline.0.saturating_sub(now.0)),
            // A request or the end of the machine ends the wait.
            None => Duration::from_secs(3600),
        }
    }

    fn wake_by_timer(&mut self) -> NextExit {
        let now = self.shared.moment();
        let Some(vector) = self.timer.due(&now) else { return NextExit::Halted };
        match kvm::interrupt(&self.fd, vector) {
            Ok(()) => NextExit::Enter,
            // KVM reported a halt with interrupts on, but takes no interrupt.
            Err(_) => self.die(GuestFaultCause::HaltedForever),
        }
    }

    /// How long an entry takes without KVM_RUN, where nothing is due: ns.
    pub(crate) fn time_entries(&mut self, rounds: u32) -> f64 {
        let started = Instant::now();
        for _ in 0..rounds {
            if let Ok(command) = self.handle.next_command(&self.control) {
                self.perform(command);
            }
            drop(ready(&self.shared, &self.handle, self.id, &mut self.steal, self.due.as_ref()));
            self.handle.count_exit();
        }
        started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds.max(1))
    }

    fn die(&mut self, cause: GuestFaultCause) -> NextExit {
        let registers = self.registers();
        self.handle.die(GuestFault { cause, registers });
        NextExit::Dead
    }

    fn registers(&self) -> FaultRegisters {
        let (Ok(general), Ok(special)) = (self.fd.get_regs(), self.fd.get_sregs()) else {
            return FaultRegisters::default();
        };
        FaultRegisters {
            rip: general.rip,
            rsp: general.rsp,
            rflags: Some(general.rflags),
            cs: special.cs.selector,
            cr2: special.cr2,
        }
    }

    /// Completes the last exit without running the guest, so that its state can
    /// be saved: KVM moves past an IN or OUT only at the next entry. An access
    /// that KVM splits has more exits; each is handled, until KVM would have to
    /// run the guest.
    pub(crate) fn settle(&mut self) {
        self.fd.set_kvm_immediate_exit(1);
        while self.next != NextExit::Dead && self.run_once() {}
        self.fd.set_kvm_immediate_exit(0);
    }
}

// A vCPU's TSC, set by its guest or by its host.
//
// Where the clock is ours, the guest's writes exit to us: a page that is right
// for the old TSC is wrong for the new one. (Intel SDM vol. 3, 19.17.3: a write
// to either register changes both, and the TSC.)

/// The TSC itself.
pub(crate) const IA32_TSC: u32 = 0x10;
/// The sum of all changes to it.
pub(crate) const IA32_TSC_ADJUST: u32 = 0x3b;
/// When the local APIC's timer fires.
pub(crate) const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// Which of the two is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TscWrite {
    Tsc(u64),
    Adjust(u64),
}

impl TscWrite {
    /// The write, if the register is one of the two.
    fn from_msr(msr: u32, value: u64) -> Option<Self> {
        match msr {
            IA32_TSC => Some(Self::Tsc(value)),
            IA32_TSC_ADJUST => Some(Self::Adjust(value)),
            _ => None,
        }
    }
}

impl RunningVcpu {
    /// Sets the TSC offset, passes the one that KVM has then to the provider,
    /// and returns it: not every KVM takes one.
    pub(crate) fn set_tsc_offset(&mut self, offset: u64) -> Result<u64, MachineError> {
        // From before the TSC moves until the provider knows.
        let _out = self.shared.vcpus.bring_all_out();
        self.tsc_offset = kvm::set_tsc_offset(&self.fd, offset)?;
        let event = HostEvent::TscOffsetChanged { vcpu: self.id, tsc_offset: self.tsc_offset };
        self.shared.notify(event);
        self.shared.with_vmclock(|vmclock, ram| vmclock.tsc_set(self.id, self.tsc_offset, ram));
        Ok(self.tsc_offset)
    }

    /// Executes the guest's write. KVM keeps IA32_TSC_ADJUST: a write of it by
    /// the host does not change the TSC. A TSC that KVM leaves as it was, as
    /// software KVMs do, changes nothing in it.
    fn write_tsc(&mut self, write: TscWrite) -> Result<(), MachineError> {
        let adjust = self.fd.msr(IA32_TSC_ADJUST)?.unwrap_or(0);
        let before = self.tsc_offset;
        let adjusted = match write {
            TscWrite::Tsc(tsc) => {
                let now = host_clock::read().tsc.0.wrapping_add(before);
                let set = self.set_tsc_offset(before.wrapping_add(tsc.wrapping_sub(now)))?;
                adjust.wrapping_add(set.wrapping_sub(before))
            }
            TscWrite::Adjust(value) => {
                self.set_tsc_offset(before.wrapping_add(value.wrapping_sub(adjust)))?;
                value
            }
        };
        self.fd.set_msr(IA32_TSC_ADJUST, adjusted)?;
        Ok(())
    }
}
