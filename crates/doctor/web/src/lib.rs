#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod exports;
#[cfg(test)]
mod tests;
mod verdict;

pub use verdict::verdict;
