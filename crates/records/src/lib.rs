//! Comparisons of clocks on disk, as they are made: a run that is killed
//! leaves all of them, and a later one goes on from there.
//!
//! - [`record`]: one comparison.
//! - [`text`]: CSV and JSON lines, which can be written as they come.
//! - [`parquet`]: for whoever analyses many; it has its directory at the end,
//!   so it is made when a run is over, of the lines that the run left
//!   (docs/decisions/0014).
//! - [`recorder`]: the file of one run, in any of these forms.
//!
//! What is read is foreign: it gives an error, or exactly the comparisons that
//! were written.

pub mod damage;
pub mod parquet;
pub mod record;
pub mod recorder;
pub mod text;

pub use damage::Damage;
pub use record::Record;
pub use recorder::look::{is_unfinished, look};
pub use recorder::{Error, Joined, Recorder};
