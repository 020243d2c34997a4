//! What a machine's threads hand to one another: a vCPU's commands, its state, and the time
//! in which it is out of the guest.
//!
//! All vCPUs are kept out while the guest's time is changed, so that none reads the old
//! snapshot while another reads the new one (KVM: KVM_REQ_MCLOCK_INPROGRESS,
//! arch/x86/kvm/x86.c). A vCPU first marks itself as inside and then checks for closers; a
//! closer does it in the other order, so one of the two sees the other. The fence that takes
//! is made by the closer for both: a vCPU enters a million times a second. A vCPU is
//! never inside while it closes or waits, so several may close at once and wait
//! for one another's vCPUs.
//!
//! A vCPU sleeps until another kicks it by a hypercall; the guest's come by ports here
//! ([`HYPERCALLS`]).

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use guest::layout::HYPERCALLS;
use host::VcpuId;
use host::hypercall::{Features, Halt, HypercallAction, HypercallRegisters, Hypercalls, KICK_CPU};
use linux::membarrier::AsymmetricFence;
use vmm_sys_util::signal::{Killable, SIGRTMIN};

use crate::error::MachineError;
use crate::guest_fault::GuestFault;
use crate::vcpu::RunningVcpu;

/// A kick just before KVM_RUN is lost, so it is sent again after this.
pub(crate) const KICK_AGAIN: Duration = Duration::from_millis(1);

/// How long a thread sleeps between two checks of another.
pub(crate) const NAP: Duration = Duration::from_micros(50);

/// The signal that ends a KVM_RUN early.
pub(crate) fn kick_signal() -> libc::c_int {
    SIGRTMIN()
}

/// A command for a vCPU, executed between two entries.
pub(crate) enum Control {
    /// Runs something on its thread: KVM needs calls on a vCPU there.
    Do(Box<dyn FnOnce(&mut RunningVcpu) + Send>),
    /// Resumes, if it was paused.
    Resume,
    /// There is a request for the guest, or another vCPU kicked it.
    Wake,
    /// Ends.
    Stop,
}

/// A vCPU as other threads see it.
#[derive(Debug)]
pub(crate) struct VcpuHandle {
    /// In the guest, or on its way in or out.
    inside: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    commands: Sender<Control>,
    /// Whether a command may wait: the channel itself costs a fence to look at.
    has_commands: AtomicBool,
    /// It waits for a request: the guest has nothing to do.
    pub(crate) idle: AtomicBool,
    /// Exits to this process.
    pub(crate) exits: AtomicU64,
    guest_fault: Mutex<Option<GuestFault>>,
    /// The number of the last request.
    pub(crate) last_request: AtomicU64,
    /// What KVM counts of it, where it does.
    pub(crate) counts: OnceLock<File>,
}

impl VcpuHandle {
    fn new() -> (Arc<Self>, Receiver<Control>) {
        let (commands, receiver) = channel();
        let handle = Self {
            inside: AtomicBool::new(false),
            thread: Mutex::new(None),
            commands,
            has_commands: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            exits: AtomicU64::new(0),
            guest_fault: Mutex::new(None),
            last_request: AtomicU64::new(0),
            counts: OnceLock::new(),
        };
        (Arc::new(handle), receiver)
    }

