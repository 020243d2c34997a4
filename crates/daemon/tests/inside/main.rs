//! The daemon in this process, without its program: one test at a time, as the counts of wake-ups
//! are a process's.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod host_socket;
mod wake_ups;

/// Held by each test from its beginning to its end.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
