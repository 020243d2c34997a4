//! A guest that runs is saved to a file; the file is restored in other processes, twice
//! by one policy, and by the others, and it is sent through a socket, as of a host of
//! another rate too. What each clock did is held against the host's own.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use host::{ClockProvider, RestorePolicy};
use serde::Serialize;
use vmm::Machine;

use super::arrived::{Arrival, ArrivalHost};
use super::expected::PAGE_PPM;
use super::host_line::{HostLine, PlacedReading, signed};
use super::ticking::{self, TIMERS};
use super::{ARRIVED, LOOK};
use crate::bench::Provider;
use crate::results::Check;

/// How long the guest's clocks are watched before they are saved.
const WATCHED: Duration = Duration::from_secs(3);
/// The clocks of a guest and its host, read by programs, ns.
const CLOCK_NS: f64 = 1_000.0;
/// A timer fires as soon as the guest runs; its host may be an emulated one.
const LATE_S: f64 = 2.0;
/// Beyond what KVM takes for the same rate.
const OTHER_PPM: i32 = 1_000;

/// How it comes to the other process, by which policy, from a host told to be faster
/// by so many ppm.
type Way = (&'static str, RestorePolicy, i32);
const WAYS: [Way; 8] = [
    ("file", RestorePolicy::Advance, 0),
    ("file, again", RestorePolicy::Advance, 0),
    ("file", RestorePolicy::Freeze, 0),
    ("file", RestorePolicy::Sleep, 0),
    ("file", RestorePolicy::Hold, 0),
    ("socket", RestorePolicy::Advance, 0),
    ("socket", RestorePolicy::Advance, 100),
    ("socket", RestorePolicy::Advance, OTHER_PPM),
];

/// A stock kernel saved, and restored in another process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct MovedRow {
    /// How it came there.
    way: String,
    policy: String,
    /// By how much more than this host's rate the saving host's was stated to be.
    told_ppm: i32,
    /// Real time between save and restore.
    away_s: f64,
    clocks: Vec<MovedClock>,
    /// The first firing of a timer of each clock since.
    timers: Vec<MovedTimer>,
    /// Why it was not restored.
    refused: Option<String>,
}

/// One clock of it: by how much it went on while it was away, and had to.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct MovedClock {
    clock: String,
    passed_s: f64,
    expected_s: f64,
    bound_s: f64,
}

impl MovedClock {
    fn error_ns(&self) -> f64 {
        (self.passed_s - self.expected_s) * 1e9
    }
}

/// One timer of it: how late it fired, and how far its clock had gone past it at the restore.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct MovedTimer {
    clock: String,
    late_s: f64,
    owed_s: f64,
}

/// A file that is gone afterwards.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The guest as it was.
struct BeforeMove {
    stamps: Vec<PlacedReading>,
    file: Temporary,
}

/// Saves the guest of `machine`, and restores it by all ways.
pub(super) fn run(
    provider: Provider,
    machine: Machine,
    away: Duration,
) -> (Vec<MovedRow>, Vec<Check>) {
    let label = provider.label();
    let before = match save(&machine) {
        Ok(before) => before,
        Err(found) => {
            let check = Check::new(format!("{label}: saved"), "to a file", found, false);
            return (Vec::new(), vec![check]);
        }
    };
    drop(machine);
    thread::sleep(away);
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (way, policy, told_ppm) in ways(provider) {
        let mut moved = MovedRow {
            way: way.to_owned(),
            policy: policy.name().to_owned(),
            told_ppm,
            ..MovedRow::default()
        };
        let arrival = arrive(&before.file.0, &moved);
        let told = if told_ppm == 0 { String::new() } else { format!(", stated {told_ppm:+} ppm") };
        let title = format!("{label}: {way}{told}, {}", policy.name());
        checks.extend(match arrival {
            Ok(arrival) => judge(&title, &before.stamps, &arrival, policy, &mut moved),
            Err(why) => vec![check_refusal(&title, provider, why, &mut moved)],
        });
        rows.push(moved);
    }
    (rows, checks)
}

