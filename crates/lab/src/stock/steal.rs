//! Steal time under load: the host keeps its CPUs busy beside the vCPUs while the guest is,
//! and what the guest's kernel accounts is held against how long the vCPUs' threads waited.

use std::fs;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvclock::counter::{Counter as _, Tsc};
use serde::{Deserialize, Serialize};
use vmm::{Machine, host_clock};

use super::expected;
use crate::bench::Provider;
use crate::results::Verdict;

/// Lines by which the guest asks for the load, and for its end.
const BEGINS: &str = "parachron-load-begins";
const ENDS: &str = "parachron-load-ends";
/// Until the load is there, and how long each CPU of the guest is busy then.
const SOON: Duration = Duration::from_millis(500);
const BUSY: Duration = Duration::from_secs(2);
/// Of /proc/stat (proc_stat(5)).
const TICK_NS: f64 = 1e7;
/// A vCPU's thread has to wait for this long in all, or nothing was stolen.
const LEAST_NS: f64 = 100e6;
/// The kernel accounts whole ticks, and at ticks; the page is written at entries.
const TICKS_OFF: f64 = 2.0;
const PART_OFF: f64 = 0.1;

/// What the guest's kernel accounted between two of its TSCs, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StolenTime {
    pub(super) ticks: u64,
    pub(super) tsc: (u64, u64),
}

/// Inside: asks for the load, and is busy on all CPUs.
pub(super) fn under_load() -> io::Result<StolenTime> {
    let say = |line: &str| {
        let mut console = io::stdout().lock();
        writeln!(console, "\n{line}").and_then(|()| console.flush())
    };
    say(BEGINS)?;
    thread::sleep(SOON);
    let cpus = thread::available_parallelism()?.get();
    let (before, first) = (ticks()?, Tsc.read_ordered());
    let until = Instant::now() + BUSY;
    thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| while Instant::now() < until {});
        }
    });
    let (last, after) = (Tsc.read_ordered(), ticks()?);
    say(ENDS)?;
    Ok(StolenTime { ticks: after.saturating_sub(before), tsc: (first, last) })
}

fn ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    parse_steal(&stat).ok_or_else(|| io::Error::other("/proc/stat has no steal"))
}

