//! `parachron drift` against NTP servers of known error, and the host's PTP clock.
//!
//! A machine that would count by its TSC, at the rate that its kernel found, is put on a timer,
//! whose rate is known ([`true_rate`]).

use serde_json::Value;

use crate::checks::{Check, Checks, list};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;
use super::true_rate::{self, Rate};

/// A wider interval holds nearly anything, and shows nothing, ppm: of a clock of the
/// machine's, and of an RTC, which is read at the edges of its seconds. This system
/// is too busy then.
const USEFUL_PPM: f64 = 100.0;
const RTC_USEFUL_PPM: f64 = 20_000.0;

/// An interval that leaves the truth out is measured again, as five of a hundred may: a run of
/// all rows has some hundred, so that one miss proves nothing, and two in a row, one in 400,
/// would fail a right run of all rows each fifth time. Three in a row are one in 8000.
const TRIES: usize = 3;

/// How long a run lasts, s.
const LASTING_S: u32 = 20;

/// How fast the second server is, ppm.
const FAST_PPM: f64 = 50.0;

/// The servers, each by its words: right, fast, and wrong by 20 ms in one answer
/// of fifty.
const SERVERS: [&[&str]; 3] = [&[], &["50"], &["0", "50", "0.02"]];

/// The clocks that run at the rate of the clock source, and the RTC.
const CLOCKS: [&str; 4] = ["raw", "monotonic", "realtime", "rtc"];

/// Clock sources that count this system's clock exactly.
const TIMERS: [&str; 2] = ["hpet", "acpi_pm"];

/// A reference: its option, what it is, how fast it is, ppm.
pub(super) type Reference = (String, &'static str, f64);

/// The server of which one answer in fifty is wrong.
const WRONG: &str = "one wrong in fifty answers";

/// The servers of a row with a network, which last as long as these, and the PTP
/// clock of its host, where there is one.
fn references(
    place: &Place<'_>,
    machine: &mut Machine,
) -> Result<(Vec<Server>, Vec<Reference>), String> {
    let program = place.workshop.programs.join("ntp-server");
    let wanted = if place.row.network { &SERVERS[..] } else { &[] };
    let servers = wanted.iter().map(|words| Server::with(&program, words));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let names = [("a right server", 0.0), ("one 50 ppm fast", FAST_PPM), (WRONG, 0.0)];
    let named = servers.iter().zip(names);
    let named =
        named.map(|(server, (what, ppm))| (format!("ntp 10.0.2.2:{}", server.port), what, ppm));
    let mut references: Vec<Reference> = named.collect();
    if machine.execute("ls /dev")?.lines().any(|name| name == "ptp0") {
        references.push(("phc /dev/ptp0".to_owned(), "the host's PTP clock", 0.0));
    }
    if references.is_empty() {
        return Err("neither a network nor a PTP clock to compare with".to_owned());
    }
    Ok((servers, references))
}

/// A reference's option of `drift`. A page's takes its device behind a sign alone.
fn option((name, ..): &Reference) -> String {
    format!(" --{}", name.replacen("vmclock ", "vmclock=", 1))
}

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let (_servers, references) = references(place, machine)?;
    against(place, machine, &references, checks)
}

/// Clocks that run at a known rate against references of known rate.
pub(super) fn against(
    place: &Place<'_>,
    machine: &mut Machine,
    references: &[Reference],
    checks: &mut Checks,
) -> Result {
    let source = machine.execute("cat $CLOCKSOURCE")?;
    put_on_a_timer(place, machine)?;
    let rate = true_rate::of(machine)?;
    let of_all = |reference| CLOCKS.iter().map(move |clock| Expected::new(clock, reference, rate));
    let expected: Vec<Expected<'_>> = references.iter().flat_map(of_all).collect();
    let mut reports = Vec::new();
    while reports.is_empty() || expected.iter().any(|one| one.is_measured_again(&reports)) {
        reports.push(measured(machine, references, checks)?);
    }
    checks.extend(expected.iter().map(|one| one.judge(&reports)));
    // What a row does next is for the clock source that it states.
    machine.execute(&format!("echo {source} >$CLOCKSOURCE")).map(drop)
}

