//! One vCPU's thread: it runs the guest, handles its exits, and executes
//! commands between them.

mod exits;
mod tsc;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use host::{DueFlag, Event, VcpuId};
use kvm_ioctls::VcpuFd;

use crate::devices::LocalTimer;
use crate::guest_fault::{Cause, GuestFault, Registers};
use crate::kvm;
use crate::run_delay::StealMeter;
use crate::shared::Shared;

pub(crate) use tsc::{IA32_TSC, IA32_TSC_ADJUST};

/// A command for a vCPU, executed between two entries.
pub(crate) enum Control {
    /// Runs something on its thread: KVM needs calls on a vCPU there.
    Do(Box<dyn FnOnce(&mut Vcpu) + Send>),
    /// Resumes, if it was paused.
    Resume,
    /// There is a request for the guest.
    Wake,
    /// Ends.
    Stop,
}

/// State that its thread publishes to others.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// It waits for [`Control::Wake`]: the guest has nothing to do.
    pub(crate) idle: AtomicBool,
    /// Exits to this process.
    pub(crate) exits: AtomicU64,
    guest_fault: Mutex<Option<GuestFault>>,
}

impl Status {
    pub(crate) fn guest_fault(&self) -> Option<GuestFault> {
        *self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn die(&self, guest_fault: GuestFault) {
        self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(guest_fault);
    }
}

/// What the thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Enters the guest.
    Enter,
    /// Waits for a request.
    Idle,
    /// Waits for an interrupt.
    Halted,
    /// Never enters the guest again, but executes commands.
    Dead,
}

/// A vCPU on its thread.
pub(crate) struct Vcpu {
    pub(crate) id: VcpuId,
    pub(crate) fd: VcpuFd,
    pub(crate) shared: Arc<Shared>,
    pub(crate) status: Arc<Status>,
    pub(crate) timer: LocalTimer,
    pub(crate) tsc_offset: u64,
    pub(crate) control: Receiver<Control>,
    pub(crate) paused: bool,
    pub(crate) next: Next,
    /// Only where the clock is ours; else the kernel keeps steal time.
    pub(crate) steal: Option<StealMeter>,
    /// Whether our provider has a page of this vCPU to write.
    pub(crate) due: Option<DueFlag>,
}

impl Vcpu {
    /// Until it is stopped.
    pub(crate) fn run(mut self) {
        while self.obey() {
            if self.next == Next::Enter && !self.paused {
                self.enter();
            }
        }
    }

    /// Executes a command; waits while there is no reason to enter. `false` at
    /// the end.
    fn obey(&mut self) -> bool {
        let waits = self.paused || self.next != Next::Enter;
        let control = if !waits {
            match self.control.try_recv() {
                Ok(control) => control,
                Err(error) => return error == TryRecvError::Empty,
            }
        } else if self.paused || self.next != Next::Halted {
            if self.next == Next::Idle && !self.paused && self.request_waits() {
                self.next = Next::Enter;
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
            Control::Wake if self.next == Next::Idle => self.next = Next::Enter,
            Control::Wake => {}
            Control::Stop => return false,
        }
        true
    }

    /// Publishes that it is idle, then checks again: `send_request` writes the request
    /// first and reads `idle` then, so one of the two sees the other.
    fn request_waits(&self) -> bool {
        self.status.idle.store(true, Ordering::SeqCst);
        let mailbox = self.shared.shared().vcpu(self.id.0 as usize);
        let waits = mailbox.request.number() != mailbox.reply.number();
        waits && self.status.idle.swap(false, Ordering::SeqCst)
    }

    /// How long a halted vCPU may sleep.
    fn until_timer(&self) -> Duration {
        let now = self.shared.moment(self.tsc_offset);
        match self.timer.deadline(&now) {
            Some(deadline) => Duration::from_nanos(deadline.0.saturating_sub(now.since_start.0)),
            // A request or the end of the machine ends the wait.
            None => Duration::from_secs(3600),
        }
    }

    fn wake_by_timer(&mut self) -> Next {
        let now = self.shared.moment(self.tsc_offset);
        let Some(vector) = self.timer.due(&now) else { return Next::Halted };
        match kvm::interrupt(&self.fd, vector) {
            Ok(()) => Next::Enter,
            // KVM reported a halt with interrupts on, but takes no interrupt.
            Err(_) => self.die(Cause::HaltedForever),
        }
    }

    /// Reports to our provider how long this vCPU waited for a CPU.
    fn measure_steal(&mut self) {
        if let Some(stolen) = self.steal.as_mut().and_then(StealMeter::sample) {
            self.shared.notify(Event::StealMeasured { vcpu: self.id, stolen });
        }
    }

    /// The updates due at an entry: seldom any, and then this costs a look.
    fn prepare(&self) {
        let id = self.id;
        if self.due.as_ref().is_some_and(DueFlag::is_due) {
            let _ = self.shared.with_clock(|host, now, ram| host.before_entry(id, now, ram));
        }
    }

    fn die(&mut self, cause: Cause) -> Next {
        let registers = self.registers();
        self.status.die(GuestFault { cause, registers });
        Next::Dead
    }

    fn registers(&self) -> Registers {
        let (Ok(general), Ok(special)) = (self.fd.get_regs(), self.fd.get_sregs()) else {
            return Registers::default();
        };
        Registers {
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
        while self.next != Next::Dead && self.run_once() {}
        self.fd.set_kvm_immediate_exit(0);
    }
}
