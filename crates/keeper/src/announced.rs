//! What a source states of leap seconds, beside its time.

use pvclock::units::LeapSecond;

/// Which time of day a source shows while a leap second is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnnouncedScale {
    /// That is not known: a host's clock may be either.
    #[default]
    Unknown,
    /// UTC, which repeats or leaves out that second.
    Utc,
    /// UTC with the leap second spread over hours: up to half a second off UTC from
    /// noon before it to noon after it, and the same else.
    Smeared,
}

/// What a source states of leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// The leap second of this day, if it announces one.
    pub leap: Option<LeapSecond>,
    /// The time that it shows meanwhile.
    pub scale: AnnouncedScale,
}
