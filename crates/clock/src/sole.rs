//! A value that one thread at a time may use, and that `fork` does not lose.
//!
//! A child has one thread, whichever forked. A mutex that another one held at
//! that moment stays locked in the child for good, and what it guards may be
//! half written. Here the holder leaves its process's id: a child sees that
//! the holder is not of its process, and takes the place with a new value.
//! (Not the first process of a PID namespace, if it was forked by the first of
//! another: both are process 1. What a thread held meanwhile stays held there:
//! a clock goes on by system calls, and its status is waited for in vain.)
//!
//! # Invariants of the unsafe code
//! 1. `value` is used by the one who has brought `process` from 0 to its own
//!    process's id, until it brings it back to 0; or by the one who has
//!    brought it from another process's id to its own: no thread of that
//!    process is in this memory. (Not so between `vfork` and `exec`, nor in a
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
    /// The process whose thread has it; 0 for none.
    process: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: whoever shares it gets at the value one at a time, from any thread
// (invariant 1), as with a mutex.
unsafe impl<T: Send> Sync for Sole<T> {}

/// The value, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    sole: &'a Sole<T>,
}

impl<T> Sole<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { process: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// The value, unless another thread of this `process` has it. `anew`
    /// makes one in the place of a value that another process's thread had.
    pub(crate) fn try_hold(&self, process: u32, anew: impl FnOnce() -> T) -> Option<Held<'_, T>> {
        let holder = self.process.load(Ordering::Relaxed);
        if holder == process {
            return None;
        }
        self.process
            .compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        if holder != 0 {
            // Before anybody can call it held: a panic leaves it to nobody.
            let value = anew();
            // SAFETY: ours alone (invariant 1); overwritten (invariant 2).
            unsafe { self.value.get().write(value) };
        }
        Some(Held { sole: self })
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: ours alone for as long as `self` (invariant 1).
        unsafe { &*self.sole.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: ours alone for as long as `self` (invariant 1).
        unsafe { &mut *self.sole.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
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
        unreachable!("nobody of another process had it")
    }

    #[test]
    fn one_at_a_time() {
        let sole = Sole::new(5u64);
        let held = sole.try_hold(US, never).unwrap();
        assert!(sole.try_hold(US, never).is_none());
        assert_eq!(*held, 5);
        drop(held);
        assert!(sole.try_hold(US, never).is_some());
    }

    #[test]
    fn a_child_takes_what_a_thread_of_its_parent_had() {
        let sole = Sole::new(5u64);
        std::mem::forget(sole.try_hold(PARENT, never));
        assert!(sole.try_hold(PARENT, never).is_none());
        assert_eq!(*sole.try_hold(US, || 9).unwrap(), 9);
        assert_eq!(*sole.try_hold(US, never).unwrap(), 9);
    }

    #[test]
    fn threads_see_what_each_other_did() {
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
