//! The daemon in this process, without its program: one test at a time, as one
//! holds 1,300 sockets, and replies are timed to a tenth of a second.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod host_socket;
mod serve;
mod wake_ups;

/// Held by each test from its beginning to its end.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
