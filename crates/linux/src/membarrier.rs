//! A memory barrier on all threads of this process, made by one of them, by an
//! interrupt of each CPU that runs one (membarrier(2),
//! MEMBARRIER_CMD_PRIVATE_EXPEDITED; Linux 4.14). The others need none where two
//! threads each write a word and then read the other's.
//!
//! # Invariants
//! 1. membarrier takes numbers and touches no memory of this process.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Barriers on all CPUs that run a thread of this process, each by an interrupt
/// that the sender waits for.
#[derive(Debug, Clone, Copy)]
pub struct Membarrier(());

impl Membarrier {
    /// Announces this process's use of it.
    ///
    /// # Errors
    /// No membarrier in this kernel, or a sandbox forbids it.
    pub fn register() -> io::Result<Self> {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).map(Self)
    }

    /// Returns once every thread of this process that runs now has executed a
    /// barrier.
    ///
    /// # Panics
    /// Where a sandbox forbids it since it was registered: the barrier is missing.
    #[inline]
    pub fn interrupt_all(self) {
        let done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        assert!(done.is_ok(), "membarrier(2) fails only where it was not registered");
    }
}

#[inline]
fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: invariant 1.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// This process's barriers, where it can make them: registered once.
fn registered() -> Option<Membarrier> {
    static REGISTERED: OnceLock<Option<Membarrier>> = OnceLock::new();
    *REGISTERED.get_or_init(|| Membarrier::register().ok())
}

/// The two halves of a barrier between a frequent side and a seldom one.
#[derive(Debug, Clone, Copy)]
pub struct AsymmetricFence {
    by_kernel: Option<Membarrier>,
}

impl Default for AsymmetricFence {
    fn default() -> Self {
        Self { by_kernel: registered() }
    }
}

impl AsymmetricFence {
    /// Of the frequent side, between its write and its read: no instruction, but where
    /// the kernel has no membarrier.
    #[inline]
    pub fn light(self) {
        if self.by_kernel.is_some() {
            compiler_fence(Ordering::SeqCst)
        } else {
            fence(Ordering::SeqCst)
        }
    }

    /// Of the other side, between its write and its read: some µs, and an interruption
    /// of each CPU that runs this process.
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        if let Some(barrier) = self.by_kernel {
            barrier.interrupt_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    #[test]
    fn a_barrier_interrupts_once_it_is_registered() {
        match Membarrier::register() {
            Ok(barrier) => barrier.interrupt_all(),
            Err(error) => crate::cpus::skipped(&format!("membarrier: {error}")),
        }
    }

    /// Each of two threads raises its flag and looks for the other's: at least one of
    /// them must see the other, in every round.
    #[test]
    fn one_of_two_sees_the_other() {
        const ROUNDS: u64 = 200;
        let fence = AsymmetricFence::default();
        let [mine, theirs, seen] = [const { AtomicBool::new(false) }; 3];
        let turn = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    while turn.load(Ordering::Acquire) != 2 * round + 1 {
                        std::thread::yield_now();
                    }
                    theirs.store(true, Ordering::Relaxed);
                    fence.light();
                    seen.store(mine.load(Ordering::Relaxed), Ordering::Relaxed);
                    turn.store(2 * round + 2, Ordering::Release);
                }
            });
            for round in 0..ROUNDS {
                turn.store(2 * round + 1, Ordering::Release);
                mine.store(true, Ordering::Relaxed);
                fence.heavy();
                let saw = theirs.load(Ordering::Relaxed);
                while turn.load(Ordering::Acquire) != 2 * round + 2 {
                    std::thread::yield_now();
                }
                assert!(saw || seen.load(Ordering::Relaxed), "round {round}");
                mine.store(false, Ordering::Relaxed);
                theirs.store(false, Ordering::Relaxed);
            }
        });
    }
}
