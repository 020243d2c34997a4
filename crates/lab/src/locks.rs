//! What a lock does when its vCPUs outnumber the host's CPUs, by the way in which
//! they wait for it.
//!
//! All ways take turns in one machine, round after round, so what else the host does
//! meets them alike; a bar is judged by the median of the rounds' own ratios. vCPUs
//! are bound to CPUs. There is no interrupt controller here: a halt is an exit to
//! this process, whose thread sleeps until another vCPU's exit wakes it, and a yield
//! an exit and sched_yield(2). On a KVM that halts and kicks in the kernel both are
//! cheaper than here, so the paravirtual lock does better there, not worse.

mod tally;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::contention::{BUCKETS, Contest, Counted};
use guest::lock::Waiting;
use guest::request::Request;
use linux::clock::Clock;
use pvclock::Hertz;
use vmm::Machine;

use crate::bench::{Bench, Provider, exit_ns, median, started};
use crate::results::{Check, Contention, Findings, Verdict};
use crate::run::Found;
use crate::settings::{LabError, Progress};
use tally::{Round, Tally};

/// How long each holds it, ns: a few cache misses, and what a long one takes. Where
/// there is one vCPU also not at all: what is left is the lock itself.
const HOLDS_NS: [u64; 3] = [0, 1_000, 20_000];

const fn holds_ns(vcpus: usize) -> &'static [u64] {
    if vcpus == 1 { &HOLDS_NS } else { HOLDS_NS.split_at(1).1 }
}

/// The most vCPUs and CPUs.
const VCPUS: usize = 4;
const CPUS: usize = 2;

/// How long one lock is contended for in a round: some time slices of the host's.
const LENGTH: Duration = Duration::from_millis(60);

/// Rounds below which a median shows nothing, and the most for each that is wanted,
/// where the host is busy.
const ROUNDS_MIN: usize = 3;
const TRIES: u64 = 3;

/// The least share of its CPUs that a machine whose vCPUs all spin must have had:
/// where others took more, vCPUs outnumber CPUs in any case.
const SHARE_MIN: f64 = 0.9;

/// Spins before a waiter yields or halts: about as long as an exit takes, which is at
/// most twice what the best choice for each wait would cost.
const SPINS: u32 = 2048;

/// A bar: the paravirtual lock's hand-overs over the spinning one's are at least this,
/// with so many vCPUs on so many CPUs.
struct Bar {
    vcpus: usize,
    cpus: usize,
    least: f64,
}

/// The gain where vCPUs outnumber CPUs, and what it may cost where they do not.
const BARS: [Bar; 2] =
    [Bar { vcpus: 4, cpus: 2, least: 2.0 }, Bar { vcpus: 2, cpus: 2, least: 0.95 }];

const fn name(way: Waiting) -> &'static str {
    match way {
        Waiting::Spin => "spin",
        Waiting::Yield => "yield",
        Waiting::Paravirtual => "halt",
        Waiting::Unfair => "unfair",
    }
}