    /// Sends a command; an error if the thread has ended.
    pub(crate) fn send(&self, command: Control) -> Result<(), SendError<Control>> {
        self.commands.send(command)?;
        self.has_commands.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn next_command(
        &self,
        control: &Receiver<Control>,
    ) -> Result<Control, TryRecvError> {
        if !self.has_commands.load(Ordering::Relaxed) {
            return Err(TryRecvError::Empty);
        }
        // Cleared before the look: what is sent after it sets the flag again.
        self.has_commands.swap(false, Ordering::AcqRel);
        let command = control.try_recv()?;
        self.has_commands.store(true, Ordering::Relaxed);
        Ok(command)
    }

    /// Only its own thread counts.
    pub(crate) fn count_exit(&self) {
        self.exits.store(self.exits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn guest_fault(&self) -> Option<GuestFault> {
        *self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn die(&self, guest_fault: GuestFault) {
        self.guest_fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(guest_fault);
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread to kick.
    pub(crate) fn put_thread(&self, thread: JoinHandle<()>) {
        *self.thread() = Some(thread);
    }

    /// Brings it out, unless it is just before KVM_RUN.
    pub(crate) fn kick(&self) {
        if let Some(thread) = &*self.thread() {
            // A thread that has ended needs no kick.
            let _ = thread.kill(kick_signal());
        }
    }

    /// Waits for the end of its thread after [`Control::Stop`].
    pub(crate) fn join(&self) {
        while self.thread().as_ref().is_some_and(|thread| !thread.is_finished()) {
            self.kick();
            std::thread::sleep(NAP);
        }
        if let Some(thread) = self.thread().take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

/// A vCPU is in the guest, or on its way in or out.
pub(crate) struct InsideGuard<'a>(&'a AtomicBool);

impl Drop for InsideGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// No vCPU is in the guest, and none enters.
pub(crate) struct AllOut<'a>(&'a Vcpus);

impl Drop for AllOut<'_> {
    fn drop(&mut self) {
        let mut closers = self.0.closers();
        *closers -= 1;
        if *closers == 0 {
            self.0.closed.store(false, Ordering::Release);
            self.0.opened.notify_all();
        }
    }
}

/// The vCPUs of a machine.
#[derive(Debug)]
pub(crate) struct Vcpus {
    handles: Vec<Arc<VcpuHandle>>,
    calls: Mutex<Hypercalls>,
    /// Whether `closers` is not 0, readable without its lock.
    closed: AtomicBool,
    fence: AsymmetricFence,
    closers: Mutex<usize>,
    opened: Condvar,
}

impl Vcpus {
    /// So many, and what each of their threads takes its commands from.
    pub(crate) fn new(count: usize) -> (Self, Vec<Receiver<Control>>) {
        let (handles, receivers) = (0..count).map(|_| VcpuHandle::new()).unzip();
        let mut calls = Hypercalls::new(Features::PV_UNHALT | Features::PV_SCHED_YIELD, false);
        (0..count).for_each(|id| calls.restored(VcpuId(id as u32)));
        let vcpus = Self {
            handles,
            calls: Mutex::new(calls),
            closed: AtomicBool::new(false),
            fence: AsymmetricFence::default(),
            closers: Mutex::new(0),
            opened: Condvar::new(),
        };
        (vcpus, receivers)
    }

    pub(crate) fn all(&self) -> &[Arc<VcpuHandle>] {
        &self.handles
    }

    pub(crate) fn handle(&self, vcpu: VcpuId) -> &Arc<VcpuHandle> {
        &self.handles[vcpu.0 as usize]
    }

    /// A number stays valid when a thread panics.
    fn closers(&self) -> MutexGuard<'_, usize> {
        self.closers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vCPU enters, as soon as nobody keeps it out.
    #[inline]
    pub(crate) fn enter<'v>(&self, vcpu: &'v VcpuHandle) -> InsideGuard<'v> {
        let flag = &vcpu.inside;
        loop {
            flag.store(true, Ordering::Relaxed);
            let inside = InsideGuard(flag);
            self.fence.light();
            if !self.closed.load(Ordering::Acquire) {
                return inside;
            }
            drop(inside);
            let mut closers = self.closers();
            while *closers > 0 {
                closers = self.opened.wait(closers).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Brings all vCPUs out, and keeps them out until the returned guard is
    /// dropped. The caller must hold no lock that a vCPU takes on its way in.
    pub(crate) fn bring_all_out(&self) -> AllOut<'_> {
        let mut closers = self.closers();
        *closers += 1;
        self.closed.store(true, Ordering::Relaxed);
        drop(closers);
        self.fence.heavy();
        let all_out = AllOut(self);
        for vcpu in &self.handles {
            while vcpu.inside.load(Ordering::Acquire) {
                vcpu.kick();
                let kicked = Instant::now();
                while vcpu.inside.load(Ordering::Acquire) && kicked.elapsed() < KICK_AGAIN {
                    std::thread::sleep(NAP);
                }
            }
        }
        all_out
    }

    /// A thread that panicked leaves valid state: each call is one step.
    fn calls(&self) -> MutexGuard<'_, Hypercalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write to a port: whether it is a hypercall, which names another vCPU. User space
    /// has no directed yield: the thread gives its CPU to whoever the kernel chooses.
    pub(crate) fn hypercall(&self, caller: VcpuId, port: u16, named: u8) -> bool {
        let number = port.checked_sub(HYPERCALLS).filter(|number| *number < 16).map(u64::from);
        let Some(number) = number else { return false };
        let named = u64::from(named);
        let arguments = if number == KICK_CPU { [0, named, 0, 0] } else { [named, 0, 0, 0] };
        let registers = HypercallRegisters { number, arguments, is_64_bit: true, privilege: 0 };
        let action = self.calls().call(caller, &registers).action;
        match action {
            HypercallAction::Wake(vcpu) => {
                if let Some(handle) = self.handles.get(vcpu.0 as usize) {
                    // A thread that has ended needs no kick.
                    let _ = handle.send(Control::Wake);
                }
            }
            HypercallAction::YieldTo(_) => std::thread::yield_now(),
            _ => {}
        }
        true
    }

    /// A vCPU halts until it is kicked; whether it sleeps.
    pub(crate) fn halt(&self, vcpu: VcpuId) -> bool {
        self.calls().halt(vcpu) != Halt::GoOn
    }
}

/// A thread beside the vCPUs', which is ended when this is dropped.
pub(crate) struct Background {
    end: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it; `end` makes `run` return.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce() + Send + 'static,
        end: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, MachineError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = Some(thread.map_err(MachineError::Thread)?);
        Ok(Self { end: Box::new(end), thread })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        (self.end)();
        if let Some(thread) = self.thread.take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use guest::layout;

    use super::*;

    /// Each thread is a vCPU that closes the barrier between its entries, as one
    /// that writes MSRs does; then no other may be inside.
    #[test]
    fn all_may_close_at_once_and_none_is_inside_then() {
        const ROUNDS: u64 = 100;
        let (vcpus, _) = Vcpus::new(3);
        let inside = [const { AtomicU64::new(0) }; 3];
        let changes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (index, own) in inside.iter().enumerate() {
                let (vcpus, inside, changes) = (&vcpus, &inside, &changes);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let entered = vcpus.enter(vcpus.handle(VcpuId(index as u32)));
                        own.store(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        own.store(0, Ordering::SeqCst);
                        drop(entered);
                        let _out = vcpus.bring_all_out();
                        assert!(inside.iter().all(|flag| flag.load(Ordering::SeqCst) == 0));
                        changes.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(changes.into_inner(), 3 * ROUNDS);
    }

    #[test]
    fn only_a_vcpu_that_sleeps_is_woken_and_once() {
        let (vcpus, receivers) = Vcpus::new(2);
        let woken = || receivers.iter().flat_map(Receiver::try_iter).count();
        assert!(!vcpus.halt(VcpuId(1)), "its first halt is over at once");
        assert!(vcpus.halt(VcpuId(1)));
        for (named, expected) in [(0, 0), (2, 0), (255, 0), (1, 1), (1, 0)] {
            assert!(vcpus.hypercall(VcpuId(0), layout::KICK_CPU, named));
            assert_eq!(woken(), expected, "{named}");
        }
        assert!(!vcpus.halt(VcpuId(1)), "kicked again while it was awake");
    }

    #[test]
    fn other_ports_are_no_hypercalls() {
        let (vcpus, _) = Vcpus::new(1);
        for (port, is_one) in
            [(layout::DOORBELL, false), (HYPERCALLS, true), (HYPERCALLS + 16, false)]
        {
            assert_eq!(vcpus.hypercall(VcpuId(0), port, 0), is_one, "{port:#x}");
        }
    }
}
