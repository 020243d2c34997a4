#![doc = include_str!("../README.md")]

pub mod compared;
pub mod damage;
pub mod folder;
pub mod minutes;
pub mod parquet;
pub mod record;
pub mod recorder;
pub mod row;
pub mod text;

pub use compared::Compared;
pub use damage::Damage;
pub use folder::Folder;
pub use folder::lines::Packed;
pub use minutes::Minute;
pub use record::{Outside, Record};
pub use recorder::read::{is_unfinished, read};
pub use recorder::{Error, Joined, Recorder};
pub use row::Row;
pub use text::BadLines;
