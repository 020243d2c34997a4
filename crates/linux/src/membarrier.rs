//! A memory barrier on all threads of this process, made by one of them: the others
//! need none where two threads each write a word and then read the other's
//! (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED; Linux 4.14).
//!
//! # Invariants
//! 1. membarrier takes numbers and touches no memory of this process.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether this process can make barriers on all of its threads: registered once.
fn is_registered() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: invariant 1.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The two halves of a barrier between a frequent side and a seldom one.
#[derive(Debug, Clone, Copy)]
pub struct AsymmetricFence {
    by_kernel: bool,
}

impl Default for AsymmetricFence {
    fn default() -> Self {
        Self { by_kernel: is_registered() }
    }
}

impl AsymmetricFence {
    /// Of the frequent side, between its write and its read: no instruction, but where
    /// the kernel has no membarrier.
    #[inline]
    pub fn light(self) {
        if self.by_kernel { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    /// Of the other side, between its write and its read: some µs, and an interruption
    /// of each CPU that runs this process.
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        if self.by_kernel {
            let done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(done, "membarrier(2) fails only where it was not registered");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    /// Each of two threads raises its flag and looks for the other's: at least one of
    /// them must see the other, in every round.
    #[test]
    fn one_of_two_sees_the_other() {
        const ROUNDS: u64 = 2_000;
        let fence = AsymmetricFence::default();
        let [mine, theirs, seen] = [const { AtomicBool::new(false) }; 3];
        let turn = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    while turn.load(Ordering::Acquire) != 2 * round + 1 {
                        std::hint::spin_loop();
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
