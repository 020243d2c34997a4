#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]
#![forbid(unsafe_code)]

pub mod chronyd;
pub mod hosttime;
pub mod ntp;

#[cfg(test)]
extern crate std;
