//! What belongs to a process: its signals, and its service manager. One test at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod reload;
mod service_manager;
mod signals;

/// Held by each test from its beginning to its end.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
