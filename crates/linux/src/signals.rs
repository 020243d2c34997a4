//! What this process does at a signal: asked, changed for a while, put back.
//!
//! # Invariants
//! 1. `SIG_IGN` runs no code at a signal: safe for any signal, in any thread.
//! 2. What is put back is what this process had asked for itself, flags and
//!    mask included, and code of a program is never unloaded.
#![allow(unsafe_code)]

use libc::{c_int, sigaction};

/// Signals that are ignored as long as this lives. Then each is treated as it
/// was before: under `nohup`, which ignores SIGHUP, or beneath a handler.
#[derive(Debug)]
pub struct Ignored(Vec<(c_int, sigaction)>);

/// Ignores these signals; those that cannot be ignored stay as they are.
pub fn ignore(signals: &[c_int]) -> Ignored {
    let ignore = |&signal: &c_int| {
        let mut ignored = none();
        ignored.sa_sigaction = libc::SIG_IGN;
        let mut before = none();
        // SAFETY: both are valid for the call; invariant 1.
        let done = unsafe { libc::sigaction(signal, &ignored, &mut before) } == 0;
        done.then_some((signal, before))
    };
    Ignored(signals.iter().filter_map(ignore).collect())
}

/// Whether a signal is ignored.
pub fn is_ignored(signal: c_int) -> bool {
    let mut now = none();
    // SAFETY: asks only; `now` is valid for the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) } == 0;
    asked && now.sa_sigaction == libc::SIG_IGN
}

impl Drop for Ignored {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            // SAFETY: invariant 2.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

/// `SIG_DFL`, no flags, no mask.
fn none() -> sigaction {
    // SAFETY: integers and a function pointer that may be absent, valid as zeroes.
    unsafe { std::mem::zeroed() }
}
