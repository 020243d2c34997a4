//! How often `drift`'s 95 % interval holds the truth, over many short runs
//! against references of known error, and what one wrong answer in fifty costs.
//!
//! The truth is known without a measurement: under emulation the timers, the RTC,
//! virtio-rtc and the servers all have this system's rate, and under KVM the
//! machine's clock has that of its host's, which ptp_kvm shows.

use serde_json::Value;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::drift::{Reference, WRONG, put_on_a_timer, rate, references, useful_ppm};

/// Runs at a time, and how often: together more than a hundred. Six at a time on the
/// two CPUs of an emulated machine answer one another's servers late, and their
/// intervals are 1,000 ppm wide.
const AT_ONCE: usize = 2;
const ROUNDS: usize = 52;

/// Of so many intervals one may miss the truth.
const ONE_IN: usize = 20;

/// Two scales of whole numbers, the host's and the machine's, differ by less, ppm.
const KNOWN_PPM: f64 = 0.2;

/// One wrong answer in fifty makes an interval wider by less than this.
const DEARER: f64 = 1.2;

/// The clocks measured: the machine's, whose names run at one rate, and the RTC.
const CLOCKS: [&str; 2] = ["realtime", "rtc"];

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    put_on_a_timer(place, machine)?;
    let (_servers, references) = references(place, machine)?;
    if references.is_empty() {
        return Err("neither a network nor a PTP clock to compare with".to_owned());
    }
    let reports = reports(machine, &references)?;
    for clock in CLOCKS {
        for reference in &references {
            checks.push(held(&reports, clock, reference));
        }
    }
    checks.extend(cost(&reports, &references));
    Ok(())
}

/// What all runs printed: of one clock after the other, as polling an RTC for the
/// edges of its seconds keeps a CPU busy.
fn reports(machine: &mut Machine, references: &[Reference]) -> Result<Vec<Value>, String> {
    let options: String = references.iter().map(|(option, ..)| format!(" --{option}")).collect();
    let lines = CLOCKS.map(|clock| {
        format!(
            "for i in $(seq {AT_ONCE}); do parachron drift --duration 10s --format json --clock \
             {clock}{options} >/tmp/drift$i 2>/tmp/drift.err & done; wait; cat /tmp/drift?"
        )
    });
    let mut reports = Vec::new();
    for line in (0..ROUNDS).flat_map(|_| &lines) {
        let printed = machine.line.run("intervals", 60, line)?.stdout;
        let all = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        reports.extend(all.map_while(Result::ok));
    }
    Ok(reports)
}

/// A run that printed no interval did not hold the truth.
fn held(reports: &[Value], clock: &str, (reference, what, fast_ppm): &Reference) -> Check {
    let runs = AT_ONCE * ROUNDS;
    let truth = 0.0 - fast_ppm;
    let holds = |report: &&Value| {
        rate(report, clock, reference).is_ok_and(|(_, low, high)| {
            low < high && low <= truth + KNOWN_PPM && high >= truth - KNOWN_PPM
        })
    };
    let held = reports.iter().filter(holds).count();
    let width = median_width(reports, clock, reference);
    let useful = useful_ppm(clock);
    Check::new(
        format!(
            "drift: {clock} against {what}: {truth:.0} ppm is in 95 of 100 intervals, less than \
             {useful:.0} ppm wide"
        ),
        format!("{held} of {runs}; their median width is {width:.2} ppm"),
        runs.saturating_sub(held) * ONE_IN <= runs && width < useful,
    )
}

/// Against the right server in the same runs.
fn cost(reports: &[Value], references: &[Reference]) -> Option<Check> {
    let (wrong, ..) = references.iter().find(|(_, what, _)| *what == WRONG)?;
    let width = |reference| median_width(reports, CLOCKS[0], reference);
    let (right, wrong) = (width(&references[0].0), width(wrong));
    Some(Check::new(
        "drift: one wrong answer in fifty makes the interval less than 20 % wider",
        format!("{right:.2} ppm, and {wrong:.2} ppm: {:+.0} %", (wrong / right - 1.0) * 100.0),
        wrong < right * DEARER && right < useful_ppm(CLOCKS[0]),
    ))
}

/// The median width of all intervals, ppm; not a number without one.
fn median_width(reports: &[Value], clock: &str, reference: &str) -> f64 {
    let widths = reports.iter().filter_map(|report| rate(report, clock, reference).ok());
    let mut widths: Vec<f64> = widths.map(|(_, low, high)| high - low).collect();
    widths.sort_by(f64::total_cmp);
    widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(reference: &str, intervals: &[(f64, f64)]) -> Vec<Value> {
        let one = |(low, high): &(f64, f64)| {
            serde_json::json!({ "pairs": [{ "clock": "realtime", "reference": reference,
                "drift": { "frequency": { "ppm": 0.0, "interval_ppm": [low, high] } } }] })
        };
        intervals.iter().map(one).collect()
    }

    #[test]
    fn five_of_a_hundred_may_miss_and_a_run_without_an_interval_has() {
        let passed = |low: f64, misses: usize, missing: usize| {
            let all = AT_ONCE * ROUNDS;
            let mut intervals = vec![(low, -49.0); all - misses - missing];
            intervals.extend(vec![(-49.0, -48.0); misses]);
            let reference = ("ntp a".to_owned(), "a fast server", 50.0);
            held(&reports("ntp a", &intervals), "realtime", &reference).passed
        };
        assert!(passed(-52.0, 5, 0) && passed(-52.0, 3, 2));
        assert!(!passed(-52.0, 6, 0) && !passed(-52.0, 5, 1));
        assert!(!passed(-200.0, 0, 0), "holds anything");
    }

    #[test]
    fn wrong_answers_cost_less_than_a_fifth() {
        let references =
            [("ntp a".to_owned(), "a right server", 0.0), ("ntp b".to_owned(), WRONG, 0.0)];
        let passed = |width: f64| {
            let all = [reports("ntp a", &[(0.0, 10.0)]), reports("ntp b", &[(0.0, width)])];
            cost(&all.concat(), &references).unwrap().passed
        };
        assert!(passed(11.9) && !passed(12.1) && !passed(f64::NAN));
        assert!(cost(&[], &references[..1]).is_none(), "no such server");
    }
}