/// The eighth figure of the first line (proc_stat(5)).
fn parse_steal(stat: &str) -> Option<u64> {
    stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

/// Outside: the load while the guest asks for it, and how long its vCPUs waited.
#[derive(Debug, Default)]
pub(super) struct HostLoad {
    busy: Option<BusyThreads>,
    /// The host's TSC, and the wait of all vCPUs' threads until then, ns.
    waited: Vec<(u64, f64)>,
}

/// A thread for each CPU of this process.
#[derive(Debug)]
struct BusyThreads {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyThreads {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let cpus = linux::cpus::allowed().unwrap_or_default();
        let thread = |cpu| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                let _pinned = linux::cpus::pin(cpu);
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = cpus.into_iter().map(thread).collect();
        Self { is_over, threads }
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl HostLoad {
    /// What the serial port has so far decides.
    pub(super) fn look(&mut self, serial: &str, machine: &Machine) {
        let is_wanted = serial.contains(BEGINS) && !serial.contains(ENDS);
        if is_wanted || self.busy.is_some() {
            let waited = |vcpu| Some(machine.run_delay(vcpu).ok()??.0 as f64);
            let all: Option<f64> = (0..machine.vcpus()).map(waited).sum();
            self.waited.extend(all.map(|all| (host_clock::read().tsc.0, all)));
        }
        match (is_wanted, &self.busy) {
            (true, None) => self.busy = Some(BusyThreads::start()),
            (false, Some(_)) => self.busy = None,
            _ => {}
        }
    }

    /// How long they waited between two TSCs of the host, ns.
    fn waited_between(&self, (first, last): (u64, u64)) -> Option<f64> {
        let at = |tsc: u64| {
            let index = self.waited.iter().position(|(at, _)| *at > tsc)?;
            let ((tsc_before, before), (tsc_after, after)) =
                (*self.waited.get(index.checked_sub(1)?)?, self.waited[index]);
            let part = (tsc - tsc_before) as f64 / (tsc_after - tsc_before) as f64;
            Some(before + (after - before) * part)
        };
        Some(at(last)? - at(first)?)
    }

    /// What is expected, what was found, and the verdict.
    pub(super) fn judge(
        &self,
        provider: Provider,
        stolen: Option<StolenTime>,
        (tsc_offset, vcpus): (u64, usize),
    ) -> (String, String, Verdict) {
        let shown = |ns: f64| instruments::figures::time(ns);
        let Some(stolen) = stolen else {
            return ("steal time".to_owned(), "not read".to_owned(), Verdict::Failed);
        };
        let guest_ns = stolen.ticks as f64 * TICK_NS;
        let found = format!("{} in /proc/stat", shown(guest_ns));
        let (first, last) = stolen.tsc;
        let host = (first.wrapping_sub(tsc_offset), last.wrapping_sub(tsc_offset));
        if !expected::has_steal_time(provider) {
            return ("none: the provider has no steal-time page".to_owned(), found, {
                Verdict::judge(stolen.ticks == 0)
            });
        }
        let Some(waited_ns) = self.waited_between(host) else {
            let why = "this kernel does not report how long a thread waited for its CPU";
            return (
                "the time that the vCPUs waited".to_owned(),
                found,
                Verdict::NotMeasured(why.into()),
            );
        };
        let slack_ns = TICKS_OFF * TICK_NS * vcpus as f64 + PART_OFF * waited_ns;
        let expected =
            format!("{}, ± {}: the time that the vCPUs waited", shown(waited_ns), shown(slack_ns));
        let verdict = if waited_ns < LEAST_NS {
            Verdict::NotMeasured(format!("the vCPUs waited only {}", shown(waited_ns)))
        } else {
            Verdict::judge((guest_ns - waited_ns).abs() <= slack_ns)
        };
        (expected, found, verdict)
    }
}

#[cfg(test)]
mod tests {
    use host::Kind;

    use super::*;

    #[test]
    fn steal_is_the_eighth_figure_of_all_cpus() {
        let stat = "cpu  82 0 313 5102 66 0 13 204 0 0\ncpu0 41 0 151 2563 33 0 9 99 0 0\n";
        assert_eq!(
            (parse_steal(stat), parse_steal("cpu 1 2"), parse_steal("")),
            (Some(204), None, None)
        );
    }

    /// The vCPUs waited half of each ns from TSC 1000 on, at a TSC of 1 GHz.
    fn load() -> HostLoad {
        let waited = (0..9).map(|half_s| (half_s * 500_000_000, half_s as f64 * 250e6));
        HostLoad { busy: None, waited: waited.collect() }
    }

    #[test]
    fn what_the_kernel_accounts_is_what_its_vcpus_waited() {
        const OFFSET: u64 = 777;
        let verdict = |provider, ticks| {
            let tsc = (1_000_000_000 + OFFSET, 3_000_000_000 + OFFSET);
            load().judge(provider, Some(StolenTime { ticks, tsc }), (OFFSET, 2)).2
        };
        for provider in [Provider::Kernel, Provider::Own(Kind::Kvm)] {
            // 1 s, within 100 ms and two ticks of each of two CPUs.
            for (ticks, is_right) in [(100, true), (86, true), (114, true), (85, false), (0, false)]
            {
                assert_eq!(verdict(provider, ticks), Verdict::judge(is_right), "{ticks}");
            }
        }
        for kind in [Kind::None, Kind::Minimal, Kind::HyperV] {
            assert_eq!(verdict(Provider::Own(kind), 0), Verdict::Passed);
            assert_eq!(verdict(Provider::Own(kind), 1), Verdict::Failed);
        }
        assert_eq!(load().judge(Provider::Kernel, None, (0, 1)).2, Verdict::Failed);
    }

    #[test]
    fn without_a_wait_nothing_is_shown() {
        let judge =
            |tsc| load().judge(Provider::Kernel, Some(StolenTime { ticks: 0, tsc }), (0, 1)).2;
        for tsc in [(0, 100_000), (0, u64::MAX >> 1)] {
            assert!(matches!(judge(tsc), Verdict::NotMeasured(_)), "{tsc:?}");
        }
    }
}
