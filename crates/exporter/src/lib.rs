#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod exposition;
mod gate;
mod machine;
mod pages;
mod scrapes;
mod serve;

pub use exposition::{CONTENT_TYPE, exposition, textfile};
pub use gate::{Gate, Open};
pub use machine::Machine;
pub use scrapes::{Answer, Scrapes};
pub use serve::{MOST_CONNECTIONS, REQUEST_TIMEOUT, Told, serve};
