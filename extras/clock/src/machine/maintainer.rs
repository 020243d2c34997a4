//! A thread that maintains a clock, so that no reader has to.

use std::io;
use std::ops::Deref;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::machine::clock::Clock;

/// The shortest sleep: never spin on a clock that cannot be maintained.
const SHORTEST: Duration = Duration::from_micros(500);

/// A thread that calls [`Clock::maintain`] when due; dropping this ends the
/// thread. It wakes once a segment: for fewer wake-ups, use longer segments.
#[derive(Debug)]
pub struct Maintainer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process that the thread runs in: not a forked child.
    process: u32,
}

impl Maintainer {
    /// Maintains a clock: `Maintainer::start(clock::shared())`, or an `Arc<Clock>`.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start<C>(clock: C) -> io::Result<Self>
    where
        C: Deref<Target = Clock> + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("clock-maintain".into()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                thread::park_timeout(clock.maintain().max(SHORTEST));
            }
        })?;
        Ok(Self { stop, thread: Some(thread), process: process::id() })
    }
}

impl Drop for Maintainer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        if self.process != process::id() {
            // The thread is the parent's: waiting would never end.
            std::mem::forget(thread);
        } else {
            thread.thread().unpark();
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}
