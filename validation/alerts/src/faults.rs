//! Twelve kinds of fault, and which alert is to find each, in what time.

use simulator::ScenarioCorrector;
use simulator::fault::{Absence, FaultKind, Missed, Planned};
use simulator::quantity::{Factor, Offset};
use simulator::random::RandomStream;

use crate::installation::Installation;

const S: i64 = 1_000_000_000;

/// A kind of fault.
#[derive(Debug)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// The guests count their TSC; else the host's page.
    pub on_tsc: bool,
    plan: fn(&mut RandomStream, i64) -> (Vec<Planned>, i64),
    /// What is to find it, where `parachrond` runs.
    by_daemon: Expected,
    /// And where it does not.
    elsewhere: Expected,
}

/// What is to find a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Any of these.
    pub by: &'static [&'static str],
    /// In this time, s.
    pub within_s: i64,
    /// Since when.
    pub since: Since,
}

/// When the time begins in which a fault is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// When the fault begins.
    Begin,
    /// When the machine goes on.
    End,
    /// When the machine goes on, if its clock is then wrong by more than 0.1 s for as
    /// long as the time that is allowed: else there was nothing to find.
    Wrong,
}

impl Fault {
    /// When it ends, and what happens: `begin_ns` is when it begins.
    pub(crate) fn plan(&self, stream: &mut RandomStream, begin_ns: i64) -> (Vec<Planned>, i64) {
        (self.plan)(stream, begin_ns)
    }

    /// What is to find it on machines that have this.
    pub fn expected(&self, on: &Installation) -> Expected {
        let expected = if on.has_daemon() { self.by_daemon } else { self.elsewhere };
        match expected {
            GONE if on.serves_itself => expect(&["ParachronNotScraped"], 22, Since::Begin),
            // The kernel's error alone says little within a poll.
            UNKEPT if on.on == ScenarioCorrector::Pll => Expected { within_s: 40 * 60, ..UNKEPT },
            _ => expected,
        }
    }
}

const fn expect(by: &'static [&'static str], minutes: i64, since: Since) -> Expected {
    Expected { by, within_s: minutes * 60, since }
}

const DISRUPTED: Expected = expect(&["ParachronDisrupted"], 3, Since::End);
const OFF: Expected = expect(
    &[
        "ParachronClockOff",
        "ParachronClockMarginGone",
        "ParachronKernelMarginGone",
        "ParachronClockUnsynchronised",
    ],
    10,
    Since::Wrong,
);
const GONE: Expected = expect(&["ParachronDaemonGone"], 8, Since::Begin);
const UNKEPT: Expected = expect(
    &["ParachronClockMarginGone", "ParachronKernelMarginGone", "ParachronClockUnsynchronised"],
    20,
    Since::Begin,
);
const UNSYNCHRONISED: Expected = expect(&["ParachronClockUnsynchronised"], 15, Since::Begin);
const UNHEARD: Expected = expect(
    &[
        "ParachronClockUnsynchronised",
        "ParachronClockHoldover",
        "ParachronClockMarginGone",
        "ParachronKernelMarginGone",
        "ParachronClockUnmeasured",
    ],
    75,
    Since::Begin,
);

/// One event of so long.
fn event(kind: FaultKind, at_ns: i64, length_ns: i64) -> Planned {
    Planned {
        at_ns,
        length_ns,
        kind,
        away: Absence::Freeze,
        missed: Missed::Discard,
        off_s: Offset(0.0),
        factor: Factor(1.0),
        server: 0,
    }
}

/// Evenly in the logarithm.
fn between(stream: &mut RandomStream, low: f64, high: f64) -> f64 {
    stream.between(low.ln(), high.ln()).exp()
}

fn signed(stream: &mut RandomStream, low: f64, high: f64) -> f64 {
    let sign = if stream.unit() < 0.5 { -1.0 } else { 1.0 };
    sign * between(stream, low, high)
}

/// One event, of a length between two, s.
fn one(
    stream: &mut RandomStream,
    kind: FaultKind,
    at_ns: i64,
    low: f64,
    high: f64,
) -> (Vec<Planned>, i64) {
    let length_ns = (between(stream, low, high) * 1e9) as i64;
    (vec![event(kind, at_ns, length_ns)], at_ns + length_ns)
}

