//! What may have happened: one kind, or the few that the evidence cannot tell
//! apart.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::Kind;

/// The kinds that fit the evidence: one where it is certain, more where it is
/// not. A host that bumps VMClock's marker, say, has restored its guest or
/// migrated it: `[SnapshotRestored, Migrated]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kinds(u16);

impl Kinds {
    /// A machine that continues on another host, or from a saved state.
    pub(crate) const MOVED: Self = Self::any_of(&[Kind::SnapshotRestored, Kind::Migrated]);

    /// A machine that stood still.
    pub(crate) const STOOD: Self =
        Self::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated]);

    /// The RTC alone moved, forward: all other clocks stood, or it was set.
    pub(crate) const STOOD_OR_RTC_SET: Self =
        Self::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated, Kind::RtcSet]);

    /// The same of a machine that was not moved.
    pub(crate) const PAUSED_OR_RTC_SET: Self = Self::any_of(&[Kind::Pause, Kind::RtcSet]);

    /// A kernel that was suspended, and not by itself.
    pub(crate) const SUSPENDED_BY_HOST: Self =
        Self::any_of(&[Kind::Suspend, Kind::SnapshotRestored, Kind::Migrated]);

    /// A machine of which nothing ran: its host stopped it, or ran others.
    pub(crate) const STARVED: Self = Self::any_of(&[Kind::Pause, Kind::LongSteal]);

    /// A machine that stood still, or whose host did not deliver the ticks that
    /// its clock source counts.
    pub(crate) const STOPPED_OR_LOST: Self = Self::any_of(&[Kind::Pause, Kind::CounterDisrupted]);

    /// Every set that is reported: each kind alone, and those that cannot be told apart.
    pub fn reported() -> impl Iterator<Item = Self> {
        let unsure = [
            Self::MOVED,
            Self::STOOD,
            Self::STOOD_OR_RTC_SET,
            Self::PAUSED_OR_RTC_SET,
            Self::SUSPENDED_BY_HOST,
            Self::STARVED,
            Self::STOPPED_OR_LOST,
        ];
        Kind::ALL.iter().copied().map(Self::from).chain(unsure)
    }

    /// These kinds.
    pub const fn any_of(kinds: &[Kind]) -> Self {
        let (mut bits, mut next) = (0, 0);
        while next < kinds.len() {
            bits |= 1 << kinds[next] as u16;
            next += 1;
        }
        Self(bits)
    }

    /// Whether this kind fits.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }

    /// Each kind, in the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(move |kind| self.contains(*kind))
    }

    /// The kind, where just one fits.
    pub fn only(self) -> Option<Kind> {
        let mut kinds = self.iter();
        kinds.next().filter(|_| kinds.next().is_none())
    }

    /// Whether the time of day may be wrong since, by one of them.
    pub fn may_be_wrong(self) -> bool {
        self.iter().any(Kind::may_be_wrong)
    }

    /// Those that are not among `others`; `None` where all are.
    pub(crate) fn difference(self, others: Self) -> Option<Self> {
        let left = self.0 & !others.0;
        (left != 0).then_some(Self(left))
    }
}

impl From<Kind> for Kinds {
    fn from(kind: Kind) -> Self {
        Self::any_of(&[kind])
    }
}

/// Their names, `|` between them: `pause`, `snapshot-restored|migrated`.
impl fmt::Display for Kinds {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Kind::name).collect();
        to.pad(&names.join("|"))
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.iter()).finish()
    }
}

/// An array of names.
impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl JsonSchema for Kinds {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Kinds".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<Vec<Kind>>();
        schema.insert("type".into(), "array".into());
        schema.insert("minItems".into(), 1.into());
        schema.insert("uniqueItems".into(), true.into());
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_a_set_in_one_order() {
        let kinds = Kinds::any_of(&[Kind::Migrated, Kind::Pause, Kind::Pause]);
        assert_eq!(kinds.to_string(), "pause|migrated");
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [Kind::Pause, Kind::Migrated]);
        assert_eq!((kinds.only(), Kinds::from(Kind::Pause).only()), (None, Some(Kind::Pause)));
        assert_eq!(kinds.difference(Kinds::MOVED), Some(Kind::Pause.into()));
        assert_eq!(kinds.difference(Kinds::STOOD), None);
        assert_eq!(
            Kinds::STOOD_OR_RTC_SET.difference(Kinds::MOVED),
            Some(Kinds::PAUSED_OR_RTC_SET),
            "what is left is reported as well"
        );
        assert!(Kind::ALL.iter().all(|kind| Kinds::from(*kind).only() == Some(*kind)));
    }

    #[test]
    fn the_time_of_day_may_be_wrong_by_any_of_them() {
        assert!(Kinds::any_of(&[Kind::LongSteal, Kind::Pause]).may_be_wrong());
        assert!(!Kinds::from(Kind::LongSteal).may_be_wrong());
    }
}
