#![doc = include_str!("../README.md")]

pub mod damage;
pub mod parquet;
pub mod record;
pub mod recorder;
pub mod text;

pub use damage::Damage;
pub use record::Record;
pub use recorder::read::{is_unfinished, read};
pub use recorder::{Error, Joined, Recorder};
pub use text::BadLines;
