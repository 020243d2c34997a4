#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

/// Only where *ring* is built and tested.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod access;
mod exposition;
mod gate;
mod machine;
mod pages;
pub mod pair;
mod scrapes;
mod serve;

pub use exposition::{CONTENT_TYPE, exposition, textfile};
pub use gate::{Gate, Open};
pub use machine::Machine;
pub use scrapes::{Answer, Scrapes};
pub use serve::{MOST_CONNECTIONS, REQUEST_TIMEOUT, Told, serve};
