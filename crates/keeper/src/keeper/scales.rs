//! UTC and smeared UTC: two scales, which are not mixed where they may differ.
//!
//! That is from noon of 30 June and of 31 December to the next noon: whether a second
//! is inserted then, who smears it does not announce. Sources of one scale count
//! meanwhile, that of more voices, and UTC of two as many; not of those that reply, or
//! the clock would go to and fro by half a second as they do. How many have to agree
//! stays as it is (docs/decisions/leap-seconds.md).

use units::calendar;

use super::Keeper;
use super::leap::DAY_NS;
use super::polled::Polled;
use crate::announced::Scale;
use crate::choice::Candidate;
use crate::source::Voice;

impl Keeper {
    /// So many voices have a source of that kind.
    pub(super) fn voices(&self, counts: impl Fn(&Polled) -> bool) -> usize {
        let counted = self.sources.iter().enumerate().filter(|(_, source)| counts(source));
        let voices = || counted.clone().map(|(at, source)| source.kind.voice(at));
        let of_host = voices().any(|voice| voice == Voice::Host);
        voices().filter(|voice| *voice != Voice::Host).count() + usize::from(of_host)
    }

    /// The scale that does not count where it may differ from the other.
    pub(super) fn other_scale(&self) -> Option<Scale> {
        let of = |scale| self.voices(|source| source.scale == scale);
        let smeared = of(Scale::Smeared);
        let utc = if smeared == 0 { 0 } else { of(Scale::Utc) };
        let other = if smeared > utc { Scale::Utc } else { Scale::Smeared };
        (utc > 0).then_some(other)
    }

    /// Whether scales may differ at the time that this one shows: a liar leaves out none
    /// but itself.
    pub(super) fn is_near_leap(&self, shown: &Candidate, now_ns: u64) -> bool {
        let unix_ns = self.leap.realtime_ns + i128::from(now_ns);
        let noon_ns = i128::from(DAY_NS / 2);
        let days =
            (unix_ns + i128::from(shown.offset.offset_ns) - noon_ns).div_euclid(DAY_NS.into());
        calendar::date(days).is_leap_day()
    }
}