/// The ways for a guest of `provider`: Hyper-V's guests are interrupted where the rate is another.
fn ways(provider: Provider) -> Vec<Way> {
    let is_hyperv = provider == Provider::Own(ClockProvider::HyperV);
    let can_be = |(_, _, told_ppm): &&Way| !(is_hyperv && *told_ppm == OTHER_PPM);
    WAYS.iter().filter(can_be).copied().collect()
}

fn save(machine: &Machine) -> Result<BeforeMove, String> {
    let words = |error: &dyn ToString| error.to_string();
    let (mut line, mut serial, started) = (HostLine::default(), String::new(), Instant::now());
    while started.elapsed() < WATCHED {
        line.read();
        thread::sleep(LOOK);
        serial.push_str(&String::from_utf8_lossy(&machine.serial()));
    }
    let tsc_offset = machine.tsc_offset(0).map_err(|error| words(&error))?;
    // What the guest sends last is not read by all that restore it.
    machine.pause().map_err(|error| words(&error))?;
    serial.push_str(&String::from_utf8_lossy(&machine.serial()));
    line.read();
    let saved = machine.save().map_err(|error| words(&error))?;
    let last =
        ticking::find(&serial).pop().ok_or("the guest reported no clocks before the save")?;
    let stamps = last.stamps.iter().map(|stamp| line.place(stamp, tsc_offset));
    let stamps = stamps
        .collect::<Option<_>>()
        .ok_or("the guest's clocks were read outside the host's readings")?;
    let name = format!("parachron-linux-{}.saved", std::process::id());
    let path = std::env::temp_dir().join(name);
    // Another's file or link of that name is neither written to nor removed.
    let to = File::create_new(&path).map_err(|error| words(&error))?;
    let file = Temporary(path);
    saved.write_to(to).map_err(|error| words(&error))?;
    Ok(BeforeMove { stamps, file })
}

