//! A thread that keeps a clock, so that no reader has to.

use std::io;
use std::ops::Deref;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::Clock;

/// The shortest sleep: a clock that cannot be kept is no reason to spin.
const SHORTEST: Duration = Duration::from_micros(500);

/// A thread that calls [`Clock::maintain`] when it is time to; dropping it
/// ends the thread. It wakes once a segment: a program that counts its wake-ups
/// gives its clock longer ones.
#[derive(Debug)]
pub struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process that the thread is in: not a forked child.
    process: u32,
}

impl Keeper {
    /// Keeps a clock: `Keeper::start(clock::shared())`, or an `Arc<Clock>`.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start<C>(clock: C) -> io::Result<Self>
    where
        C: Deref<Target = Clock> + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("clock-keeper".into()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                thread::park_timeout(clock.maintain().max(SHORTEST));
            }
        })?;
        Ok(Self { stop, thread: Some(thread), process: process::id() })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        if self.process != process::id() {
            // Nobody here to wait for, which would take for ever.
            std::mem::forget(thread);
        } else {
            thread.thread().unpark();
            // A panic there has been reported there.
            let _ = thread.join();
        }
    }
}
