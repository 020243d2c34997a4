//! A barrier that keeps all vCPUs out of the guest while its time is changed, so
//! that none reads the old snapshot while another reads the new one (KVM:
//! KVM_REQ_MCLOCK_INPROGRESS, arch/x86/kvm/x86.c).
//!
//! A vCPU first marks itself as inside and then checks for closers; a closer
//! does it in the other order, so one of the two sees the other. The fence that takes
//! is made by the closer for both: a vCPU enters a million times a second. A vCPU is
//! never inside while it closes or waits, so several may close at once and wait
//! for one another's vCPUs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use guest::layout::VCPUS_MAX;
use host::VcpuId;
use linux::membarrier::AsymmetricFence;
use vmm_sys_util::signal::{Killable, SIGRTMIN};

/// A kick just before KVM_RUN is lost, so it is sent again after this.
pub(crate) const KICK_AGAIN: Duration = Duration::from_millis(1);

/// How long a thread sleeps between two checks of another.
pub(crate) const NAP: Duration = Duration::from_micros(50);

/// The signal that ends a KVM_RUN early.
pub(crate) fn kick_signal() -> libc::c_int {
    SIGRTMIN()
}

#[derive(Debug, Default)]
struct Slot {
    inside: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One for a machine.
#[derive(Debug, Default)]
pub(crate) struct VcpuBarrier {
    /// Whether `closers` is not 0, readable without its lock.
    closed: AtomicBool,
    fence: AsymmetricFence,
    closers: Mutex<usize>,
    opened: Condvar,
    slots: [Slot; VCPUS_MAX],
}

/// A vCPU is in the guest, or on its way in or out.
pub(crate) struct BarrierGuard<'a>(&'a AtomicBool);

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// No vCPU is in the guest, and none enters.
pub(crate) struct AllOut<'a>(&'a VcpuBarrier);

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

impl VcpuBarrier {
    /// A number stays valid when a thread panics.
    fn closers(&self) -> MutexGuard<'_, usize> {
        self.closers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self, vcpu: VcpuId) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.slots[vcpu.0 as usize].thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread to kick.
    pub(crate) fn put_thread(&self, vcpu: VcpuId, thread: JoinHandle<()>) {
        *self.thread(vcpu) = Some(thread);
    }

    /// The vCPU enters, as soon as nobody keeps it out.
    #[inline]
    pub(crate) fn enter(&self, vcpu: VcpuId) -> BarrierGuard<'_> {
        let flag = &self.slots[vcpu.0 as usize].inside;
        loop {
            flag.store(true, Ordering::Relaxed);
            let inside = BarrierGuard(flag);
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
        for (index, slot) in self.slots.iter().enumerate() {
            while slot.inside.load(Ordering::Acquire) {
                self.kick(VcpuId(index as u32));
                let kicked = Instant::now();
                while slot.inside.load(Ordering::Acquire) && kicked.elapsed() < KICK_AGAIN {
                    std::thread::sleep(NAP);
                }
            }
        }
        all_out
    }

    /// Brings one vCPU out, unless it is just before KVM_RUN.
    pub(crate) fn kick(&self, vcpu: VcpuId) {
        if let Some(thread) = &*self.thread(vcpu) {
            // A thread that has ended needs no kick.
            let _ = thread.kill(kick_signal());
        }
    }

    /// Waits for the end of a vCPU's thread after `Control::Stop`.
    pub(crate) fn join(&self, vcpu: VcpuId) {
        while self.thread(vcpu).as_ref().is_some_and(|thread| !thread.is_finished()) {
            self.kick(vcpu);
            std::thread::sleep(NAP);
        }
        if let Some(thread) = self.thread(vcpu).take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use host::VcpuId;

    use super::VcpuBarrier;

    /// Each thread is a vCPU that closes the barrier between its entries, as one
    /// that writes MSRs does; then no other may be inside.
    #[test]
    fn all_may_close_at_once_and_none_is_inside_then() {
        const ROUNDS: u64 = 100;
        let barrier = VcpuBarrier::default();
        let inside = [const { AtomicU64::new(0) }; 3];
        let changes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (index, own) in inside.iter().enumerate() {
                let (barrier, inside, changes) = (&barrier, &inside, &changes);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let entered = barrier.enter(VcpuId(index as u32));
                        own.store(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        own.store(0, Ordering::SeqCst);
                        drop(entered);
                        let _out = barrier.bring_all_out();
                        assert!(inside.iter().all(|flag| flag.load(Ordering::SeqCst) == 0));
                        changes.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(changes.into_inner(), 3 * ROUNDS);
    }
}
