//! One comparison.

use instruments::drift::{DriftReading, Nesting, Span};
use serde::{Deserialize, Serialize};

/// One comparison of a clock with a reference, as a line or row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The kernel's name of this boot: clocks that count from it are not joined
    /// across two.
    pub boot: String,
    /// What the clock was compared with.
    pub reference: String,
    /// The clock's name.
    pub clock: String,
    /// Which of the two was read around the other.
    pub outside: Outside,
    /// The clock's earlier reading, ns.
    pub clock_before_ns: u64,
    /// The clock's later reading, ns.
    pub clock_after_ns: u64,
    /// The reference's earlier reading, ns.
    pub reference_before_ns: u64,
    /// The reference's later reading, ns.
    pub reference_after_ns: u64,
}

/// Which clock was read around the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// The clock: a request and its reply.
    Clock,
    /// The reference.
    Reference,
}

impl Outside {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Reference => "reference",
        }
    }

    /// From files.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Clock, Self::Reference].into_iter().find(|outside| outside.name() == name)
    }
}

impl Record {
    /// A comparison under its names.
    pub fn new(boot: &str, reference: &str, clock: &str, reading: DriftReading) -> Self {
        Self {
            boot: boot.to_owned(),
            reference: reference.to_owned(),
            clock: clock.to_owned(),
            outside: match reading.nesting {
                Nesting::ClockOutside => Outside::Clock,
                Nesting::ReferenceOutside => Outside::Reference,
            },
            clock_before_ns: reading.clock.before,
            clock_after_ns: reading.clock.after,
            reference_before_ns: reading.reference.before,
            reference_after_ns: reading.reference.after,
        }
    }

    /// The comparison without its names.
    pub fn reading(&self) -> DriftReading {
        DriftReading {
            clock: Span { before: self.clock_before_ns, after: self.clock_after_ns },
            reference: Span { before: self.reference_before_ns, after: self.reference_after_ns },
            nesting: match self.outside {
                Outside::Clock => Nesting::ClockOutside,
                Outside::Reference => Nesting::ReferenceOutside,
            },
        }
    }

    /// Its four times, in the order of the columns.
    pub(crate) fn times_ns(&self) -> [u64; 4] {
        [
            self.clock_before_ns,
            self.clock_after_ns,
            self.reference_before_ns,
            self.reference_after_ns,
        ]
    }

    /// Its names, in the order of the columns.
    pub(crate) fn names(&self) -> [&str; 4] {
        [&self.boot, &self.reference, &self.clock, self.outside.name()]
    }

    /// Of the columns; none where `outside` is neither.
    pub(crate) fn of_columns(
        [boot, reference, clock, outside]: [&str; 4],
        [clock_before_ns, clock_after_ns, reference_before_ns, reference_after_ns]: [u64; 4],
    ) -> Option<Self> {
        Some(Self {
            boot: boot.to_owned(),
            reference: reference.to_owned(),
            clock: clock.to_owned(),
            outside: Outside::of_name(outside)?,
            clock_before_ns,
            clock_after_ns,
            reference_before_ns,
            reference_after_ns,
        })
    }
}

/// The columns of names.
pub const NAMES: [&str; 4] = ["boot", "reference", "clock", "outside"];

/// The columns of times, all in nanoseconds.
pub const TIMES: [&str; 4] =
    ["clock_before_ns", "clock_after_ns", "reference_before_ns", "reference_after_ns"];
