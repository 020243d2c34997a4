//! What one server may move the clock by, alone: [`MovedAlone`], as it is counted.

use super::Keeper;
use super::moved_alone::{LONE_SERVER_NS, MovedAlone};
use crate::action::{Correction, Refusal};
use crate::choice::Selected;
use crate::discipline::Adjustment;
use crate::source::SourceKind;

/// Whether it is the word of one server.
fn is_lone_server(kind: SourceKind, agreeing: usize) -> bool {
    kind == SourceKind::Ntp && agreeing < 2
}

impl Keeper {
    /// Whether one server alone may move the clock by this.
    pub(super) fn allows_alone(&self, by_ns: u64, now_ns: u64) -> Result<(), Refusal> {
        if by_ns > LONE_SERVER_NS {
            return Err(Refusal::LoneServer { most_ns: LONE_SERVER_NS });
        }
        self.alone.allows(by_ns, now_ns).map_err(|wait_ns| Refusal::LoneServerAgain {
            moved_ns: self.alone.sum_ns(now_ns),
            most_ns: LONE_SERVER_NS,
            wait_ns,
        })
    }

    /// A step or slew is made. Disruptions are a reason of their own for what they account
    /// for, and for no more.
    pub(super) fn count_alone(&mut self, by: &Correction, is_slew: bool, now_ns: u64) {
        let left_ns = self.slewing.map_or(0, |slewing| slewing.left_ns(now_ns));
        let kind = self.sources.get(by.source).map(|source| source.kind);
        let is_lone = kind.is_some_and(|kind| is_lone_server(kind, by.agreeing.0));
        let counted_ns = if !is_lone {
            0
        } else if self.is_accounted_for(&by.offset(now_ns), now_ns) {
            self.explained.beyond_ns(by.by_ns)
        } else {
            by.by_ns.unsigned_abs()
        };
        self.alone.begun(if is_slew { counted_ns } else { 0 }, left_ns.unsigned_abs());
        self.alone.add(counted_ns, now_ns);
    }

    /// The clock is right: by one server alone what it slews by is counted, and left out
    /// where that is too much; by any other nothing is held against it any more.
    pub(super) fn settled_alone(
        &mut self,
        adjustment: Option<Adjustment>,
        selected: &Selected,
        now_ns: u64,
    ) -> Option<Adjustment> {
        if !is_lone_server(selected.kind, selected.agreeing.0.min(selected.fresh)) {
            self.alone = MovedAlone::default();
            return adjustment;
        }
        let by_ns = adjustment?.slew_ns.map_or(0, i64::unsigned_abs);
        if self.alone.allows(by_ns, now_ns).is_ok() {
            self.alone.add(by_ns, now_ns);
            return adjustment;
        }
        let frequency = Adjustment { slew_ns: None, ..adjustment? };
        (frequency != Adjustment::default()).then_some(frequency)
    }
}
