//! One vCPU's thread: it runs the guest, handles its exits, and executes
//! commands between them.

mod exits;
mod tsc;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::{DueFlag, HostEvent, VcpuId};
use kvm_ioctls::VcpuFd;

use crate::barrier::BarrierGuard;
use crate::devices::LocalTimer;
use crate::guest_fault::{FaultRegisters, GuestFault, GuestFaultCause};
use crate::kvm;
use crate::run_delay::StealMeter;
use crate::shared::Shared;

pub(crate) use tsc::{IA32_TSC, IA32_TSC_ADJUST, IA32_TSC_DEADLINE};

/// A command for a vCPU, executed between two entries.
pub(crate) enum Control {
    /// Runs something on its thread: KVM needs calls on a vCPU there.
    Do(Box<dyn FnOnce(&mut RunningVcpu) + Send>),
    /// Resumes, if it was paused.
    Resume,
    /// There is a request for the guest.
    Wake,
    /// Another vCPU kicked it.
    Kicked,
    /// Ends.
    Stop,
}

/// State that its thread publishes to others.
#[derive(Debug, Default)]
pub(crate) struct VcpuStatus {
    /// Whether a command may wait: the channel itself costs a fence to look at.
    commands: AtomicBool,
    /// It waits for [`Control::Wake`]: the guest has nothing to do.
    pub(crate) idle: AtomicBool,
    /// Exits to this process.
    pub(crate) exits: AtomicU64,
    guest_fault: Mutex<Option<GuestFault>>,
}

impl VcpuStatus {
    pub(crate) fn guest_fault(&self) -> Option<GuestFault> {
        *self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command; an error if the thread has ended.
    pub(crate) fn send(
        &self,
        control: &Sender<Control>,
        command: Control,
    ) -> Result<(), SendError<Control>> {
        control.send(command)?;
        self.commands.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn next_command(&self, control: &Receiver<Control>) -> Result<Control, TryRecvError> {
        if !self.commands.load(Ordering::Relaxed) {
            return Err(TryRecvError::Empty);
        }
        // Cleared before the look: what is sent after it sets the flag again.
        self.commands.swap(false, Ordering::AcqRel);
        let command = control.try_recv()?;
        self.commands.store(true, Ordering::Relaxed);
        Ok(command)
    }

    /// Only its own thread counts.
    fn count_exit(&self) {
        self.exits.store(self.exits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn die(&self, guest_fault: GuestFault) {
        self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(guest_fault);
    }
}

/// All that comes before KVM_RUN: seldom anything, and then some looks.
#[inline]
fn ready<'s>(
    shared: &'s Shared,
    id: VcpuId,
    steal: &mut Option<StealMeter>,
    due: Option<&DueFlag>,
) -> BarrierGuard<'s> {
    if let Some(stolen) = steal.as_mut().and_then(StealMeter::sample) {
        shared.notify(HostEvent::StealMeasured { vcpu: id, stolen });
    }
    let inside = shared.barrier.enter(id);
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
    pub(crate) status: Arc<VcpuStatus>,
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
            match self.status.next_command(&self.control) {
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
            Control::Wake if self.next == NextExit::Idle => self.next = NextExit::Enter,
            Control::Kicked if self.next == NextExit::Parked => self.next = NextExit::Enter,
            Control::Wake | Control::Kicked => {}
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

    fn wake_by_timer(&mut self) -> NextExit {
        let now = self.shared.moment(self.tsc_offset);
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
            if let Ok(command) = self.status.next_command(&self.control) {
                self.perform(command);
            }
            drop(ready(&self.shared, self.id, &mut self.steal, self.due.as_ref()));
            self.status.count_exit();
        }
        started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds.max(1))
    }

    fn die(&mut self, cause: GuestFaultCause) -> NextExit {
        let registers = self.registers();
        self.status.die(GuestFault { cause, registers });
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
