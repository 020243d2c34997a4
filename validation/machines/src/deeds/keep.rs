//! `parachron keep` by servers, which slews, obeys `--never-backward` and `--dry-run`, and leaves
//! nothing behind when it is killed; by the host's PTP clock in a machine that is paused. An RTC
//! alone never sets the clock.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use crate::checks::{Check, Checks, is_within};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;
use super::ticks::{Tick, seconds};

/// For how long the machine is stopped.
const PAUSE: Duration = Duration::from_secs(5);

/// How long keep may take to poll, confirm and step, and the reading of the
/// clock after it: the machine is slow.
const CORRECTED: Duration = Duration::from_secs(4);

/// How far off a clock that is right may be, beside what is known of it from
/// outside, s: twice the round trip through an emulated network card.
const RIGHT_S: f64 = 0.05;

const POLL: Duration = Duration::from_secs(8);

/// For how long an RTC that is wrong may try.
const ALONE: Duration = Duration::from_secs(15);

/// A clock that nobody steps gains less than this in that time, s: TCG's TSC by
/// the rate that the kernel found.
pub(crate) const STEPPED_S: f64 = 0.2;

/// For how long the clock is printed, ms, once keep has stated the offset.
const PRINTED_MS: u32 = 3000;

/// A slew moves the clock by 500 µs a second at most (adjtimex(2)), far less than this between two
/// lines that are printed, s.
const SLEW_S: f64 = 0.005;

/// What the clock showed while it was printed: the largest step and the largest step back from
/// one line to the next, and what it gained in all, on MONOTONIC_RAW, s.
struct Printed {
    step_s: f64,
    backward_s: f64,
    gained_s: f64,
    lines: usize,
}

impl Printed {
    fn parse(text: &str) -> Self {
        let ticks: Vec<Tick> = text.lines().filter_map(|line| Tick::parse(line, 0)).collect();
        let ahead_ns = |tick: &Tick| tick.clocks_ns[0] - tick.clocks_ns[3];
        let largest = |by: &dyn Fn(&[Tick]) -> i64| ticks.windows(2).map(by).max().unwrap_or(0);
        let ends = ticks.first().zip(ticks.last());
        Self {
            step_s: seconds(largest(&|pair| (ahead_ns(&pair[1]) - ahead_ns(&pair[0])).abs())),
            backward_s: seconds(
                largest(&|pair| pair[0].clocks_ns[0] - pair[1].clocks_ns[0]).max(0),
            ),
            gained_s: ends.map_or(0.0, |(from, to)| seconds(ahead_ns(to) - ahead_ns(from))),
            lines: ticks.len(),
        }
    }

    /// It was slewed one way, and not stepped.
    fn is_slewed(&self, sign: f64) -> bool {
        self.lines > 50 && self.step_s <= SLEW_S && self.gained_s * sign > 0.0
    }
}

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step_s, backward_s, gained_s, lines } = self;
        let (step_ms, gained_ms) = (step_s * 1e3, gained_s * 1e3);
        write!(f, "{lines} lines, a step of at most {step_ms:.3} ms, {backward_s} s back, ")?;
        write!(f, "gained {gained_ms:.3} ms")
    }
}

/// By servers that are right: slewed, set back, or only reported.
pub(super) fn by_servers(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    let ntp: String =
        servers.iter().map(|server| format!(" --ntp 10.0.2.2:{}", server.port)).collect();
    let run = |machine: &mut Machine, ahead_s: f64, option: &str, until: &str, signal: &str| {
        let (now_s, _) = machine.ahead_s()?;
        machine.execute(&format!("guest-clock step {:.6}", ahead_s - now_s))?;
        start(machine, &format!("{ntp}{option}"))?;
        let look = format!(
            "for i in $(seq 150); do grep -qE '\"({until})\"' /tmp/keep && break; usleep 100000; \
             done; timeout -s INT {} guest-clock print 20; killall -{signal} parachron; true",
            PRINTED_MS / 1000
        );
        let printed = Printed::parse(&machine.execute(&look)?);
        let events = machine.execute("grep -E 'corrected|synchronised|refused' /tmp/keep; true")?;
        Ok::<_, String>((printed, events))
    };

    let (printed, events) = run(machine, -0.05, "", "slew", "KILL")?;
    checks.push(Check::new(
        "keep: 50 ms behind: slewed, not stepped",
        format!("{printed}; {events}"),
        printed.is_slewed(1.0) && events.contains("slew"),
    ));
    let after = Printed::parse(&machine.execute("timeout -s INT 3 guest-clock print 20; true")?);
    let kernel = machine.execute("adjtimex | grep -E 'freq.adjust:|tick:'")?;
    let has = |name: &str, value: &str| {
        let line = kernel.lines().find(|line| line.contains(name)).unwrap_or_default();
        line.split_whitespace().any(|word| word == value)
    };
    checks.push(Check::new(
        "keep: killed during a slew: no step, and the kernel's frequency is unchanged",
        format!("{after}; {kernel}"),
        after.lines > 50 && after.step_s <= SLEW_S && has("freq", "0") && has("tick", "10000"),
    ));

    let (printed, events) = run(machine, 2.0, " --never-backward", "slew", "TERM")?;
    checks.push(Check::new(
        "keep --never-backward: 2 s ahead: slowed, never set back",
        format!("{printed}; {events}"),
        printed.is_slewed(-1.0) && printed.backward_s == 0.0 && events.contains("slew"),
    ));
    let (_, events) = run(machine, 2.0, "", "corrected", "TERM")?;
    let (ahead_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "keep: 2 s ahead at its start: set back",
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead; {events}"),
        is_within(RIGHT_S, (ahead_s, bound_s)),
    ));
    let states = "corrected|synchronised|refused";
    let (printed, events) = run(machine, -3.0, " --dry-run", states, "TERM")?;
    let (ahead_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "keep --dry-run: 3 s behind: reports it, changes nothing",
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead; {printed}; {events}"),
        is_within(RIGHT_S, (ahead_s + 3.0, bound_s))
            && printed.step_s <= SLEW_S
            && events.contains("\"dry_run\":true"),
    ));
    machine.execute(&format!("guest-clock step {:.6}", -ahead_s)).map(drop)
}