/// One run: it ends well, and says of no clock that it was moved, as none was.
fn measured(
    machine: &mut Machine,
    references: &[Reference],
    checks: &mut Checks,
) -> Result<Report, String> {
    let options: String = references.iter().map(option).collect();
    let clocks = CLOCKS.join(",");
    let line =
        format!("parachron drift --duration {LASTING_S}s --format json --clock {clocks}{options}");
    let record = machine.line.run("drift", 90, &line)?;
    let last = record.stderr.lines().next_back().unwrap_or_default();
    let found = format!("{} {last}", record.status);
    let of = format!("drift: {LASTING_S} s");
    checks.push(Check::new(format!("{of}: exit code 0"), found.trim(), record.status == 0));
    let report: Report =
        serde_json::from_str(&record.stdout).map_err(|error| format!("drift: {error}"));
    checks.push(Check::of(
        &format!("{of}: no clock steps"),
        report.as_ref().map_err(Clone::clone),
        |report| {
            let pairs = list(&report["pairs"]);
            let stepped = |pair: &&Value| !list(&pair["drift"]["steps"]).is_empty();
            let stepped: Vec<&Value> = pairs.iter().filter(stepped).collect();
            let found = format!("{} comparisons; with steps: {stepped:?}", pairs.len());
            (found, !pairs.is_empty() && stepped.is_empty())
        },
    ));
    Ok(report)
}

/// Has the kernel count by a clock source whose rate is known; an error where there
/// is none.
fn put_on_a_timer(place: &Place<'_>, machine: &mut Machine) -> Result {
    let truth = place.row.truth()?;
    if truth.clocksource == "kvm-clock" || TIMERS.contains(&truth.clocksource.as_str()) {
        return Ok(());
    }
    let timer = TIMERS.into_iter().find(|timer| truth.available.iter().any(|one| one == timer));
    let timer = timer.ok_or("no clock source of known rate")?;
    machine.execute(&format!("echo {timer} >$CLOCKSOURCE")).map(drop)
}

/// What a run printed, or why that is no report.
type Report = Result<Value, String>;

/// What is true of a clock against a reference.
#[derive(Debug)]
struct Expected<'a> {
    clock: &'a str,
    reference: &'a Reference,
    ppm: f64,
    known_ppm: f64,
}

impl<'a> Expected<'a> {
    /// The RTC counts the time of what runs the machine.
    fn new(clock: &'a str, reference: &'a Reference, rate: Rate) -> Self {
        let rate = if clock == "rtc" { rate.exact() } else { rate };
        Self { clock, reference, ppm: rate.on(reference.2), known_ppm: rate.known_ppm }
    }

    fn interval(&self, report: &Report) -> Result<(f64, f64, f64), String> {
        rate(report.as_ref().map_err(Clone::clone)?, self.clock, &self.reference.0)
    }

    fn holds(&self, low: f64, high: f64) -> bool {
        low <= self.ppm + self.known_ppm && self.ppm - self.known_ppm <= high
    }

    /// All that was measured leaves the truth out, and another run may show whether by chance.
    fn is_measured_again(&self, reports: &[Report]) -> bool {
        let leaves_it_out =
            |report| self.interval(report).is_ok_and(|(_, low, high)| !self.holds(low, high));
        reports.len() < TRIES && reports.iter().all(leaves_it_out)
    }

    /// The first interval that holds the truth, and those before it: none so wide that it
    /// would hold nearly anything, and none without a width.
    fn judge(&self, reports: &[Report]) -> Check {
        let Self { clock, reference: (_, server, _), ppm, known_ppm } = self;
        let mut found = Vec::new();
        let mut passed = false;
        for report in reports {
            let (is_useful, holds) = match self.interval(report) {
                Ok((ppm, low, high)) => {
                    found.push(format!("{ppm:.4} ppm, {low:.4} to {high:.4}"));
                    (low < high && high - low < useful_ppm(clock), self.holds(low, high))
                }
                Err(why) => {
                    found.push(why);
                    (false, false)
                }
            };
            passed = is_useful && holds;
            if holds || !is_useful {
                break;
            }
        }
        let what = format!(
            "drift: {clock} against {server}: {ppm:.4} ± {known_ppm} ppm is in the 95 % interval, \
             of {TRIES} in a row"
        );
        Check::new(what, found.join("; measured again: "), passed)
    }
}

/// Below what width an interval of a clock shows something.
fn useful_ppm(clock: &str) -> f64 {
    if clock == "rtc" { RTC_USEFUL_PPM } else { USEFUL_PPM }
}

