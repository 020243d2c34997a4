//! How long the threads of a case waited for a CPU: what a busy host can
//! explain of a result that is too late, and what it cannot.
//!
//! A bound on time that does not hold is one of three things:
//!
//! | longest wait for a CPU | beyond the bound by | verdict |
//! | --- | --- | --- |
//! | at most what the case bears | anything | wrong |
//! | longer | at most what the waits explain | not measured |
//! | longer | more than that | wrong |
//!
//! So load never turns a wrong answer into one that was not measured, unless
//! the answer is wrong by less than the load alone could make it.

use std::collections::HashMap;
use std::fs;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the waits are read. A wait that is longer is counted whole, in
/// the reading after its end.
const INTERVAL: Duration = Duration::from_millis(20);

/// A tick of /proc/stat (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// Waits for a CPU, by the kernel's count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuWaits {
    /// The longest of a thread, or of a virtual CPU of this machine.
    pub longest: Duration,
    /// Of all threads, and of all virtual CPUs.
    pub total: Duration,
}

impl CpuWaits {
    fn add(&mut self, wait: Duration) {
        self.longest = self.longest.max(wait);
        self.total += wait;
    }
}

/// What a case unwinds with where the host was too busy, or unfit, to measure.
#[derive(Debug)]
pub(crate) struct UnfitHost(pub(crate) String);

/// Ends a case that this host does not let measure.
///
/// # Panics
/// With what the runner of the cases counts as not measured.
pub fn not_measured(why: String) -> ! {
    resume_unwind(Box::new(UnfitHost(why)))
}

/// Watches some processes until it judges or is dropped.
#[derive(Debug)]
pub struct CpuWatch {
    bearable: Duration,
    state: Arc<Mutex<Readings>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Readings {
    processes: Vec<u32>,
    /// By process and thread, and of the machine's virtual CPUs: the last count.
    last: HashMap<(u32, u32), Duration>,
    last_steal: Duration,
    waits: CpuWaits,
}

impl CpuWatch {
    /// Watches the threads of this process, for a case that bears that long a wait.
    ///
    /// # Panics
    /// No thread can be started.
    pub fn start(bearable: Duration) -> Self {
        let mut readings = Readings {
            processes: vec![std::process::id()],
            last: HashMap::new(),
            last_steal: steal(),
            waits: CpuWaits::default(),
        };
        // What came before is the others'.
        readings.read();
        readings.waits = CpuWaits::default();
        let state = Arc::new(Mutex::new(readings));
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, until) = (Arc::clone(&state), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                locked(&theirs).read();
            }
        });
        Self { bearable, state, over, thread: Some(thread) }
    }

    /// Watches the threads of this child as well, from its start.
    pub fn include(&self, child: u32) {
        locked(&self.state).processes.push(child);
    }

    /// The waits so far.
    pub fn waits(&self) -> CpuWaits {
        let mut readings = locked(&self.state);
        readings.read();
        readings.waits
    }

    /// Returns where a result is not beyond its bound. `explained` is how much the
    /// waits can add to it.
    ///
    /// # Panics
    /// The result is wrong, or could not be measured, which the runner of the cases counts.
    pub fn judge(&self, what: &str, beyond: Duration, explained: impl Fn(CpuWaits) -> Duration) {
        let waits = self.waits();
        match judged(self.bearable, waits, beyond, explained(waits)) {
            Judgement::Holds => {}
            Judgement::NotMeasured => not_measured(format!(
                "busy: {what}; a thread waited {:?} for a CPU, of at most {:?}",
                waits.longest, self.bearable
            )),
            Judgement::Wrong => panic!("{what}: beyond by {beyond:?}; {waits:?} do not explain it"),
        }
    }
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Holds,
    NotMeasured,
    Wrong,
}

fn judged(bearable: Duration, waits: CpuWaits, beyond: Duration, explained: Duration) -> Judgement {
    if beyond.is_zero() {
        Judgement::Holds
    } else if waits.longest > bearable && beyond <= explained {
        Judgement::NotMeasured
    } else {
        Judgement::Wrong
    }
}

fn locked(state: &Mutex<Readings>) -> std::sync::MutexGuard<'_, Readings> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readings {
    fn read(&mut self) {
        for process in self.processes.clone() {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for thread in threads.flatten() {
                let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
                let text = fs::read_to_string(thread.path().join("schedstat"));
                let waited = text.ok().and_then(|text| run_delay(&text));
                let (Some(id), Some(waited)) = (id, waited) else { continue };
                let before = self.last.insert((process, id), waited).unwrap_or_default();
                self.waits.add(waited.saturating_sub(before));
            }
        }
        let steal = steal();
        self.waits.add(steal.saturating_sub(self.last_steal));
        self.last_steal = steal;
    }
}

/// The second number of schedstat: ns in a run queue (sched-stats.rst).
fn run_delay(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// What the host took from all virtual CPUs: the eighth number of /proc/stat's first line.
fn steal() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    TICK * ticks.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_what_the_waits_explain_is_not_measured() {
        let waits = |longest| CpuWaits { longest, total: longest * 3 };
        for (longest, beyond, verdict) in [
            (MS * 9, Duration::ZERO, Judgement::Holds),
            (MS, MS, Judgement::Wrong),
            (MS * 9, MS * 9, Judgement::NotMeasured),
            (MS * 9, MS * 10, Judgement::Wrong),
        ] {
            let waits = waits(longest);
            assert_eq!(judged(MS, waits, beyond, waits.longest), verdict, "{longest:?} {beyond:?}");
        }
        assert_eq!(run_delay("38270079 300225 2\n"), Some(Duration::from_nanos(300_225)));
        assert_eq!(run_delay("38270079"), None);
    }

    /// A process that takes the CPU it is started on, until it is dropped.
    struct Load(Child);

    impl Load {
        fn start() -> Self {
            let spin = ["-c", "while :; do :; done"];
            Self(Command::new("sh").args(spin).stdin(Stdio::null()).spawn().expect("a shell"))
        }
    }

    impl Drop for Load {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Two processes beside us on one CPU: what is late by a little is not
    /// measured, what is late by seconds is wrong all the same.
    #[test]
    fn a_wrong_answer_is_wrong_under_load_too() {
        std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).expect("our CPUs");
            let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).expect("a CPU that is ours");
            // The processes inherit it.
            let _load = [Load::start(), Load::start()];
            let watch = CpuWatch::start(Duration::ZERO);
            let end = Instant::now() + Duration::from_secs(60);
            while watch.waits().longest < MS {
                assert!(Instant::now() < end, "{:?}: we had the CPU alone", watch.waits());
            }
            let judge = |beyond| {
                let judged = || watch.judge("a deadline", beyond, |waits| waits.longest);
                catch_unwind(AssertUnwindSafe(judged)).err()
            };
            assert!(judge(Duration::ZERO).is_none());
            let busy = judge(MS).expect("it is late");
            let UnfitHost(why) = busy.downcast_ref().expect("the host is busy");
            assert!(why.starts_with("busy: a deadline; a thread waited "), "{why}");
            let wrong = judge(Duration::from_secs(3600)).expect("it is wrong");
            let wrong = wrong.downcast_ref::<String>().expect("words");
            assert!(wrong.contains("do not explain it"), "{wrong}");
        })
        .join()
        .expect("the guard holds");
    }
}
