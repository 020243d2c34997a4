//! What this system keeps from a row's machine: how long the machine's threads wait for a CPU,
//! and how much of a CPU the host below this system takes. A check that depends on timing
//! states its need, and is not measured where this system did not meet that need.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::gettid;

/// How often the kernel's accounts are read. Several waits in one interval are counted as one
/// wait, so a wait is never underestimated.
const INTERVAL: Duration = Duration::from_millis(100);

/// The unit of /proc/stat: USER_HZ is 100 on x86-64 and arm64 (proc_stat(5)).
const TICK: Duration = Duration::from_millis(10);

/// What a check that depends on timing needs from this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// No wait for a CPU as long as this.
    Prompt(Duration),
    /// A CPU for at least this long.
    Cpu(Duration),
    /// To be done within this time: no wait of a quarter of it, and a CPU for half of the time.
    Deadline(Duration),
}

/// What a machine waited for during an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    over: Duration,
    /// The sum of the waits: of each short interval that of the thread that waited longest.
    waited: Duration,
    /// The longest wait of a thread, the host's part included.
    longest: Duration,
    /// What the host below took from one CPU; a part of the two above.
    stolen: Duration,
    /// For how long any process of this system waited for a CPU, where the kernel counts it
    /// (Linux: Documentation/accounting/psi.rst).
    pressure: Option<Duration>,
}

impl Load {
    /// Why a need was not met, in figures; none where it was met.
    pub(crate) fn shortage(&self, need: Need) -> Option<String> {
        let s = |duration: Duration| duration.as_secs_f64();
        let (is_met, shortage) = match need {
            Need::Prompt(bound) => (
                self.longest < bound,
                format!(
                    "waited up to {:.4} s for a CPU, the check bears less than {:.4} s",
                    s(self.longest),
                    s(bound)
                ),
            ),
            Need::Cpu(wanted) => (
                self.over.saturating_sub(self.waited) >= wanted,
                format!(
                    "waited {:.1} of {:.1} s for a CPU, the check needs a CPU for {:.1} s",
                    s(self.waited),
                    s(self.over),
                    s(wanted)
                ),
            ),
            Need::Deadline(limit) => (
                self.longest < limit / 4 && self.waited * 2 <= self.over,
                format!(
                    "waited {:.1} of {:.1} s for a CPU, up to {:.4} s at once; to be done within \
                     {:.1} s the check bears half, and less than a quarter at once",
                    s(self.waited),
                    s(self.over),
                    s(self.longest),
                    s(limit)
                ),
            ),
        };
        (!is_met).then(|| format!("busy: {shortage}; {}", self.accounts()))
    }

    fn accounts(&self) -> String {
        let share =
            |part: Duration| part.as_secs_f64() / self.over.as_secs_f64().max(0.001) * 100.0;
        let pressure = match self.pressure {
            Some(waited) => format!("{:.0} %", share(waited)),
            None => "not counted by this kernel".to_owned(),
        };
        format!("steal {:.1} %, CPU pressure {pressure}", share(self.stolen))
    }

    #[cfg(test)]
    pub(crate) const fn busy(over: Duration, waited: Duration, longest: Duration) -> Self {
        Self { over, waited, longest, stolen: Duration::ZERO, pressure: None }
    }

    /// The longest wait, s.
    pub(crate) fn longest_s(&self) -> f64 {
        self.longest.as_secs_f64()
    }
}

/// One reading of the accounts, as the difference from the reading before.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    load: Load,
}