/// A clock's frequency error, and its 95 % interval, ppm.
fn rate(report: &Value, clock: &str, reference: &str) -> Result<(f64, f64, f64), String> {
    let mut pairs = list(&report["pairs"]).iter();
    // A host's PTP clock has its own kind in the report: `kvm /dev/ptp0`.
    let at = |name: &str| name.split_once(' ').map(|(_, at)| at.to_owned());
    let is_it = |pair: &&Value| pair["reference"].as_str().and_then(at) == at(reference);
    let pair = pairs.find(|pair| pair["clock"] == clock && is_it(pair));
    let pair = pair.ok_or_else(|| format!("no {clock} against {reference}"))?;
    let number = |path: &str| pair.pointer(path).and_then(Value::as_f64);
    let frequency = "/drift/frequency";
    let all = [
        format!("{frequency}/ppm"),
        format!("{frequency}/interval_ppm/0"),
        format!("{frequency}/interval_ppm/1"),
    ];
    let [ppm, low, high] = all.map(|path| number(&path));
    ppm.zip(low.zip(high))
        .map(|(ppm, (low, high))| (ppm, low, high))
        .ok_or_else(|| format!("no rate of {clock}: {}", pair["drift"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(clock: &str, low: f64, high: f64) -> Report {
        Ok(serde_json::json!({ "pairs": [{ "clock": clock, "reference": "ntp a",
            "drift": { "frequency": { "ppm": 1.0, "interval_ppm": [low, high] } } }] }))
    }

    fn reference(name: &str, fast_ppm: f64) -> Reference {
        (name.to_owned(), "a server", fast_ppm)
    }

    const EXACT: Rate = Rate { ppm: 0.0, known_ppm: 0.03 };

    #[test]
    fn an_interval_holds_the_truth_or_not() {
        let passed_by = |name: &str, ppm: f64, low, high| {
            let (reference, rate) = (reference(name, 0.0), Rate { ppm, ..EXACT });
            Expected::new("raw", &reference, rate).judge(&[report("raw", low, high)]).passed
        };
        let passed = |ppm| passed_by("ntp a", ppm, -2.0, 4.0);
        assert!(passed(0.0) && passed(4.02) && passed(-2.02), "known to 0.03 ppm");
        assert!(!passed(4.04) && !passed(-2.04) && !passed(-50.0));
        assert!(!passed_by("ntp b", 0.0, -2.0, 4.0), "no such reference");
        assert!(!passed_by("ntp a", 0.0, 0.0, 0.0), "of no width");
        let wide = |clock, high: f64| {
            let reference = reference("ntp a", 0.0);
            Expected::new(clock, &reference, EXACT).judge(&[report(clock, -2.0, high)]).passed
        };
        assert!(wide("raw", 97.0) && !wide("raw", 98.1), "shows nothing");
        assert!(wide("rtc", 19_900.0) && !wide("rtc", 20_000.0));
        let fast = reference("ntp a", 50.0);
        let rtc = Expected::new("rtc", &fast, Rate { ppm: 9.0, ..EXACT });
        assert!((rtc.ppm + 49.9975).abs() < 1e-6, "not by the clock source: {rtc:?}");
        let phc = report("raw", -2.0, 4.0).unwrap().to_string().replace("ntp a", "kvm /dev/ptp0");
        let phc = serde_json::from_str(&phc).unwrap();
        assert_eq!(rate(&phc, "raw", "phc /dev/ptp0"), Ok((1.0, -2.0, 4.0)));
    }

    #[test]
    fn a_miss_is_measured_again_and_three_in_a_row_fail() {
        let reference = reference("ntp a", 0.0);
        let expected = Expected::new("raw", &reference, EXACT);
        let (right, missed, wide) =
            (report("raw", -1.0, 1.0), report("raw", 1.0, 2.0), report("raw", 1.0, 200.0));
        let of = |reports: &[&Report]| {
            let reports: Vec<Report> = reports.iter().copied().cloned().collect();
            (expected.is_measured_again(&reports), expected.judge(&reports).passed)
        };
        assert_eq!(of(&[&right]), (false, true));
        assert_eq!(of(&[&missed]), (true, false));
        assert_eq!(of(&[&missed, &missed]), (true, false));
        assert_eq!(of(&[&missed, &missed, &right]), (false, true));
        assert_eq!(of(&[&missed, &missed, &missed]), (false, false));
        // What shows nothing is no miss, and fails even where another run does better.
        assert_eq!(of(&[&wide, &right]), (false, false));
        assert_eq!(of(&[&missed, &wide, &right]), (false, false));
        assert_eq!(of(&[&Err("no report".to_owned())]), (false, false));
        // Another pair's miss does not undo what was found.
        assert_eq!(of(&[&right, &missed]), (false, true));
        let check = expected.judge(&[missed, right]);
        assert!(
            check
                .found
                .ends_with("1.0000 to 2.0000; measured again: 1.0000 ppm, -1.0000 to 1.0000")
        );
    }
}
