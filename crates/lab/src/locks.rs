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

use guest::contention::{BUCKETS, ContentionCount, Contest};
use guest::lock::Waiting;
use guest::request::GuestRequest;
use linux::clock::LinuxClock;
use pvclock::Hertz;
use vmm::Machine;

use crate::bench::{LabBench, Provider, boot_guest, exit_ns, median};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable, Verdict};
use crate::settings::{LabError, LabProgress};
use tally::{Contention, LockRound, LockTally};

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

/// The most rounds for each that is needed, where the host is busy.
const TRIES: u64 = 3;

/// The least share of its CPUs that a machine whose vCPUs all spin must have had:
/// where others took more, vCPUs outnumber CPUs in any case.
const SHARE_MIN: f64 = 0.9;

/// Spins before a waiter yields or halts: about as long as an exit takes, which is at
/// most twice what the best choice for each wait would cost.
const SPINS: u32 = 2048;

/// A bar: the paravirtual lock is not slower than the spinning one, with so many vCPUs on so
/// many CPUs, by the median of so many rounds and more. By how much it is faster depends on the
/// machine, and is a figure.
struct LockBar {
    vcpus: usize,
    cpus: usize,
    rounds: usize,
}

/// Hand-overs over those of spin: medians of 30 rounds of equal locks differ by this much.
const NOT_SLOWER: f64 = 0.95;

/// Where vCPUs outnumber CPUs, and where they do not: a few percent take more rounds to show.
const BARS: [LockBar; 2] =
    [LockBar { vcpus: 4, cpus: 2, rounds: 3 }, LockBar { vcpus: 2, cpus: 2, rounds: 30 }];

/// The ways that a bar compares.
const COMPARED: [Waiting; 2] = [Waiting::Spin, Waiting::Paravirtual];

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

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let allowed = linux::cpus::allowed().unwrap_or_default();
    let mut places = Vec::new();
    for vcpus in 1..=VCPUS {
        places.extend((1..=CPUS.min(vcpus).min(allowed.len())).map(|cpus| (vcpus, cpus)));
    }
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, &(vcpus, cpus)) in places.iter().enumerate() {
        let mut settings = bench.machine(Provider::Kernel, vcpus);
        settings.affinity = allowed[..cpus].to_vec();
        let machine = boot_guest(&settings)?;
        let exit_ns = exit_ns(&machine, bench.host_tsc)?;
        let holds_ns = holds_ns(vcpus);
        for (turn, &hold_ns) in holds_ns.iter().enumerate() {
            let done = index as f64 + turn as f64 / holds_ns.len() as f64;
            progress.step(&format!("{vcpus} vCPUs on {cpus}"), done / places.len() as f64);
            let bar = BARS.iter().find(|bar| (bar.vcpus, bar.cpus) == (vcpus, cpus));
            let tallies = contend(&machine, bench, hold_ns, bar)?;
            for (way, tally) in Waiting::ALL.into_iter().zip(&tallies) {
                rows.push(Contention {
                    lock: name(way),
                    place: format!("{vcpus}/{cpus}"),
                    hold_us: hold_ns as f64 / 1e3,
                    exit_ns,
                    ..tally.row(bench.host_tsc)
                });
            }
            checks.extend(bar.map(|bar| bar.check(hold_ns, bench.host_tsc, &tallies)));
        }
    }
    let bars = BARS.iter().filter(|bar| bar.cpus > allowed.len());
    checks.extend(bars.map(|bar| bar.not_measured(allowed.len())));
    Ok((table(&rows), checks))
}

fn table(rows: &[Contention]) -> ResultTable {
    use ColumnForm::{Count, Name, Nanos, Significant};
    let columns = [
        ("lock", "wait", "", Name),
        ("place", "vCPU\n/CPU", "", Name),
        ("hold_us", "held", "µs", Significant),
        ("takes_per_s", "takes\n/s", "", Count),
        ("handovers_per_s", "hand-\novers/s", "", Count),
        ("handover_ns.median", "p50", "", Nanos),
        ("handover_ns.p99", "p99", "", Nanos),
        ("halts_per_take", "halts\n/take", "", Significant),
        ("kicks_per_take", "kicks\n/take", "", Significant),
        ("fairness", "fair", "", Significant),
        ("cpus_had", "CPUs\nhad", "", Significant),
    ];
    ResultTable::new("Locks: all vCPUs take one lock in turn", &columns, rows)
        .worst("handover_ns.p99")
        .note(
            "wait: spin, yield and halt (paravirtual: until kicked) in a queue, unfair without one. \
             p50, p99: time from one vCPU releasing the lock to the next vCPU holding it. halts: \
             halts or yields. fair: acquisitions by the vCPU that got the fewest, divided by an \
             equal share. CPUs had: how many the machine got, fewer where its vCPUs halt or other \
             processes ran.",
        )
}

