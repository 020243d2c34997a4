//! How many calls enter the kernel: counted, not guessed.
//!
//! A new thread makes the kernel refuse it `clock_gettime`, `gettimeofday` and
//! `time` with an unused error number (seccomp, SECCOMP_RET_ERRNO). Then it
//! makes the calls: one that returns that number entered the kernel, the vDSO
//! served any other. The filter ends with the thread and affects no other; it
//! needs no privilege, only `no_new_privs` on that thread.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::clock_call::Call;

/// The error number of the refusal: below 4096, as seccomp requires, and above
/// all of Linux's.
const MARK: i32 = 3691;

/// Why calls could not be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The filter could not be made or installed: no seccomp in the kernel,
    /// or a sandbox that forbids it.
    #[error("seccomp refused: {0}")]
    Seccomp(String),
    /// No thread to count on.
    #[error("cannot start the thread that counts: {0}")]
    Thread(std::io::Error),
    /// A system call was not refused: this libc or sandbox hides it.
    #[error("seccomp did not refuse a clock_gettime system call, so calls cannot be counted")]
    Unseen,
}

/// How many of `times` calls of each of `calls` enter the kernel, in order.
///
/// # Errors
/// [`CountError`].
pub fn count(calls: &[Call], times: u64) -> Result<Vec<u64>, CountError> {
    let filter = filter().map_err(|error| CountError::Seccomp(error.to_string()))?;
    std::thread::scope(|scope| {
        let counting =
            std::thread::Builder::new().name("kernel-entries".into()).spawn_scoped(scope, || {
                seccompiler::apply_filter(&filter)
                    .map_err(|error| CountError::Seccomp(error.to_string()))?;
                if !is_refused() {
                    return Err(CountError::Unseen);
                }
                Ok(calls.iter().map(|call| entered(*call, times)).collect())
            });
        match counting.map_err(CountError::Thread)?.join() {
            Ok(counted) => counted,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn entered(call: Call, times: u64) -> u64 {
    (0..times).map(|_| u64::from(call.errno() == Some(MARK))).sum()
}

/// Whether a true system call is refused: the calibration of the count.
fn is_refused() -> bool {
    // No vDSO serves CPU time (lib/vdso/gettimeofday.c, VDSO_HRES and others).
    Call::ClockGettime(linux::clock::LinuxClock::ThreadCputime).errno() == Some(MARK)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let refused = [
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_time,
    ];
    SeccompFilter::new(
        refused.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(MARK.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::clock::LinuxClock;

    #[test]
    fn cpu_time_enters_the_kernel_and_instructions_do_not() {
        let calls = [Call::Counter, Call::ClockGettime(LinuxClock::ProcessCputime), Call::Time];
        match count(&calls, 100) {
            // The vDSO serves `time` on every x86 kernel.
            Ok(entered) => assert_eq!(entered, [0, 100, 0]),
            Err(error) => crate::skipped(&error.to_string()),
        }
    }

    #[test]
    fn no_other_thread_is_refused_anything() {
        let _ = count(&[Call::Gettimeofday], 1);
        assert_eq!(Call::ClockGettime(LinuxClock::ThreadCputime).errno(), None);
    }
}
