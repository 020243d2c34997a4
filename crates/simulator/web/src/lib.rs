#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod cells;
mod exports;
mod request;
mod session;
mod story;

pub use session::PageSession;