/// Measures what all processes that the current thread starts wait for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Meter {
    samples: Arc<Mutex<Vec<Sample>>>,
    /// Closed at the end.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// A meter of what this thread starts from now on: a row's hypervisors and its servers.
    pub(crate) fn start() -> Self {
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let (end, ended) = mpsc::channel();
        let (to, parent) = (Arc::clone(&samples), gettid().as_raw_nonzero().get());
        let thread = thread::spawn(move || {
            let mut accounts = Accounts::read(parent);
            while ended.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = Accounts::read(parent);
                let sample = Sample { at: now.at, load: now.since(&accounts) };
                to.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                accounts = now;
            }
        });
        Self { samples, end: Some(end), thread: Some(thread) }
    }

    /// The load since an instant. The interval that is under way counts too.
    pub(crate) fn since(&self, start: Instant) -> Load {
        // The next reading covers all until now.
        thread::sleep(INTERVAL * 2);
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = samples.iter().filter(|sample| sample.at > start);
        recent.fold(Load::default(), |sum, Sample { load, .. }| Load {
            over: sum.over + load.over,
            waited: sum.waited + load.waited,
            longest: sum.longest.max(load.longest),
            stolen: sum.stolen + load.stolen,
            pressure: load.pressure.map(|waited| sum.pressure.unwrap_or_default() + waited),
        })
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

/// What the kernel counts, since the start of each thread and of this system.
#[derive(Debug)]
struct Accounts {
    at: Instant,
    /// The wait of each thread: the second figure of its schedstat, ns (Linux:
    /// Documentation/scheduler/sched-stats.rst).
    waited: BTreeMap<PathBuf, Duration>,
    /// The steal of each CPU.
    stolen: Vec<Duration>,
    pressure: Option<Duration>,
}

impl Accounts {
    fn read(parent: i32) -> Self {
        let mut waited = BTreeMap::new();
        let mut tasks = vec![PathBuf::from(format!("/proc/self/task/{parent}"))];
        while let Some(task) = tasks.pop() {
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            for child in children.split_whitespace() {
                let of_child = fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten();
                tasks.extend(of_child.flatten().map(|entry| entry.path()));
            }
            let ns = fs::read_to_string(task.join("schedstat")).ok().as_deref().and_then(second);
            // The parent is this program, and none of the machine.
            if let Some(ns) = ns.filter(|_| !task.starts_with("/proc/self")) {
                waited.insert(task, Duration::from_nanos(ns));
            }
        }
        let stolen = steal(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok().as_deref().and_then(pressure);
        Self { at: Instant::now(), waited, stolen, pressure }
    }

    fn since(&self, before: &Self) -> Load {
        let waits = self.waited.iter().map(|(task, now)| {
            // A thread that was started meanwhile counts from 0.
            now.saturating_sub(before.waited.get(task).copied().unwrap_or_default())
        });
        let stolen = self.stolen.iter().zip(&before.stolen);
        let stolen = stolen.map(|(now, before)| now.saturating_sub(*before)).max();
        let over = self.at.saturating_duration_since(before.at);
        let stolen = stolen.unwrap_or_default();
        // A thread that has just run again brings the whole of its wait.
        let longest = waits.max().unwrap_or_default() + stolen;
        let pressure = self.pressure.zip(before.pressure);
        let pressure = pressure.map(|(now, before)| now.saturating_sub(before));
        Load { over, waited: longest, longest, stolen, pressure }
    }
}

/// `12345 2500000000 17`.
fn second(schedstat: &str) -> Option<u64> {
    schedstat.split(' ').nth(1)?.parse().ok()
}

/// The steal of each CPU: `cpu0 user nice system idle iowait irq softirq steal …` (proc_stat(5)).
fn steal(stat: &str) -> Vec<Duration> {
    let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let ticks = |line: &str| line.split_whitespace().nth(8)?.parse::<u32>().ok();
    cpus.map(|line| TICK * ticks(line).unwrap_or(0)).collect()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, µs.
fn pressure(file: &str) -> Option<Duration> {
    let line = file.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_need_that_was_met_excuses_nothing() {
        let load = Load::busy(ms(90_000), ms(30_000), ms(12));
        assert_eq!(load.shortage(Need::Prompt(ms(13))), None);
        let why = load.shortage(Need::Prompt(ms(12))).unwrap();
        let expected = "busy: waited up to 0.0120 s for a CPU, the check bears less than 0.0120 s; \
            steal 0.0 %, CPU pressure not counted by this kernel";
        assert_eq!(why, expected);
        // 90 s less 30 s of waiting.
        assert_eq!(load.shortage(Need::Cpu(ms(60_000))), None);
        let why = load.shortage(Need::Cpu(ms(60_001))).unwrap();
        assert!(why.contains("waited 30.0 of 90.0 s for a CPU"), "{why}");
        assert_eq!(Load::default().shortage(Need::Prompt(ms(1))), None, "nothing was counted");
    }

    #[test]
    fn a_deadline_bears_short_waits_for_half_of_the_time() {
        let is_met = |waited, longest| {
            let load = Load::busy(ms(10_000), ms(waited), ms(longest));
            load.shortage(Need::Deadline(ms(1000))).is_none()
        };
        assert!(is_met(5000, 249) && is_met(0, 0));
        assert!(!is_met(5001, 100), "many short waits");
        assert!(!is_met(300, 250), "one that is long");
    }

    #[test]
    fn the_kernels_accounts_are_parsed() {
        let stat = "cpu  1 2 3 4 5 6 7 300 0 0\ncpu0 1 2 3 4 5 6 7 100 0 0\n\
            cpu1 1 2 3 4 5 6 7 200 0 0\nintr 5\n";
        assert_eq!(steal(stat), [ms(1000), ms(2000)]);
        assert_eq!(second("12345 2500000000 17\n"), Some(2_500_000_000));
        let both = "some avg10=87.26 avg60=40.66 avg300=14.43 total=59937816\nfull total=0\n";
        assert_eq!(pressure(both), Some(Duration::from_micros(59_937_816)));
        assert_eq!((second(""), steal(""), pressure("")), (None, vec![], None));
    }

    #[test]
    fn the_thread_that_waited_longest_counts_and_the_hosts_steal_with_it() {
        let at = Instant::now();
        let of = |at, first, second, stolen| Accounts {
            at,
            waited: [("a", first), ("b", second)].map(|(name, ns)| (name.into(), ms(ns))).into(),
            stolen: vec![ms(stolen), ms(0)],
            pressure: Some(ms(first)),
        };
        let load = of(at + ms(100), 20, 65, 30).since(&of(at, 10, 5, 10));
        assert_eq!((load.longest, load.waited, load.stolen), (ms(80), ms(80), ms(20)));
        assert_eq!((load.over, load.pressure), (ms(100), Some(ms(10))));
    }

    /// A process that does nothing but run.
    struct Busy(Child);

    impl Busy {
        fn on(cpu: usize) -> Self {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(Some(Pid::from_child(&child)), &only).unwrap();
            Self(child)
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn two_processes_on_one_cpu_are_seen_to_wait() {
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let (meter, start) = (Meter::start(), Instant::now());
        let both = [Busy::on(cpu), Busy::on(cpu)];
        thread::sleep(ms(600));
        let load = meter.since(start);
        drop(both);
        // Each has half of the CPU at most, so one of them waits for half of the time.
        assert!(load.waited >= ms(200), "{load:?}");
        assert!(load.shortage(Need::Cpu(load.over)).is_some(), "{load:?}");
    }
}
