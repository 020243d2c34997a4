//! Runs the cases as `cargo test` runs tests: those that share the machine side
//! by side, then the others one at a time.

use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cpu_watch::UnfitHost;
use crate::{Case, Program, Sharing};

/// So many of the cases that share run at a time: they wait more than they work.
const THREADS: usize = 6;

/// So many of the slowest cases are printed.
const SLOWEST: usize = 5;

/// What the cases came to, beyond what the closing line counts.
#[derive(Debug, Default)]
struct Records {
    not_measured: Vec<String>,
    took: Vec<(Duration, &'static str)>,
}

static RECORDS: Mutex<Records> = Mutex::new(Records { not_measured: Vec::new(), took: Vec::new() });

/// Held by each case while it runs, by one that is alone for itself.
static MACHINE: RwLock<()> = RwLock::new(());

/// Locked by each case in the same way, for another run on this machine: the one would take the
/// other's temporary clock source for the first, and restore it at its end. Any user can open
/// the file; where it is missing, no case switches.
const BETWEEN_RUNS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Waits for other runs; locked until it is dropped.
fn lock_between_runs(path: &str, sharing: Sharing) -> Option<File> {
    let file = File::open(path).ok()?;
    let (at_once, waiting) = match sharing {
        Sharing::Shared => (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared),
        Sharing::Alone => (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive),
    };
    if flock(&file, at_once) == Err(Errno::WOULDBLOCK) {
        static SAY: Once = Once::new();
        SAY.call_once(|| eprintln!("waiting for another run of these cases on this machine"));
        while flock(&file, waiting) == Err(Errno::INTR) {}
    }
    Some(file)
}

/// Runs them, and prints which were not measured, and which were slow.
pub fn run(cases: impl IntoIterator<Item = Case>) -> Conclusion {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let (shared, alone): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.sharing == Sharing::Shared);
    // In this order: a case that waits for the machine to itself holds a thread.
    let trials = shared.into_iter().chain(alone).map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_records();
    conclusion
}

fn print_records() {
    let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    records.took.sort_unstable_by(|one, other| other.cmp(one));
    let slow = records.took.iter().take(SLOWEST);
    let slow: Vec<String> =
        slow.map(|(took, name)| format!("{name} {:.1} s", took.as_secs_f64())).collect();
    let mut out = std::io::stdout().lock();
    // Nobody may be there to read it.
    if !slow.is_empty() {
        let _ = writeln!(out, "slowest cases: {}\n", slow.join(", "));
    }
    for line in &records.not_measured {
        let _ = writeln!(out, "not measured: {line}");
    }
}

fn trial(case: Case) -> Trial {
    let missing: Vec<String> = case.needs.iter().filter_map(|need| need.missing()).collect();
    if missing.is_empty() {
        return Trial::ignorable_test(case.name, move || completion(case, Program::built()?));
    }
    let why = missing.join(", ");
    let kind = format!("skipped: {why}");
    Trial::test(case.name, move || Err(why.into())).with_kind(kind).with_ignored_flag(true)
}

fn completion(case: Case, program: &Program) -> Result<Completion, Failed> {
    // A case that panics poisons neither.
    let (_shared, _alone) = match case.sharing {
        Sharing::Shared => (Some(MACHINE.read().unwrap_or_else(PoisonError::into_inner)), None),
        Sharing::Alone => (None, Some(MACHINE.write().unwrap_or_else(PoisonError::into_inner))),
    };
    let _other_runs = lock_between_runs(BETWEEN_RUNS, case.sharing);
    let began = Instant::now();
    let ran = catch_unwind(AssertUnwindSafe(|| (case.run)(program)));
    let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    records.took.push((began.elapsed(), case.name));
    match ran {
        Ok(()) => Ok(Completion::Completed),
        Err(panic) => match panic.downcast::<UnfitHost>() {
            Ok(unfit) => {
                records.not_measured.push(format!("{}: {}", case.name, unfit.0));
                Ok(Completion::ignored_with(format!("not measured: {}", unfit.0)))
            }
            Err(_) => Err(Failed::from("panicked, see above")),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static RUNNING: AtomicU32 = AtomicU32::new(0);

    fn case(sharing: Sharing, run: fn(&Program)) -> Case {
        Case { name: "a case", sharing, needs: &[], run }
    }

    /// Its own path is never run.
    fn nothing() -> Program {
        Program::at("/nowhere".into())
    }

    #[test]
    fn a_busy_host_is_listed_and_a_wrong_answer_fails() {
        let busy = case(Sharing::Shared, |_| {
            std::panic::resume_unwind(Box::new(UnfitHost("busy: by 9 ms".to_owned())));
        });
        let Ok(Completion::Ignored { reason }) = completion(busy, &nothing()) else {
            panic!("a busy host is no failure")
        };
        assert_eq!(reason.as_deref(), Some("not measured: busy: by 9 ms"));
        let listed = || RECORDS.lock().unwrap_or_else(PoisonError::into_inner).not_measured.clone();
        assert_eq!(listed(), ["a case: busy: by 9 ms"]);
        let wrong = case(Sharing::Shared, |_| panic!("a wrong answer, as planned"));
        assert!(completion(wrong, &nothing()).is_err());
    }

    #[test]
    fn a_case_that_is_alone_has_no_other_run_beside_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let other = |operation| flock(File::open(path).unwrap(), operation).is_ok();
        let shared = lock_between_runs(path, Sharing::Shared).unwrap();
        assert!(other(FlockOperation::NonBlockingLockShared));
        assert!(!other(FlockOperation::NonBlockingLockExclusive));
        drop(shared);
        let alone = lock_between_runs(path, Sharing::Alone).unwrap();
        assert!(!other(FlockOperation::NonBlockingLockShared));
        drop(alone);
        assert!(other(FlockOperation::NonBlockingLockExclusive));
        assert!(lock_between_runs("/no/such/file", Sharing::Alone).is_none());
    }

    #[test]
    fn a_case_that_is_alone_has_nobody_beside_it() {
        fn runs_beside(most: u32) {
            let beside = RUNNING.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            assert!(beside <= most, "{beside} others");
        }
        let alone = case(Sharing::Alone, |_| runs_beside(0));
        let shared = case(Sharing::Shared, |_| runs_beside(u32::MAX));
        let passed: Vec<bool> = std::thread::scope(|scope| {
            let cases = [shared, alone, shared, alone, shared, alone];
            let threads =
                cases.map(|case| scope.spawn(move || completion(case, &nothing()).is_ok()));
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        assert!(passed.iter().all(|passed| *passed), "{passed:?}");
    }
}