/// About how long it takes.
pub(crate) const fn length(rounds: u64) -> Duration {
    // One vCPU, and 2 to 4 on one CPU and on two.
    let turns = (3 + 6 * 2) * rounds * Waiting::ALL.len() as u64;
    Duration::from_millis(LENGTH.as_millis() as u64 * turns * 11 / 10)
}

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let allowed = linux::cpus::allowed().unwrap_or_default();
    let mut places = Vec::new();
    for vcpus in 1..=VCPUS {
        places.extend((1..=CPUS.min(vcpus).min(allowed.len())).map(|cpus| (vcpus, cpus)));
    }
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, &(vcpus, cpus)) in places.iter().enumerate() {
        let mut settings = bench.machine(Provider::Kernel, vcpus);
        settings.affinity = allowed[..cpus].to_vec();
        let machine = started(&settings)?;
        let exit_ns = exit_ns(&machine, bench.host_tsc)?;
        let holds_ns = holds_ns(vcpus);
        for (turn, &hold_ns) in holds_ns.iter().enumerate() {
            let done = index as f64 + turn as f64 / holds_ns.len() as f64;
            progress.step(&format!("{vcpus} vCPUs on {cpus}"), done / places.len() as f64);
            let bar = BARS.iter().find(|bar| (bar.vcpus, bar.cpus) == (vcpus, cpus));
            let tallies = contend(&machine, bench, hold_ns, bar)?;
            for (way, tally) in Waiting::ALL.into_iter().zip(&tallies) {
                rows.push(Contention {
                    lock: name(way).to_owned(),
                    vcpus,
                    cpus,
                    hold_ns,
                    exit_ns,
                    ..tally.row(bench.host_tsc)
                });
            }
            checks.extend(bar.map(|bar| bar.check(hold_ns, bench.host_tsc, &tallies)));
        }
    }
    let bars = BARS.iter().filter(|bar| bar.cpus > allowed.len());
    checks.extend(bars.map(|bar| bar.not_measured(allowed.len())));
    Ok((Findings::Locks(rows), checks))
}

/// All ways of waiting, in turn, by the order of [`Waiting::ALL`]. Where a bar is to be
/// judged, more rounds replace those in which others took the CPUs.
fn contend(
    machine: &Machine,
    bench: &Bench<'_>,
    hold_ns: u64,
    bar: Option<&Bar>,
) -> Result<[Tally; 4], LabError> {
    let wanted = bench.settings.rounds;
    let cycles = |ns: u64| (u128::from(ns) * u128::from(bench.host_tsc.0) / 1_000_000_000) as u64;
    let mut tallies = [const { Tally::new() }; 4];
    for round in 0..wanted * TRIES {
        let missing =
            bar.is_some_and(|bar| bar.ratios(&tallies, bench.host_tsc).len() < wanted as usize);
        if round >= wanted && !missing {
            break;
        }
        for turn in 0..tallies.len() {
            let turn = (turn + round as usize) % tallies.len();
            let contest = Contest {
                way: Waiting::ALL[turn],
                spins: SPINS,
                hold: cycles(hold_ns),
                rest: cycles(hold_ns) / 2,
                length: cycles(LENGTH.as_nanos() as u64),
                participants: machine.vcpus() as u64,
            };
            tallies[turn].add(once(machine, contest)?);
        }
    }
    Ok(tallies)
}

fn once(machine: &Machine, contest: Contest) -> Result<Round, LabError> {
    let request = Request::Contend(contest);
    let vcpus = 0..machine.vcpus();
    machine.ram().shared().ready.store(0, Ordering::Release);
    let used = || Clock::ProcessCputime.read_ns().unwrap_or(0);
    let (began, used_before) = (Instant::now(), used());
    vcpus.clone().try_for_each(|vcpu| machine.send_request(vcpu, request))?;
    // Looking for replies would take the vCPUs' CPUs from them.
    std::thread::sleep(LENGTH);
    let cpu_ns = used().saturating_sub(used_before) as f64;
    let cpus = cpu_ns / began.elapsed().as_nanos() as f64;
    let mut round = Round { counted: Vec::new(), spans: [0; BUCKETS], cpus };
    for vcpu in vcpus {
        round.counted.push(Counted::decode(&machine.wait_for_reply(vcpu, request)?));
        round.add_spans(&machine.records(vcpu)?);
    }
    Ok(round)
}

impl Bar {
    fn name(&self, hold: &str) -> String {
        let Self { vcpus, cpus, .. } = self;
        let plural = if *cpus == 1 { "CPU" } else { "CPUs" };
        format!("halt / spin, {vcpus} vCPUs on {cpus} {plural}{hold}")
    }

    fn expected(&self) -> String {
        format!("hand-overs a second at least {:.2} of spin's", self.least)
    }

