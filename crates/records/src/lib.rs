#![doc = include_str!("../README.md")]

pub mod damage;
pub mod minutes;
pub mod parquet;
pub mod record;
pub mod recorder;
pub mod text;

pub use damage::Damage;
pub use minutes::Minute;
pub use minutes::folder::Folder;
pub use minutes::lines::Packed;
pub use record::Record;
pub use recorder::read::{is_unfinished, read};
pub use recorder::{Error, Joined, Recorder};
pub use text::BadLines;
