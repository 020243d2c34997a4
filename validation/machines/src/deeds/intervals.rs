//! How often `drift`'s 95 % interval holds the truth, over many short runs
//! against references of known error, and what one wrong answer in fifty costs.
//!
//! The truth is known without a measurement ([`true_rate`]): under emulation the timers, the
//! RTC, virtio-rtc and the servers all have this system's rate, and under KVM the machine's
//! clock that of its host's, but for the scales of both.

use serde_json::Value;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::table::{Base, Deed};

use super::drift::{Reference, WRONG, option, put_on_a_timer, rate, references, steps};
use super::true_rate::{self, Rate};
use super::{Place, vmclock};

/// How one clock is measured a hundred times.
#[derive(Debug)]
struct Runs {
    clock: &'static str,
    lasting_s: u32,
    /// So many at a time at most, and so many references compared with: an emulated machine
    /// of two CPUs is late where more is asked of it, and the intervals show it.
    at_once: usize,
    references: usize,
    /// Wider intervals show nothing.
    useful_ppm: f64,
}

impl Runs {
    const fn at_once(&self, references: usize) -> usize {
        let may = self.references / references;
        if may > self.at_once { self.at_once } else { may }
    }

    /// A hundred, or what is next to it.
    const fn times(&self, references: usize) -> usize {
        100_usize.div_ceil(self.at_once(references))
    }

    const fn all(&self, references: usize) -> usize {
        self.at_once(references) * self.times(references)
    }
}

/// The machine's clock, whose names run at one rate, and the RTC: one after the other, as
/// polling an RTC for the edges of its seconds keeps a CPU busy.
///
/// Against what answers requests: of eight at once, on an emulated machine of two CPUs, the
/// intervals are 480 ppm wide, as they are late by each other, and of one alone 20 to 40. They
/// have to tell a server that is 50 ppm fast from a right one.
const BY_REQUESTS: Runs =
    Runs { clock: "realtime", lasting_s: 20, at_once: 2, references: 8, useful_ppm: 100.0 };
/// Against what counts as the machine does, a page or KVM's pairing, which is read within some
/// µs: 0.03 ppm wide and less.
const BY_COUNTER: Runs =
    Runs { clock: "realtime", lasting_s: 20, at_once: 8, references: 24, useful_ppm: 0.5 };
/// One of an RTC that allows 1 % either way shows nothing.
const RTC: Runs =
    Runs { clock: "rtc", lasting_s: 15, at_once: 6, references: 18, useful_ppm: 20_000.0 };

/// Of so many intervals one may miss the truth.
const ONE_IN: usize = 20;

/// One wrong answer in fifty makes an interval wider by less than this.
const DEARER: f64 = 1.2;

/// Of a row that holds a run of `drift` to the truth.
pub(crate) fn wanted(does: &[Deed]) -> bool {
    does.contains(&Deed::Drift) || does.contains(&Deed::Vmclock)
}

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    put_on_a_timer(place, machine)?;
    let by_page = place.row.does.contains(&Deed::Vmclock);
    let (_servers, references) = if by_page {
        vmclock::write(machine)?;
        (Vec::new(), vmclock::references().into())
    } else {
        references(place, machine)?
    };
    let rate = true_rate::of(place, machine)?;
    // An emulated machine's PTP clock is virtio-rtc's, which answers requests as well.
    let by_counter = by_page || place.row.base == Base::Kvm;
    let realtime = if by_counter { &BY_COUNTER } else { &BY_REQUESTS };
    for (runs, rate) in [(realtime, rate), (&RTC, rate.exact())] {
        let reports = reports(machine, runs, &references)?;
        let all = runs.all(references.len());
        checks.extend(references.iter().map(|one| held(&reports, runs, rate, all, one)));
        checks.push(no_step(&reports, runs.clock));
        if runs.clock == realtime.clock {
            checks.extend(cost(&reports, realtime, &references));
        }
    }
    Ok(())
}

/// What all runs printed. Those of one time begin one after the other in the tenth of a
/// second that `drift` leaves between two samples.
fn reports(
    machine: &mut Machine,
    runs: &Runs,
    references: &[Reference],
) -> Result<Vec<Value>, String> {
    let Runs { clock, lasting_s, .. } = runs;
    let at_once = runs.at_once(references.len());
    let options: String = references.iter().map(option).collect();
    let apart_ms = 100 / at_once;
    let line = format!(
        "rm -f /tmp/drift*; for i in $(seq {at_once}); do (usleep $((i * {apart_ms}000)); \
         parachron drift --duration {lasting_s}s --format json --clock {clock}{options} \
         >/tmp/drift$i 2>/tmp/drift.err) & done; wait; cat /tmp/drift?"
    );
    // A machine that is this busy loses parts of long lines.
    machine.execute(&format!("echo '{line}' >/tmp/intervals"))?;
    let mut reports = Vec::new();
    for _ in 0..runs.times(references.len()) {
        let printed = machine.line.run("intervals", 90, "sh /tmp/intervals")?.stdout;
        let all = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        reports.extend(all.map_while(Result::ok));
    }
    Ok(reports)
}

