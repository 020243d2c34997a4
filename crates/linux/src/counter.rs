//! The CPU's counter that programs may read, and what `pvclock` does not need
//! of it. What a CPU is not known for, it lacks: there [`is_readable`] is false.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unknown;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
pub use pvclock::counter::Counter;
use rustix::io;
use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use unknown::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// Whether this thread may read the counter; where `prctl(PR_SET_TSC)` forbade
/// it (on arm64 since Linux 6.12), doing so is a SIGSEGV.
pub fn is_readable() -> bool {
    !NAME.is_empty() && allows(time_stamp_counter_readability())
}

/// What the kernel's answer to PR_GET_TSC means. A kernel without the call answers EINVAL,
/// as user-mode Linux and arm64 before 6.12 do, and does not forbid it (prctl(2)).
fn allows(answer: io::Result<TimeStampCounterReadability>) -> bool {
    answer.map_or(true, |readability| readability == TimeStampCounterReadability::Readable)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::process::set_time_stamp_counter_readability;

    use super::*;

    #[test]
    fn a_kernel_without_the_call_does_not_forbid_the_counter() {
        assert!(allows(Err(Errno::INVAL)));
        assert!(allows(Ok(TimeStampCounterReadability::Readable)));
        assert!(!allows(Ok(TimeStampCounterReadability::RaiseSIGSEGV)));
    }

    /// Of this thread alone, and until it may again: what ends a thread may read a clock.
    #[test]
    fn a_thread_that_may_not_read_it_knows() {
        let forbidden = std::thread::spawn(|| {
            set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV)?;
            let readable = is_readable();
            set_time_stamp_counter_readability(TimeStampCounterReadability::Readable)?;
            Ok::<bool, Errno>(!readable && is_readable())
        });
        match forbidden.join().unwrap() {
            Ok(knows) => assert!(knows),
            Err(error) => crate::cpus::skipped(&format!("PR_SET_TSC: {error}")),
        }
    }
}