/// All ways of waiting, in turn, by the order of [`Waiting::ALL`]. Where a bar is to be
/// judged, the two that it compares have more rounds, until enough count, or none of the
/// first so many does.
fn contend(
    machine: &Machine,
    bench: &LabBench<'_>,
    hold_ns: u64,
    bar: Option<&LockBar>,
) -> Result<[LockTally; 4], LabError> {
    let wanted = bench.settings.rounds;
    let cycles = |ns: u64| (u128::from(ns) * u128::from(bench.host_tsc.0) / 1_000_000_000) as u64;
    let mut tallies = [const { LockTally::new() }; 4];
    let needed = bar.map_or(0, |bar| bar.rounds as u64).max(wanted);
    for round in 0..needed * TRIES {
        let counting = bar.map(|bar| bar.ratios(&tallies, bench.host_tsc).len() as u64);
        let is_hopeless = round >= needed && counting == Some(0);
        if round >= wanted && (is_hopeless || counting.is_none_or(|count| count >= needed)) {
            break;
        }
        for turn in 0..tallies.len() {
            let turn = (turn + round as usize) % tallies.len();
            if round >= wanted && !COMPARED.contains(&Waiting::ALL[turn]) {
                continue;
            }
            let contest = Contest {
                way: Waiting::ALL[turn],
                spins: SPINS,
                hold: cycles(hold_ns),
                rest: cycles(hold_ns) / 2,
                length: cycles(LENGTH.as_nanos() as u64),
                participants: machine.vcpus() as u64,
            };
            tallies[turn].add(contest_round(machine, contest)?);
        }
    }
    Ok(tallies)
}

fn contest_round(machine: &Machine, contest: Contest) -> Result<LockRound, LabError> {
    let request = GuestRequest::Contend(contest);
    let vcpus = 0..machine.vcpus();
    machine.ram().shared().ready.store(0, Ordering::Release);
    let used = || LinuxClock::ProcessCputime.read_ns().unwrap_or(0);
    let (began, used_before) = (Instant::now(), used());
    vcpus.clone().try_for_each(|vcpu| machine.send_request(vcpu, request))?;
    // Looking for replies would take the vCPUs' CPUs from them.
    std::thread::sleep(LENGTH);
    let cpu_ns = used().saturating_sub(used_before) as f64;
    let cpus = cpu_ns / began.elapsed().as_nanos() as f64;
    let mut round = LockRound { counted: Vec::new(), spans: [0; BUCKETS], cpus };
    for vcpu in vcpus {
        round.counted.push(ContentionCount::decode(&machine.wait_for_reply(vcpu, request)?));
        round.add_spans(&machine.records(vcpu)?);
    }
    Ok(round)
}

impl LockBar {
    fn name(&self, hold: &str) -> String {
        let Self { vcpus, cpus, .. } = self;
        let plural = if *cpus == 1 { "CPU" } else { "CPUs" };
        format!("halt / spin, {vcpus} vCPUs on {cpus} {plural}{hold}")
    }

    fn expected() -> String {
        format!("not slower: at least {NOT_SLOWER} of spin's hand-overs per second")
    }

    /// The rounds' ratios of hand-overs a second, of rounds that show what the bar is about:
    /// the CPUs were the machine's, and where vCPUs outnumber them, the spinning queue waited
    /// for a vCPU that did not run. Held for 1 µs the lock may go to and fro between the two
    /// that run for a whole round, and then there is nothing to gain. Waiters that halt leave
    /// their CPUs to others where they are many.
    fn ratios(&self, [spin, _, halt, _]: &[LockTally; 4], tsc: Hertz) -> Vec<f64> {
        let had = |round: &LockRound| round.cpus >= self.cpus as f64 * SHARE_MIN;
        let shows = |(halt, spin): &(&LockRound, &LockRound)| {
            let is_met =
                if self.vcpus > self.cpus { spin.waited_for_vcpus(tsc) } else { had(halt) };
            had(spin) && is_met
        };
        let rounds = halt.rounds().iter().zip(spin.rounds()).filter(shows);
        rounds.map(|(halt, spin)| halt.handovers_per_s(tsc) / spin.handovers_per_s(tsc)).collect()
    }