/// In a process of its own.
fn arrive(file: &PathBuf, moved: &MovedRow) -> Result<Arrival, String> {
    let input = File::open(file).map_err(|error| error.to_string())?;
    let (input, sender) = if moved.way == "socket" {
        let (mut here, there) = UnixStream::pair().map_err(|error| error.to_string())?;
        let mut input = input;
        // One that refuses reads no further.
        let sender = thread::spawn(move || drop(io::copy(&mut input, &mut here)));
        (Stdio::from(OwnedFd::from(there)), Some(sender))
    } else {
        (Stdio::from(input), None)
    };
    let mut command = Command::new("/proc/self/exe");
    command.args([ARRIVED, &moved.policy, &moved.told_ppm.to_string()]).stdin(input);
    let output = command.output().map_err(|error| error.to_string());
    // Its end of the socket is closed with it.
    drop(command);
    if let Some(sender) = sender {
        let _ = sender.join();
    }
    let output = output?;
    serde_json::from_slice::<Result<_, _>>(&output.stdout)
        .unwrap_or_else(|_| Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Only a host that does not scale may refuse another rate, where the clock is KVM's.
fn check_refusal(title: &str, provider: Provider, why: String, moved: &mut MovedRow) -> Check {
    let is_right = moved.told_ppm == OTHER_PPM
        && provider == Provider::Kernel
        && why.contains("KVM does not scale here");
    moved.refused = Some(why.clone());
    Check::new(
        format!("{title}: restored"),
        "continues, or is refused where KVM does not scale the TSC",
        why,
        is_right,
    )
}

/// Each clock did what the policy says:
///
/// ```text
/// passed   = after − before − (taken − read before) − (read after − since)
/// expected = real time of since − of taken          advance, from 5 s away: 5 s
///            the host's clock that nothing steers   hold
///            since − when the restore began         freeze, sleep: some ms
/// ```
fn judge(
    title: &str,
    before: &[PlacedReading],
    arrival: &Arrival,
    policy: RestorePolicy,
    moved: &mut MovedRow,
) -> Vec<Check> {
    let Arrival { taken, began, since, .. } = *arrival;
    let span = |from: fn(&ArrivalHost) -> u64, a: ArrivalHost| signed(from(&since), from(&a));
    let expected_ns = match policy {
        RestorePolicy::Advance => span(|at| at.real_ns, taken),
        RestorePolicy::Hold => span(|at| at.boot_ns, taken),
        _ => span(|at| at.boot_ns, began),
    };
    moved.away_s = span(|at| at.real_ns, taken) / 1e9;
    moved.clocks = clocks(before, arrival, expected_ns);
    for fired in &arrival.fired {
        let Some(before) = before.iter().find(|one| one.clock == fired.clock) else { continue };
        let resumed = signed(taken.boot_ns, before.boot_ns) + expected_ns;
        let owed_ns = (resumed - signed(fired.due_ns, before.ns)).max(0.0);
        moved.timers.push(MovedTimer {
            clock: fired.clock.clone(),
            late_s: signed(fired.at_ns, fired.due_ns) / 1e9,
            owed_s: owed_ns / 1e9,
        });
    }
    let join = |found: Vec<String>| match found[..] {
        [] => "nothing".to_owned(),
        _ => found.join("; "),
    };
    let errors = moved.clocks.iter().map(|one| {
        format!("{} {:+.0} ns, ± {:.0} ns", one.clock, one.error_ns(), one.bound_s * 1e9)
    });
    let late = moved
        .timers
        .iter()
        .map(|one| format!("{} {:.3} s late, {:.3} s expected", one.clock, one.late_s, one.owed_s));
    let is_timely = |one: &MovedTimer| {
        let early_s = CLOCK_NS / 1e9 + arrival.bound_ns as f64 / 1e9;
        one.late_s >= 0.0 && (-early_s..LATE_S).contains(&(one.late_s - one.owed_s))
    };
    let checks = [
        Check::new(
            "clocks",
            format!("{:.6} s pass", expected_ns / 1e9),
            join(errors.collect()),
            moved.clocks.len() == 4
                && moved.clocks.iter().all(|one| one.error_ns().abs() <= one.bound_s * 1e9),
        ),
        Check::new(
            "timers",
            format!("each fires within {LATE_S} s of the restore, and none early"),
            join(late.collect()),
            moved.timers.len() == TIMERS.len() && moved.timers.iter().all(is_timely),
        ),
        Check::new(
            "kernel's log after the restore",
            "no complaint about clocks or lockups",
            join(arrival.complaints.clone()),
            arrival.complaints.is_empty(),
        ),
    ];
    checks.map(|check| check.prefix(title)).into()
}

/// What each clock did while it was away, without what it ran before and after.
fn clocks(before: &[PlacedReading], arrival: &Arrival, expected_ns: f64) -> Vec<MovedClock> {
    let Arrival { taken, since, .. } = arrival;
    let pairs = before.iter().zip(&arrival.stamps);
    let clock = |(before, after): (&PlacedReading, &PlacedReading)| {
        let ran_ns = signed(taken.boot_ns, before.boot_ns) + signed(after.boot_ns, since.boot_ns);
        let read_ns = before.bound_ns + after.bound_ns + CLOCK_NS;
        let bound_ns = arrival.bound_ns as f64 + read_ns + PAGE_PPM * ran_ns / 1e6;
        MovedClock {
            clock: before.clock.clone(),
            passed_s: (signed(after.ns, before.ns) - ran_ns) / 1e9,
            expected_s: expected_ns / 1e9,
            bound_s: bound_ns / 1e9,
        }
    };
    pairs.map(clock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_for_what_cannot_be() {
        let rates = |provider| -> Vec<i32> {
            ways(provider).into_iter().map(|(.., told_ppm)| told_ppm).collect()
        };
        assert_eq!(rates(Provider::Kernel)[6..], [100, OTHER_PPM]);
        assert_eq!(rates(Provider::Own(ClockProvider::HyperV))[6..], [100]);
    }
}