/// The servers are silent, and the RTC is hours off: a clock that is right, as
/// this system's time was set, stays.
pub(super) fn with_rtc_alone(machine: &mut Machine, checks: &mut Checks) -> Result {
    let (ahead_s, _) = machine.ahead_s()?;
    machine.execute(&format!("guest-clock step {:.6}", -ahead_s))?;
    let (moved_s, bound_s) = machine.moved_s(|machine| {
        // TEST-NET-1 (RFC 5737): nobody replies.
        start(machine, " --ntp 192.0.2.1")?;
        sleep(ALONE);
        Ok(())
    })?;
    checks.push(Check::new(
        "keep: a wrong RTC and a silent server: the clock is not stepped",
        format!("moved by {moved_s:.3} ± {bound_s:.3} s in {} s", ALONE.as_secs()),
        is_within(STEPPED_S, (moved_s, bound_s)),
    ));
    end(machine, checks)
}

/// No server: the PTP clock that shows the host's time is found without being
/// named, and the doctor offers it to chronyd.
pub(super) fn by_phc(machine: &mut Machine, checks: &mut Checks) -> Result {
    let offered =
        "parachron doctor --only clock-steered | grep -c 'refclock PHC /dev/ptp0' || true";
    let found = machine.execute(offered)?;
    let what = "doctor: clock-steered offers the host's PTP clock as a refclock";
    checks.push(Check::new(what, format!("in {found} lines"), found != "0"));
    start(machine, "")?;
    sleep(CORRECTED);
    checks.push(right("by the host's PTP clock, at the start", machine)?);
    machine.pause(PAUSE)?;
    sleep(CORRECTED);
    checks.push(right("by the host's PTP clock, stop for 5 s, cont", machine)?);
    let corrected = machine.execute("grep '\"corrected\"' /tmp/keep || true")?;
    checks.push(corrected_by(&corrected, "phc /dev/ptp0"));
    end(machine, checks)
}

/// All corrections, of which there is one at least, are by one source.
fn corrected_by(events: &str, source: &str) -> Check {
    let events = events.lines().map(serde_json::from_str::<serde_json::Value>);
    let of = |event: serde_json::Value| event["source"].as_str().unwrap_or("none").to_owned();
    let sources: BTreeSet<String> = events.flatten().map(of).collect();
    let what = format!("keep: it corrects by {source}");
    let all = sources.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Check::new(what, &all, all == source)
}

fn start(machine: &mut Machine, options: &str) -> Result {
    let line = format!(
        "parachron keep --format json --min-interval 1s --poll {}s{options} >/tmp/keep \
         2>/tmp/keep.err & until grep -q '\"started\"' /tmp/keep || [ -s /tmp/keep.err ]; \
         do usleep 50000; done",
        POLL.as_secs()
    );
    machine.execute(&line).map(drop)
}

/// Ends it, and shows what it wrote on standard error.
fn end(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "killall -TERM parachron; sleep 0.3; cat /tmp/keep.err; tail -n 1 /tmp/keep";
    let said = machine.execute(line)?;
    let ended = said.starts_with('{') && said.contains("\"summary\"");
    checks.push(Check::new("keep: ends with a summary, and without an error", said, ended));
    Ok(())
}

fn right(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let (ahead_s, bound_s) = machine.ahead_s()?;
    Ok(Check::new(
        format!("keep: {when}: the time of day is right within 4 s"),
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
        is_within(RIGHT_S, (ahead_s, bound_s)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_source_or_none_is_wrong() {
        let event = |source: &str| format!("{{\"event\":\"corrected\",\"source\":\"{source}\"}}\n");
        assert!(corrected_by(&event("phc a").repeat(2), "phc a").passed);
        assert!(!corrected_by("", "phc a").passed);
        assert!(!corrected_by(&(event("phc a") + &event("rtc")), "phc a").passed);
    }
}
