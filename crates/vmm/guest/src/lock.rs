//! A spin lock among vCPUs, in four ways of waiting.
//!
//! Three of them are one queue, in which each vCPU waits on a word of its own and
//! the lock is handed to the next (Mellor-Crummey and Scott, 1991; Linux's qspinlock
//! is its compact form, kernel/locking/qspinlock.c). A queue is fair, and that is
//! what hurts in a virtual machine: the next in turn may be a vCPU that its host does
//! not run. Then either all wait out a time slice, or the waiters give their CPUs
//! away: they yield, or they halt until the one before them kicks them
//! (kernel/locking/qspinlock_paravirt.h; KVM_HC_KICK_CPU). The fourth has no queue,
//! so whoever runs may take it: what Linux does in a virtual machine whose host
//! kicks nobody (`virt_spin_lock`, arch/x86/include/asm/qspinlock.h).
//!
//! A waiter's word goes through
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | waiting | granted | the vCPU before it, which frees the lock |
//! | waiting | halted | itself, before it halts |
//! | halted | granted | the vCPU before it, which kicks it then |
//!
//! both by an atomic exchange, so a vCPU that goes to sleep is either granted the
//! lock already or is kicked after. That the kick may come before the halt is the
//! host's part: it remembers one (`host::hypercall`). `lock/tests.rs` lets loom try
//! the interleavings of two and three vCPUs, with as many preemptions as it names.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::VCPUS_MAX;

/// A word of the lock; in tests another that loom interleaves.
pub trait LockWord {
    /// Reads it; what was written before the value that is read is seen after it.
    fn load(&self) -> u32;
    /// Writes it; what was written before is seen by those that read this value.
    fn store(&self, value: u32);
    /// Both at once: writes it, and returns what was there.
    fn swap(&self, value: u32) -> u32;
    /// Writes `new` where `old` is there, and returns whether it was.
    fn replace(&self, old: u32, new: u32) -> bool;
}

impl LockWord for AtomicU32 {
    #[inline]
    fn load(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, value: u32) {
        self.store(value, Ordering::Release);
    }

    #[inline]
    fn swap(&self, value: u32) -> u32 {
        self.swap(value, Ordering::AcqRel)
    }

    #[inline]
    fn replace(&self, old: u32, new: u32) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What a waiting vCPU can do.
pub trait Waiter {
    /// Tells the CPU that this is a spin loop.
    fn pause(&mut self);
    /// Gives the CPU away, for as long as its host likes: best to this vCPU.
    fn give_way(&mut self, to: usize);
    /// Sleeps until this vCPU is kicked, or was since it last slept; it may return
    /// for no reason.
    fn halt(&mut self);
    /// Wakes a vCPU.
    fn kick(&mut self, vcpu: usize);
}

numbered! {
    /// How to wait.
    pub enum Waiting {
        /// In the queue, without end.
        Spin,
        /// In the queue, giving way to the one before it after each so many spins.
        Yield,
        /// In the queue; after so many spins halted, until kicked.
        Paravirtual,
        /// Without a queue: whoever comes first.
        Unfair,
    }
}

/// States of a waiter's word.
const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const HALTED: u32 = 2;

/// One vCPU's place in the queue, on a cache line of its own.
#[derive(Debug)]
#[repr(C, align(64))]
struct LockPlace<W> {
    /// The vCPU after it, plus 1.
    next: W,
    state: W,
}

/// The lock, for vCPUs 0 to `VCPUS` - 1. Zeroed memory is a free one.
///
/// ```
/// use guest::lock::{Lock, Waiter, Waiting};
///
/// struct Alone;
/// impl Waiter for Alone {
///     fn pause(&mut self) {}
///     fn give_way(&mut self, _: usize) {}
///     fn halt(&mut self) {}
///     fn kick(&mut self, _: usize) {}
/// }
/// let lock = Lock::<_, 2>::from_words(|| core::sync::atomic::AtomicU32::new(0));
/// let has_waited = lock.take(1, Waiting::Paravirtual, 100, &mut Alone);
/// lock.free(1, Waiting::Paravirtual, &mut Alone);
/// assert!(!has_waited);
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lock<W, const VCPUS: usize> {
    /// The last vCPU in the queue plus 1, or 0; without a queue the one that has it.
    last: W,
    places: [LockPlace<W>; VCPUS],
}

impl<W: LockWord, const VCPUS: usize> Lock<W, VCPUS> {
    /// A free lock of words that `word` makes.
    pub fn from_words(mut word: impl FnMut() -> W) -> Self {
        let places = core::array::from_fn(|_| LockPlace { next: word(), state: word() });
        Self { last: word(), places }
    }

    /// Takes it for a vCPU that does not have it, and returns whether it had to wait.
    ///
    /// # Panics
    /// There is no such vCPU.
    #[inline]
    pub fn take(&self, vcpu: usize, way: Waiting, spins: u32, waiter: &mut impl Waiter) -> bool {
        if way == Waiting::Unfair {
            return self.take_unfair(vcpu, waiter);
        }
        let place = &self.places[vcpu];
        place.next.store(0);
        place.state.store(WAITING);
        let before = self.last.swap(vcpu as u32 + 1);
        if before == 0 {
            return false;
        }
        self.places[before as usize - 1].next.store(vcpu as u32 + 1);
        let mut spun = 0;
        while place.state.load() != GRANTED {
            if way == Waiting::Spin || spun < spins {
                spun += 1;
                waiter.pause();
                continue;
            }
            spun = 0;
            if way == Waiting::Yield {
                waiter.give_way(before as usize - 1);
            } else if place.state.replace(WAITING, HALTED) {
                while place.state.load() != GRANTED {
                    waiter.halt();
                }
            }
        }
        true
    }

    fn take_unfair(&self, vcpu: usize, waiter: &mut impl Waiter) -> bool {
        let mut has_waited = false;
        while self.last.load() != 0 || !self.last.replace(0, vcpu as u32 + 1) {
            has_waited = true;
            waiter.pause();
        }
        has_waited
    }

    /// Frees it, by the vCPU that has it and in the way in which it was taken.
    ///
    /// # Panics
    /// There is no such vCPU.
    #[inline]
    pub fn free(&self, vcpu: usize, way: Waiting, waiter: &mut impl Waiter) {
        if way == Waiting::Unfair {
            return self.last.store(0);
        }
        let place = &self.places[vcpu];
        if place.next.load() == 0 && self.last.replace(vcpu as u32 + 1, 0) {
            return;
        }
        // Another is the last, but may not have written itself into this place yet.
        let mut next = place.next.load();
        while next == 0 {
            waiter.pause();
            next = place.next.load();
        }
        let next = next as usize - 1;
        if self.places[next].state.swap(GRANTED) == HALTED {
            waiter.kick(next);
        }
    }
}

/// A lock, and who had it: what vCPUs contend for in [`contention`](crate::contention).
/// Zeroed memory is a valid value.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Contended {
    pub(crate) lock: Lock<AtomicU32, VCPUS_MAX>,
    /// The vCPU that had it last, plus 1, and the TSC when it freed it: written by
    /// its holder alone.
    pub(crate) last: AtomicU64,
    pub(crate) freed: AtomicU64,
}

#[cfg(all(test, not(miri)))]
mod tests;
