//! ClockBound's segments: a file in shared memory in which a time daemon
//! publishes how far the time of day may be off (`docs/PROTOCOL.md` of
//! github.com/aws/clock-bound for layouts 1 and 2, `src/shm.rs` of its crate
//! `clock-bound` 3.0.0-rc.0 for layout 3, which has no document yet).
//!
//! | layout | file | clients | bounds |
//! | --- | --- | --- | --- |
//! | 1 | `/var/run/clockbound/shm` | 1.x | CLOCK_REALTIME |
//! | 2 | `/var/run/clockbound/shm0` | 2.x | CLOCK_REALTIME |
//! | 3 | `/var/run/clockbound/shm1` | 3.x | a time that the client computes from the TSC |
//!
//! ```text
//! error = bound + max_drift · (now − as_of)          until void_after
//! ```
//!
//! A generation in the header is odd while the daemon writes. What a killed
//! daemon leaves is refused once `void_after` has passed, and at once if it was
//! killed while it wrote.
//!
//! ```
//! use pvclock::clockbound::{SegmentBound, Layout, SegmentPage, SegmentReader, SegmentWriter, SegmentStatus};
//!
//! let page: SegmentPage = SegmentPage::new(Layout::SystemClock);
//! let bound = SegmentBound { as_of_ns: 1_000_000_000, void_after_ns: 61_000_000_000, bound_ns: 40_000,
//!     max_drift_ppb: 500_000, status: SegmentStatus::Synchronised, ..SegmentBound::UNKNOWN };
//! SegmentWriter::new(&page, Layout::SystemClock).write(&bound);
//!
//! let read = SegmentReader::new(&page)?.read()?;
//! // 40 µs, and 500 ppm of 2 s.
//! assert_eq!(read.error_ns(3_000_000_000), Some(1_040_000));
//! assert_eq!(read.error_ns(61_000_000_001), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod page;
mod segment;

pub use crate::units::Malformed;
pub use page::{Fraction, Layout, SegmentBound, SegmentCounter, SegmentPage, SegmentStatus};
pub use segment::{SegmentReader, SegmentWriter};
