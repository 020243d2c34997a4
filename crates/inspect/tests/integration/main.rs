//! The integration tests of this crate, in one program: linking takes as long for each.

mod damage;
mod live;
mod machines;
mod parsers;
mod secrets;
mod signals;
