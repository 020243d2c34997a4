//! A value that one thread at a time may use, and that `fork` does not lose.
//!
//! A child has one thread, the one that forked. A mutex that another one held
//! at that moment stays locked in the child for ever, and what it guards may be
//! half written. Here the holder leaves its process's id: a child sees that
//! the holder is in another process, and replaces the value with a new one.
//! (Exception: the first process of a PID namespace that was forked by the
//! first of another; both are process 1. What a thread held meanwhile stays
//! held there: a clock continues by system calls, and its status never returns.)
//!
//! # Invariants of the unsafe code
//! 1. `value` is used by the thread that changed `process` from 0 to its own
//!    process's id, until it stores 0 again; or by the one that changed it from
//!    another process's id to its own: no thread of that process is in this
//!    memory. (Not so between `vfork` and `exec`, nor in a
//!    signal handler that forks: neither may call anything but what POSIX
//!    calls async-signal-safe, which this is not.)
//! 2. A value that another process's thread had is overwritten, not read or
//!    dropped.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// A value for one thread at a time.
#[derive(Debug)]
pub(crate) struct Sole<T> {
    /// The process whose thread holds it; 0 for none.
    process: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: threads access the value one at a time, from any thread (invariant
// 1), as with a mutex.
unsafe impl<T: Send> Sync for Sole<T> {}

/// The value, until this is dropped.
#[derive(Debug)]
pub(crate) struct SoleGuard<'a, T> {
    sole: &'a Sole<T>,
}

impl<T> Sole<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { process: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// The value, unless another thread of this `process` holds it.
    /// `replacement` makes a new one where another process's thread held it.
    pub(crate) fn try_hold(
        &self,
        process: u32,
        replacement: impl FnOnce() -> T,
    ) -> Option<SoleGuard<'_, T>> {
        let holder = self.process.load(Ordering::Relaxed);
        if holder == process {
            return None;
        }
        self.process
            .compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        if holder != 0 {
            // Before a `Held` exists: after a panic no thread holds it.
            let value = replacement();
            // SAFETY: ours alone (invariant 1); overwritten (invariant 2).
            unsafe { self.value.get().write(value) };
        }
        Some(SoleGuard { sole: self })
    }
}

impl<T> Deref for SoleGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: ours alone for as long as `self` (invariant 1).
        unsafe { &*self.sole.value.get() }
    }
}

impl<T> DerefMut for SoleGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: ours alone for as long as `self` (invariant 1).
        unsafe { &mut *self.sole.value.get() }
    }
}

impl<T> Drop for SoleGuard<'_, T> {
    fn drop(&mut self) {
        self.sole.process.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The ids of two processes.
    const US: u32 = 7;
    const PARENT: u32 = 6;

    fn never() -> u64 {
        unreachable!("no thread of another process held it")
    }

    #[test]
    fn one_thread_at_a_time() {
        let sole = Sole::new(5u64);
        let held = sole.try_hold(US, never).unwrap();
        assert!(sole.try_hold(US, never).is_none());
        assert_eq!(*held, 5);
        drop(held);
        assert!(sole.try_hold(US, never).is_some());
    }

    #[test]
    fn a_child_replaces_what_a_thread_of_its_parent_held() {
        let sole = Sole::new(5u64);
        std::mem::forget(sole.try_hold(PARENT, never));
        assert!(sole.try_hold(PARENT, never).is_none());
        assert_eq!(*sole.try_hold(US, || 9).unwrap(), 9);
        assert_eq!(*sole.try_hold(US, never).unwrap(), 9);
    }

    #[test]
    fn threads_see_each_others_changes() {
        let sole = Sole::new(0u64);
        let add = || {
            let mut added = 0;
            while added < 100 {
                if let Some(mut held) = sole.try_hold(US, never) {
                    *held += 1;
                    added += 1;
                } else {
                    thread::yield_now();
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
        assert_eq!(*sole.try_hold(US, never).unwrap(), 200);
    }
}