/// A run that printed no interval did not hold the truth.
fn held(
    reports: &[Value],
    &Runs { clock, useful_ppm, .. }: &Runs,
    true_rate: Rate,
    runs: usize,
    (reference, what, fast_ppm): &Reference,
) -> Check {
    let (truth, known_ppm) = (true_rate.on(*fast_ppm), true_rate.known_ppm);
    let holds = |report: &&Value| {
        rate(report, clock, reference).is_ok_and(|(_, low, high)| {
            low < high && low <= truth + known_ppm && high >= truth - known_ppm
        })
    };
    let held = reports.iter().filter(holds).count();
    let width = median_width(reports, clock, reference);
    Check::new(
        format!(
            "drift: {clock} against {what}: {truth:.4} ± {known_ppm} ppm is in 95 of 100 \
             intervals, less than {useful_ppm} ppm wide"
        ),
        format!("{held} of {runs}; their median width is {width:.4} ppm"),
        runs.saturating_sub(held) * ONE_IN <= runs && width < useful_ppm,
    )
}

/// No clock was moved in any of the runs, so none is told: an answer that is wrong once is
/// an outlier.
fn no_step(reports: &[Value], clock: &str) -> Check {
    let told: Vec<String> = reports.iter().flat_map(steps).collect();
    let found = match told.first() {
        None => format!("none in {} runs", reports.len()),
        Some(first) => format!("{} in {} runs; {first}", told.len(), reports.len()),
    };
    let what = format!("drift: {clock}: a hundred runs report no step");
    Check::new(what, found, !reports.is_empty() && told.is_empty())
}

/// Against both servers that are right in each answer: `drift` asks all of them one after
/// the other, and an interval is wider where others were asked before.
fn cost(reports: &[Value], runs: &Runs, references: &[Reference]) -> Option<Check> {
    let (wrong, ..) = references.iter().find(|(_, what, _)| *what == WRONG)?;
    let width = |reference: &String| median_width(reports, runs.clock, reference);
    let right = references.iter().map(|(name, ..)| name);
    let right: Vec<f64> = right.take_while(|name| *name != wrong).map(width).collect();
    let (right, wrong) = (right.iter().sum::<f64>() / right.len() as f64, width(wrong));
    Some(Check::new(
        "drift: one wrong answer in fifty makes the interval less than 20 % wider",
        format!("{right:.2} ppm, and {wrong:.2} ppm: {:+.0} %", (wrong / right - 1.0) * 100.0),
        wrong < right * DEARER && right < runs.useful_ppm,
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
    fn a_hundred_runs_of_few_at_a_time_where_much_is_compared() {
        let of = |runs: &Runs, references| (runs.at_once(references), runs.all(references));
        assert_eq!([1, 2].map(|references| of(&BY_COUNTER, references)), [(8, 104); 2]);
        assert_eq!([3, 4].map(|references| of(&BY_REQUESTS, references)), [(2, 100); 2]);
        assert_eq!((RTC.at_once(4), RTC.all(4)), (4, 100));
    }

    #[test]
    fn five_of_a_hundred_may_miss_and_a_run_without_an_interval_has() {
        let rate = Rate { ppm: 0.0, known_ppm: 0.03 };
        let passed = |low: f64, misses: usize, missing: usize| {
            let mut intervals = vec![(low, -49.0); 100 - misses - missing];
            intervals.extend(vec![(-49.0, -48.0); misses]);
            let reference = ("ntp a".to_owned(), "a fast server", 50.0);
            held(&reports("ntp a", &intervals), &BY_REQUESTS, rate, 100, &reference).passed
        };
        assert!(passed(-52.0, 5, 0) && passed(-52.0, 3, 2));
        assert!(!passed(-52.0, 6, 0) && !passed(-52.0, 5, 1));
        assert!(!passed(-150.0, 0, 0), "holds a right server's as well");
    }

    #[test]
    fn intervals_of_a_counter_are_held_to_what_its_scales_are() {
        let of = |low: f64, high: f64| {
            let reference = ("phc a".to_owned(), "the host's PTP clock", 0.0);
            let rate = Rate { ppm: 0.0768, known_ppm: 0.001 };
            let reports = reports("phc a", &[(low, high); 100]);
            held(&reports, &BY_COUNTER, rate, 100, &reference).passed
        };
        assert!(of(0.0767, 0.0768) && of(0.0760, 0.0761));
        assert!(!of(-0.0001, 0.0001) && !of(0.0781, 0.0785), "another host's");
        assert!(!of(-0.2, 0.4), "holds another host's as well");
    }

    #[test]
    fn wrong_answers_cost_less_than_a_fifth() {
        let references =
            [("ntp a".to_owned(), "a right server", 0.0), ("ntp b".to_owned(), WRONG, 0.0)];
        let passed = |width: f64| {
            let all = [reports("ntp a", &[(0.0, 10.0)]), reports("ntp b", &[(0.0, width)])];
            cost(&all.concat(), &BY_REQUESTS, &references).unwrap().passed
        };
        assert!(passed(11.9) && !passed(12.1) && !passed(f64::NAN));
        assert!(cost(&[], &BY_REQUESTS, &references[..1]).is_none(), "no such server");
    }

    #[test]
    fn a_step_in_one_run_of_many_is_one_too_many() {
        let calm = reports("ntp a", &[(-1.0, 1.0); 3]);
        assert!(no_step(&calm, "rtc").passed && !no_step(&[], "rtc").passed);
        let mut one = calm;
        one[1]["pairs"][0]["drift"]["steps"] = serde_json::json!([{ "ns": -2e7 }]);
        let check = no_step(&one, "rtc");
        assert!(!check.passed && check.found.starts_with("1 in 3 runs; "), "{check:?}");
    }
}