/// All of them.
pub const FAULTS: [Fault; 12] = [
    Fault {
        name: "pause, 10 s to 1 h",
        on_tsc: false,
        plan: |stream, at| one(stream, FaultKind::Pause, at, 10.0, 3600.0),
        by_daemon: DISRUPTED,
        elsewhere: OFF,
    },
    Fault {
        name: "restore of a snapshot, after 1 min to 12 h",
        on_tsc: false,
        plan: |stream, at| one(stream, FaultKind::Restore, at, 60.0, 43_200.0),
        by_daemon: DISRUPTED,
        elsewhere: OFF,
    },
    Fault {
        name: "migration, 1 s to 30 s",
        on_tsc: false,
        plan: |stream, at| one(stream, FaultKind::Migrate, at, 1.0, 30.0),
        by_daemon: DISRUPTED,
        elsewhere: OFF,
    },
    Fault {
        name: "sleep of the host, 10 min to 8 h",
        on_tsc: true,
        plan: |stream, at| one(stream, FaultKind::HostSleep, at, 600.0, 28_800.0),
        by_daemon: DISRUPTED,
        elsewhere: OFF,
    },
    Fault {
        name: "clock set wrong by 0.2 s to 30 s each 10 min, 2 h long",
        on_tsc: false,
        plan: |stream, at| {
            let set = |n: i64| {
                let off_s = Offset(signed(stream, 0.2, 30.0));
                Planned { off_s, ..event(FaultKind::ClockSet, at + n * 600 * S, 0) }
            };
            ((0..12).map(set).collect(), at + 7200 * S)
        },
        by_daemon: expect(&["ParachronClockOff", "ParachronStepsRepeated"], 60, Since::Begin),
        elsewhere: OFF,
    },
    Fault {
        name: "a fifth of the CPU stolen, 45 min long",
        on_tsc: false,
        plan: |_, at| {
            let burst = |n: i64| event(FaultKind::Steal, at + n * 3 * S, 6 * S / 10);
            ((0..900).map(burst).collect(), at + 2700 * S)
        },
        by_daemon: expect(&["ParachronSteal"], 25, Since::Begin),
        elsewhere: expect(&["ParachronSteal"], 25, Since::Begin),
    },
    Fault {
        name: "boot by an RTC off by 10 s to a year, no network for 2 h",
        on_tsc: false,
        plan: |stream, at| {
            let off_s = Offset(signed(stream, 10.0, 3.2e7));
            let boot = Planned { off_s, ..event(FaultKind::WrongRtc, at + S, 0) };
            (vec![event(FaultKind::NetworkDown, at, 7200 * S), boot], at + 7200 * S)
        },
        by_daemon: UNSYNCHRONISED,
        elsewhere: UNSYNCHRONISED,
    },
    Fault {
        name: "host's TSC frequency wrong by 0.1 % to 2 %",
        on_tsc: false,
        plan: |stream, at| {
            let factor = Factor(1.0 + signed(stream, 1e-3, 2e-2));
            (vec![Planned { factor, ..event(FaultKind::WrongFrequency, at, 0) }], i64::MAX)
        },
        by_daemon: expect(
            &["ParachronDisrupted", "ParachronStepsRepeated", "ParachronClockOff"],
            60,
            Since::Begin,
        ),
        elsewhere: OFF,
    },
    Fault {
        name: "TSC reset, and the kernel takes the HPET: 2 µs a read, as assumed",
        on_tsc: true,
        plan: |_, at| (vec![event(FaultKind::CounterReset, at, 0)], i64::MAX),
        by_daemon: expect(&["ParachronSlowClock"], 20, Since::Begin),
        elsewhere: expect(&["ParachronSlowClock"], 20, Since::Begin),
    },
    Fault {
        name: "one server of four lies by 0.2 s to 1000 s, 2 h long",
        on_tsc: false,
        plan: |stream, at| {
            let server = (stream.bits() % 4) as u32;
            let off_s = Offset(signed(stream, 0.2, 1000.0));
            let lie = Planned { server, off_s, ..event(FaultKind::ServerLies, at, 7200 * S) };
            (vec![lie], at + 7200 * S)
        },
        by_daemon: expect(&["ParachronFalseticker"], 15, Since::Begin),
        // Their daemon leaves it out, and nothing is wrong.
        elsewhere: OFF,
    },
    Fault {
        name: "no network, 2 h to 24 h",
        on_tsc: false,
        plan: |stream, at| one(stream, FaultKind::NetworkDown, at, 7200.0, 86_400.0),
        by_daemon: UNHEARD,
        elsewhere: UNHEARD,
    },
    Fault {
        name: "time daemon not running, 30 min to 6 h",
        on_tsc: false,
        plan: |stream, at| one(stream, FaultKind::KeeperGone, at, 1800.0, 21_600.0),
        by_daemon: GONE,
        elsewhere: UNKEPT,
    },
];

/// What happens to any machine, and is no fault: bursts in which the host runs others,
/// and a daemon that is restarted.
pub(crate) fn everyday(stream: &mut RandomStream, span_ns: i64) -> Vec<Planned> {
    let mut events = Vec::new();
    for (kind, a_day, low, high) in
        [(FaultKind::Steal, 20.0, 0.02, 0.5), (FaultKind::KeeperGone, 0.1, 2.0, 20.0)]
    {
        let mut at_ns = 0;
        loop {
            at_ns += (stream.exponential() * 86_400e9 / a_day) as i64;
            if at_ns >= span_ns {
                break;
            }
            let length_ns = (between(stream, low, high) * 1e9) as i64;
            events.push(event(kind, at_ns, length_ns));
        }
    }
    events
}
