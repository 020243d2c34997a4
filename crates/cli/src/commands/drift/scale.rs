//! PTP hardware clocks that seem to count something else than they are taken
//! for: TAI is ahead of UTC by whole seconds, by which few clocks are wrong.

use facts::Fact;
use sources::phc::{Apparent, PhcScale};

use super::reference_names::{is_less_tai, phc_device};
use super::report::PairReport;
use instruments::figures::time;

/// A sentence for each; `tai_s` is the kernel's word on TAI - UTC, s, 0 where
/// nobody told it.
pub(super) fn notes(pairs: &[PairReport], tai_s: &Fact<i32>) -> Vec<String> {
    pairs.iter().filter_map(|pair| note(pair, tai_s)).collect()
}

fn note(pair: &PairReport, tai_s: &Fact<i32>) -> Option<String> {
    let (clock, reference) = (pair.clock.as_str(), pair.reference.as_str());
    let ahead_ns = pair.drift.offset.ns as i64;
    let far = time(pair.drift.offset.ns.abs());
    match (clock, phc_device(reference)) {
        ("realtime", Some(device)) => {
            let counts = match Apparent::of(ahead_ns.saturating_neg(), tai_s) {
                Apparent::Tai if pair.offset_is_error => {
                    "ahead of realtime, as TAI is of UTC: it counts TAI, or realtime is wrong by \
                     that much"
                        .to_owned()
                }
                Apparent::Tai => format!(
                    "ahead of realtime, as TAI is of UTC: if it counts TAI, as a network card's \
                     does that ptp4l sets, `--phc {device}{}` subtracts that",
                    PhcScale::tai(tai_s)
                ),
                Apparent::LessThanUtc if is_less_tai(reference) => {
                    "behind realtime, as UTC is of TAI: it counts UTC and was taken to count TAI, \
                     or realtime is wrong by that much"
                        .to_owned()
                }
                Apparent::LessThanUtc => {
                    "behind realtime, as UTC is of TAI: realtime is ahead by that much, or it is \
                     behind"
                        .to_owned()
                }
                Apparent::Utc | Apparent::Neither => return None,
            };
            Some(format!("{reference} is {far} {counts}."))
        }
        ("phc", _) if pair.offset_is_error => match Apparent::of(ahead_ns, tai_s) {
            Apparent::Tai => Some(format!(
                "phc is {far} ahead of {reference}, as TAI is of UTC: it appears to count TAI, as a \
                 network card's clock does that ptp4l sets."
            )),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use instruments::drift::budget::Budget;
    use instruments::drift::{Nesting, Reading, Series, Span};

    use super::super::clocks::ClockName;
    use super::super::pair::{Pair, judged};
    use super::*;

    const SINCE_1970: u64 = 1_795_000_000_000_000_000;

    /// What is told of a minute of a clock that is ahead of a reference.
    fn told(clock: ClockName, reference: &str, ahead_s: i64) -> Vec<String> {
        notes(&[pair(clock, reference, ahead_s)], &Fact::Known(37))
    }

    fn pair(clock: ClockName, reference: &str, ahead_s: i64) -> PairReport {
        let mut series = Series::new();
        for n in 1..61 {
            let before = SINCE_1970 + 1_000_000_000 * n;
            let shown = before.saturating_add_signed(ahead_s * 1_000_000_000) + 50;
            let reference = Span { before, after: before + 100 };
            let nesting = Nesting::ReferenceOutside;
            series.push(Reading { clock: Span::at(shown), reference, nesting }).unwrap();
        }
        judged(&Pair::of(clock, reference, series), Budget::default()).unwrap()
    }

    #[test]
    fn a_card_of_which_nothing_is_said_may_be_said_to_count_tai() {
        let of = |ahead_s| told(ClockName::Realtime, "phc /dev/ptp1", ahead_s);
        assert_eq!(
            of(-37),
            [
                "phc /dev/ptp1 is 37.0 s ahead of realtime, as TAI is of UTC: if it counts TAI, as a \
              network card's does that ptp4l sets, `--phc /dev/ptp1,tai` subtracts that."
            ]
        );
        assert!(of(0).is_empty() && of(-36).is_empty());
        // Clocks that count from boot are off by anything.
        assert!(told(ClockName::Monotonic, "phc /dev/ptp1", -37).is_empty());
    }

    #[test]
    fn what_is_said_wrongly_is_told() {
        let of = |name, ahead_s| told(ClockName::Realtime, name, ahead_s).concat();
        let utc = |ahead_s| of("phc /dev/ptp1 utc", ahead_s);
        assert!(utc(-37).starts_with("phc /dev/ptp1 utc is 37.0 s ahead of realtime, as TAI"));
        assert!(utc(-37).ends_with("it counts TAI, or realtime is wrong by that much."));
        let tai = |ahead_s| of("phc /dev/ptp1 tai=37", ahead_s);
        assert!(
            tai(37).contains("37.0 s behind realtime, as UTC is of TAI: it counts UTC and was")
        );
        assert_eq!(utc(0) + &tai(0), "");
    }

    #[test]
    fn what_was_not_taken_for_tai_is_not_told_to_have_been() {
        for name in ["phc /dev/ptp1", "phc /dev/ptp1 utc", "kvm /dev/ptp0"] {
            let said = told(ClockName::Realtime, name, 37).concat();
            let end = "37.0 s behind realtime, as UTC is of TAI: realtime is ahead by that much, \
                       or it is behind.";
            assert!(said.ends_with(end), "{said}");
        }
    }

    #[test]
    fn what_is_advised_is_a_number_where_the_kernel_has_none() {
        let pair = pair(ClockName::Realtime, "phc /dev/ptp1", -37);
        let said = notes(&[pair], &Fact::Known(0)).concat();
        assert!(said.ends_with("`--phc /dev/ptp1,tai=37` subtracts that."), "{said}");
    }

    #[test]
    fn a_card_that_is_measured_may_count_tai() {
        let of = |reference, ahead_s| told(ClockName::Phc, reference, ahead_s).concat();
        let said = of("ntp 192.0.2.1", 37);
        assert!(said.starts_with("phc is 37.0 s ahead of ntp 192.0.2.1, as TAI is"), "{said}");
        assert_eq!(of("ntp 192.0.2.1", 1) + &of("raw", 37) + &of("phc /dev/ptp1", 37), "");
    }
}
