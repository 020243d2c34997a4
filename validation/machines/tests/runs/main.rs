//! The runner as a program: machines that fail, that cannot run, and that must not outlive it.

mod broken;
mod guard;
mod unavailable;
