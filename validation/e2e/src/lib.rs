//! What the end-to-end tests share: cases that declare what they need, and
//! the program that they run.
//!
//! A case whose need this machine does not meet is marked ignored, with the
//! reason before its name, so that the closing line counts it. One that found
//! the host too busy to measure is ignored as well, and listed after that line.

pub mod chronyd;
pub mod clockbound_clients;
pub mod cpu_watch;
mod need;
pub mod ntp_server;
mod program;
mod runner;

pub use cpu_watch::not_measured;
pub use need::{Need, cgroup_mount, kernel};
pub use program::{Program, ProgramOutput, project};
pub use runner::run;

/// One end-to-end test.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What holds, as a name.
    pub name: &'static str,
    /// Whether others may run beside it.
    pub sharing: Sharing,
    /// What it cannot do without.
    pub needs: &'static [Need],
    /// Panics where it does not hold.
    pub run: fn(&Program),
}

/// How a case bears others beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It mostly waits, or its verdict does not depend on how long it takes.
    Shared,
    /// It measures time, or changes what others would see: the clock source, the
    /// daemons of this machine, the threads of this process.
    Alone,
}
