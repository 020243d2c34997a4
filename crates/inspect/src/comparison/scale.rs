//! PTP hardware clocks that seem to count something else than they are taken
//! for: TAI is ahead of UTC by whole seconds, by which few clocks are wrong.

use facts::Fact;
use sources::phc::{Apparent, PhcScale};

use super::clock_name::ClockName;
use super::notes::{Note, Seems};
use super::pair::PairReport;
use super::reference_names::{is_less_tai, phc_device};

/// A note for each; `tai_s` is TAI - UTC as the kernel was set, s, 0 where it
/// was not.
pub(super) fn notes(pairs: &[PairReport], tai_s: &Fact<i32>) -> Vec<Note> {
    pairs.iter().filter_map(|pair| note(pair, tai_s)).collect()
}

fn note(pair: &PairReport, tai_s: &Fact<i32>) -> Option<Note> {
    let ahead_ns = pair.drift.offset.ns as i64;
    let (reference, off_ns) = (pair.reference.clone(), pair.drift.offset.ns.abs());
    match (pair.clock, phc_device(&reference)) {
        (ClockName::Realtime, Some(device)) => {
            let seems = match Apparent::from_lead(ahead_ns.saturating_neg(), tai_s) {
                Apparent::Tai if pair.offset_is_error => Seems::Tai,
                Apparent::Tai => {
                    Seems::UnspecifiedTai { device: device.to_owned(), scale: PhcScale::tai(tai_s) }
                }
                Apparent::LessThanUtc if is_less_tai(&reference) => Seems::Utc,
                Apparent::LessThanUtc => Seems::BehindUtc,
                Apparent::Utc | Apparent::Neither => return None,
            };
            Some(Note::ReferenceScale { reference, off_ns, seems })
        }
        (ClockName::Phc, _) if pair.offset_is_error => {
            let counts_tai = Apparent::from_lead(ahead_ns, tai_s) == Apparent::Tai;
            counts_tai.then_some(Note::ClockScale { reference, off_ns })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use instruments::drift::budget::Budget;

    use super::*;
    use crate::comparison::tests::pair_of;

    /// The notes on a minute of a clock that is ahead of a reference.
    fn of(clock: ClockName, reference: &str, ahead_s: i64, tai_s: i32) -> Option<Note> {
        let pair = pair_of(clock, reference, 60, |_| ahead_s * 1_000_000_000);
        let mut notes = notes(&[pair.judged(Budget::default()).unwrap()], &Fact::Known(tai_s));
        assert!(notes.len() < 2, "{notes:?}");
        notes.pop()
    }

    fn seems(reference: &str, ahead_s: i64) -> Option<Seems> {
        match of(ClockName::Realtime, reference, ahead_s, 37)? {
            Note::ReferenceScale { reference: name, off_ns, seems } => {
                assert_eq!((name.as_str(), off_ns.round()), (reference, 37e9));
                Some(seems)
            }
            other => panic!("{other:?}"),
        }
    }

    fn unspecified(scale: PhcScale) -> Seems {
        Seems::UnspecifiedTai { device: "/dev/ptp1".into(), scale }
    }

    #[test]
    fn a_card_that_is_not_specified_may_count_tai() {
        let card = |ahead_s| seems("phc /dev/ptp1", ahead_s);
        assert_eq!(card(-37), Some(unspecified(PhcScale::Tai)));
        assert!(card(0).is_none() && card(-36).is_none());
        // Clocks that count from boot have any offset.
        assert_eq!(of(ClockName::Monotonic, "phc /dev/ptp1", -37, 37), None);
    }

    #[test]
    fn a_scale_that_was_specified_wrongly_is_noted() {
        assert_eq!(seems("phc /dev/ptp1 utc", -37), Some(Seems::Tai));
        assert_eq!(seems("phc /dev/ptp1 tai=37", 37), Some(Seems::Utc));
        for name in ["phc /dev/ptp1 utc", "phc /dev/ptp1 tai=37"] {
            assert_eq!(seems(name, 0), None);
        }
    }

    #[test]
    fn what_was_not_taken_for_tai_is_not_stated_to_have_been() {
        for name in ["phc /dev/ptp1", "phc /dev/ptp1 utc", "kvm /dev/ptp0"] {
            assert_eq!(seems(name, 37), Some(Seems::BehindUtc), "{name}");
        }
    }

    #[test]
    fn the_advice_is_a_number_where_the_kernel_was_not_set() {
        let note = of(ClockName::Realtime, "phc /dev/ptp1", -37, 0);
        let Some(Note::ReferenceScale { seems, .. }) = note else { panic!("{note:?}") };
        assert_eq!(seems, unspecified(PhcScale::TaiBy(37)));
    }

    #[test]
    fn a_card_that_is_measured_may_count_tai() {
        let card = |reference, ahead_s| of(ClockName::Phc, reference, ahead_s, 37);
        let note = card("ntp 192.0.2.1", 37);
        assert!(matches!(note, Some(Note::ClockScale { .. })), "{note:?}");
        let others = [("ntp 192.0.2.1", 1), ("raw", 37), ("phc /dev/ptp1", 37)];
        assert!(others.iter().all(|(reference, ahead_s)| card(reference, *ahead_s).is_none()));
    }
}