    fn check(&self, hold_ns: u64, tsc: Hertz, tallies: &[LockTally; 4]) -> Check {
        let ratios = self.ratios(tallies, tsc);
        let (ours, all) = (ratios.len(), tallies[0].rounds().len());
        let ratio = median(ratios);
        let verdict = if ours >= self.rounds {
            Verdict::judge(ratio >= NOT_SLOWER)
        } else {
            let what = if self.vcpus > self.cpus {
                "had its CPUs and its spinning queue waited for a preempted vCPU"
            } else {
                "had its CPUs"
            };
            let needed = self.rounds;
            Verdict::NotMeasured(format!(
                "host busy: in only {ours} of {all} rounds the machine {what}; {needed} are needed"
            ))
        };
        Check {
            name: self.name(&format!(", held {} µs", hold_ns / 1000)),
            expected: Self::expected(),
            found: format!("{ratio:.2}, the median of {ours} of {all} rounds"),
            verdict,
        }
    }

    fn not_measured(&self, cpus: usize) -> Check {
        let why = format!("this process may use only {cpus} CPU of the host");
        Check::not_measured(self.name(""), Self::expected(), why)
    }
}

#[cfg(test)]
mod tests {
    use guest::contention::bucket;

    use super::*;

    const TSC: Hertz = Hertz(1_000_000_000);

    /// 10 ms each, of which one hand-over took so many.
    fn tally(rounds: &[(u64, f64, u64)]) -> LockTally {
        let mut tally = LockTally::new();
        for &(handovers, cpus, waited_ms) in rounds {
            let counted = ContentionCount {
                takes: handovers,
                handovers,
                cycles: 10_000_000,
                ..ContentionCount::default()
            };
            let mut spans = [0; BUCKETS];
            spans[bucket(waited_ms * 1_000_000)] = 1;
            tally.add(LockRound { counted: vec![counted], spans, cpus });
        }
        tally
    }

    fn check(bar: &LockBar, spin: &[(u64, f64, u64)], halt: &[(u64, f64, u64)]) -> Check {
        bar.check(1000, TSC, &[tally(spin), tally(&[]), tally(halt), tally(&[])])
    }

    #[test]
    fn the_gain_is_judged_where_the_queue_waited_for_a_vcpu_off_its_cpu() {
        let many = &BARS[0];
        // The last two: others had the CPUs; two vCPUs handed it to and fro all the time.
        let spin = [(100, 2.0, 8), (10, 1.9, 8), (10, 2.0, 8), (1, 1.0, 8), (9_000, 2.0, 0)];
        let halt = [(400, 0.5, 0), (90, 0.5, 0), (20, 0.5, 0), (1, 0.5, 0), (9_000, 0.5, 0)];
        let judged = check(many, &spin, &halt);
        assert_eq!(
            (judged.found.as_str(), &judged.verdict),
            ("4.00, the median of 3 of 5 rounds", &Verdict::Passed)
        );
        let slow = halt.map(|(handovers, cpus, waited)| (handovers / 8, cpus, waited));
        assert_eq!(check(many, &spin, &slow).verdict, Verdict::Failed, "a slow path");
        let judged = check(many, &spin[2..], &halt[2..]);
        assert_eq!(
            judged.result(),
            "host busy: in only 1 of 3 rounds the machine had its CPUs and its spinning queue \
             waited for a preempted vCPU; 3 are needed"
        );
    }

    #[test]
    fn what_it_costs_is_judged_by_thirty_rounds_that_both_had_their_cpus() {
        let one_each = &BARS[1];
        let rounds = |count, handovers| vec![(handovers, 2.0, 0); count];
        let verdict = |spin: &[_], halt: &[_]| check(one_each, spin, halt).verdict;
        assert_eq!(verdict(&rounds(30, 100), &rounds(30, 95)), Verdict::Passed);
        assert_eq!(verdict(&rounds(30, 100), &rounds(30, 94)), Verdict::Failed);
        let mut busy = rounds(30, 100);
        busy[7].1 = 0.5;
        for (spin, halt) in [(&busy, &rounds(30, 100)), (&rounds(30, 100), &busy)] {
            assert!(
                matches!(verdict(spin, halt), Verdict::NotMeasured(why) if why.contains("busy: in only 29 of 30"))
            );
        }
    }

    #[test]
    fn one_cpu_shows_nothing_of_two() {
        let one_cpu = BARS[0].not_measured(1);
        assert_eq!(one_cpu.name, "halt / spin, 4 vCPUs on 2 CPUs");
        assert_eq!(one_cpu.result(), "this process may use only 1 CPU of the host");
    }
}