    /// The rounds' ratios of hand-overs a second, of rounds in which the CPUs were the
    /// machine's. Waiters that halt leave their CPUs to others where they are many.
    fn ratios(&self, [spin, _, halt, _]: &[Tally; 4], tsc: Hertz) -> Vec<f64> {
        let had = |round: &Round| round.cpus >= self.cpus as f64 * SHARE_MIN;
        let ours =
            |(halt, spin): &(&Round, &Round)| had(spin) && (self.vcpus > self.cpus || had(halt));
        let rounds = halt.rounds().iter().zip(spin.rounds()).filter(ours);
        rounds.map(|(halt, spin)| halt.handovers_per_s(tsc) / spin.handovers_per_s(tsc)).collect()
    }

    fn check(&self, hold_ns: u64, tsc: Hertz, tallies: &[Tally; 4]) -> Check {
        let ratios = self.ratios(tallies, tsc);
        let (ours, all) = (ratios.len(), tallies[0].rounds().len());
        let ratio = median(ratios);
        let verdict = if ours >= ROUNDS_MIN {
            Verdict::of(ratio >= self.least)
        } else {
            Verdict::NotMeasured(format!(
                "in {ours} of {all} rounds others left the machine its CPUs, and {ROUNDS_MIN} are needed"
            ))
        };
        Check {
            name: self.name(&format!(", held {} µs", hold_ns / 1000)),
            expected: self.expected(),
            found: format!("{ratio:.2}, the median of {ours} rounds of {all}"),
            verdict,
        }
    }

    fn not_measured(&self, cpus: usize) -> Check {
        let why = format!("this process may use {cpus} CPU of the host");
        let (name, expected) = (self.name(""), self.expected());
        Check { name, expected, found: String::new(), verdict: Verdict::NotMeasured(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC: Hertz = Hertz(1_000_000_000);

    fn tally(rounds: &[(u64, f64)]) -> Tally {
        let mut tally = Tally::new();
        for &(handovers, cpus) in rounds {
            let counted =
                Counted { takes: handovers, handovers, cycles: 1_000, ..Counted::default() };
            tally.add(Round { counted: vec![counted], spans: [0; BUCKETS], cpus });
        }
        tally
    }

    fn check(bar: &Bar, spin: &[(u64, f64)], halt: &[(u64, f64)]) -> Check {
        bar.check(1000, TSC, &[tally(spin), tally(&[]), tally(halt), tally(&[])])
    }

    #[test]
    fn a_bar_is_judged_by_the_median_ratio_of_rounds_that_had_their_cpus() {
        let [many, one_each] = &BARS;
        let spin = [(100, 2.0), (10, 1.9), (10, 2.0), (1, 1.0)];
        let halt = [(400, 0.5), (90, 0.5), (20, 0.5), (1, 0.5)];
        let judged = check(many, &spin, &halt);
        assert_eq!(
            (judged.found.as_str(), &judged.verdict),
            ("4.00, the median of 3 rounds of 4", &Verdict::Passed)
        );
        assert_eq!(check(many, &halt.map(|(n, _)| (n, 2.0)), &spin).verdict, Verdict::Failed);
        // One vCPU a CPU: the rounds of both must have had them.
        let unjudged = check(one_each, &spin, &halt);
        assert!(matches!(unjudged.verdict, Verdict::NotMeasured(_)), "{unjudged:?}");
        assert_eq!(check(one_each, &spin, &spin).verdict, Verdict::Passed);
    }

    #[test]
    fn too_few_rounds_show_nothing() {
        let two = [(100, 2.0); 2];
        assert!(matches!(check(&BARS[0], &two, &two).verdict, Verdict::NotMeasured(_)));
        let one_cpu = BARS[0].not_measured(1);
        assert_eq!(one_cpu.name, "halt / spin, 4 vCPUs on 2 CPUs");
        assert_eq!(one_cpu.result(), "this process may use 1 CPU of the host");
    }
}
