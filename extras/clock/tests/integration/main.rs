//! The integration tests of this crate, in one program: linking takes as long for each.
#![cfg(not(miri))]

mod common;
mod processes;
mod real;
mod vmclock;
