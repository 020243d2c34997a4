//! Which CPUs this process may use, what they are, and staying on one of them.

use std::cell::Cell;
use std::marker::PhantomData;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Why a thread could not be bound to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The kernel did not report which CPUs are allowed.
    #[error("sched_getaffinity: {0}")]
    Ask(Errno),
    /// The kernel did not bind the thread.
    #[error("sched_setaffinity to CPU {cpu}: {error}")]
    Bind {
        /// Which CPU.
        cpu: u32,
        /// The kernel's answer.
        error: Errno,
    },
    /// CPUs beyond what the system call's usual set holds.
    #[error("CPU {cpu} is beyond the {} that sched_setaffinity takes", CpuSet::MAX_CPU)]
    Beyond {
        /// Which CPU.
        cpu: u32,
    },
}

/// The CPUs this thread may run on, in order.
///
/// # Errors
/// [`PinError::Ask`].
pub fn allowed() -> Result<Vec<u32>, PinError> {
    let set = sched_getaffinity(None).map_err(PinError::Ask)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect())
}

thread_local! {
    /// Where this thread might run before it was bound.
    static FREE: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// The CPUs that a thread may run on which is not bound to one.
#[derive(Debug, Clone, Copy)]
pub struct Free(Option<CpuSet>);

/// Where this thread might run if it were not [`Pinned`]: for another that it starts, which
/// is bound as it is (`sched_fork`, kernel/sched/core.c), and whose work is not to wait for
/// that CPU.
pub fn free() -> Free {
    Free(FREE.get())
}

impl Free {
    /// Lets this thread run there.
    pub fn run(self) {
        // Without permission it stays where it is, and is slower at the worst.
        let _ = self.0.map(|set| sched_setaffinity(None, &set));
    }
}

/// This thread stays on one CPU until this is dropped.
#[derive(Debug)]
#[must_use = "the thread is free again as soon as this is dropped"]
pub struct Pinned {
    before: CpuSet,
    /// The binding is the thread's own, so it must end on that thread.
    not_send: PhantomData<*const ()>,
}

/// Binds this thread to `cpu`.
///
/// # Errors
/// [`PinError`], for a CPU that is not there or not allowed.
pub fn pin(cpu: u32) -> Result<Pinned, PinError> {
    let before = sched_getaffinity(None).map_err(PinError::Ask)?;
    let index = usize::try_from(cpu)
        .ok()
        .filter(|index| *index < CpuSet::MAX_CPU)
        .ok_or(PinError::Beyond { cpu })?;
    let mut only = CpuSet::new();
    only.set(index);
    sched_setaffinity(None, &only).map_err(|error| PinError::Bind { cpu, error })?;
    FREE.set(FREE.get().or(Some(before)));
    Ok(Pinned { before, not_send: PhantomData })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A CPU taken offline meanwhile is the only way to fail; the kernel
        // has then moved the thread itself.
        let _ = sched_setaffinity(None, &self.before);
        FREE.set(FREE.get().filter(|free| *free != self.before));
    }
}

/// Says that a test found nothing to test, past the capture of its output.
#[cfg(test)]
pub(crate) fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The processor's own name for itself, where it has one.
#[cfg(target_arch = "x86_64")]
pub fn model() -> Option<String> {
    let name = raw_cpuid::CpuId::new().get_processor_brand_string()?;
    // CPUID pads with blanks and zeros.
    let name = name.as_str().trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether this is a virtual machine, by CPUID: leaf 1, ECX bit 31.
#[cfg(target_arch = "x86_64")]
pub fn has_hypervisor() -> Option<bool> {
    let features = raw_cpuid::CpuId::new().get_feature_info();
    Some(features.is_some_and(|features| features.has_hypervisor()))
}

/// The processor's own name for itself: only x86 has one.
#[cfg(not(target_arch = "x86_64"))]
pub fn model() -> Option<String> {
    None
}

/// Whether this is a virtual machine: no instruction of this processor tells.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_hypervisor() -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_on_its_cpu_and_free_afterwards() {
        let all = allowed().unwrap();
        for &cpu in &all {
            let pinned = pin(cpu).unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), cpu as usize);
            assert_eq!(allowed().unwrap(), [cpu]);
            drop(pinned);
        }
        assert_eq!(allowed().unwrap(), all);
    }

    #[test]
    fn a_thread_that_a_pinned_one_starts_can_be_free() {
        let all = allowed().unwrap();
        let started = |free: Free| {
            let thread = std::thread::spawn(move || {
                free.run();
                allowed().unwrap()
            });
            thread.join().unwrap()
        };
        assert_eq!(started(free()), all);
        let outer = pin(all[0]).unwrap();
        let inner = pin(all[0]).unwrap();
        assert_eq!(started(Free(None)), [all[0]], "it inherits the binding");
        assert_eq!(started(free()), all);
        drop(inner);
        assert_eq!(started(free()), all);
        drop(outer);
        assert!(free().0.is_none());
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert_eq!(pin(100_000).unwrap_err(), PinError::Beyond { cpu: 100_000 });
        assert!(matches!(pin(1023), Err(PinError::Bind { cpu: 1023, .. })));
    }
}
