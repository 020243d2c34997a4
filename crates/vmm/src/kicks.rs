//! vCPUs that sleep until another kicks them: the guest's hypercalls, which come by
//! ports here ([`HYPERCALLS`]), and the threads that they wake.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use guest::layout::HYPERCALLS;
use host::VcpuId;
use host::hypercall::{Features, Halt, HypercallAction, HypercallRegisters, Hypercalls, KICK_CPU};

/// Wakes a vCPU's thread.
type Waker = Box<dyn Fn() + Send + Sync>;

/// One for a machine.
pub(crate) struct Kicks {
    calls: Mutex<Hypercalls>,
    /// By vCPU.
    wakers: RwLock<Vec<Waker>>,
}

impl fmt::Debug for Kicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.fmt(f)
    }
}

impl Default for Kicks {
    fn default() -> Self {
        let offered = Features::PV_UNHALT | Features::PV_SCHED_YIELD;
        let calls = Mutex::new(Hypercalls::new(offered, false));
        Self { calls, wakers: RwLock::default() }
    }
}

impl Kicks {
    /// A thread that panicked leaves valid state: each call is one step.
    fn calls(&self) -> MutexGuard<'_, Hypercalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the next vCPU, new or restored.
    pub(crate) fn add(&self, vcpu: VcpuId, waker: Waker) {
        self.calls().restored(vcpu);
        self.wakers.write().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// The hypercall of a port.
    pub(crate) fn number(port: u16) -> Option<u64> {
        port.checked_sub(HYPERCALLS).filter(|number| *number < 16).map(u64::from)
    }

    /// A vCPU calls, and names another. User space has no directed yield: the thread
    /// gives its CPU to whoever the kernel chooses.
    pub(crate) fn call(&self, vcpu: VcpuId, number: u64, named: u8) {
        let named = u64::from(named);
        let arguments = if number == KICK_CPU { [0, named, 0, 0] } else { [named, 0, 0, 0] };
        let registers = HypercallRegisters { number, arguments, is_64_bit: true, privilege: 0 };
        let action = self.calls().call(vcpu, &registers).action;
        match action {
            HypercallAction::Wake(vcpu) => {
                let wakers = self.wakers.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(wake) = wakers.get(vcpu.0 as usize) {
                    wake();
                }
            }
            HypercallAction::YieldTo(_) => std::thread::yield_now(),
            _ => {}
        }
    }

    /// A vCPU halts until it is kicked; whether it sleeps.
    pub(crate) fn halt(&self, vcpu: VcpuId) -> bool {
        self.calls().halt(vcpu) != Halt::GoOn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn only_a_vcpu_that_sleeps_is_woken_and_once() {
        let kicks = Kicks::default();
        let woken = Arc::new(AtomicU32::new(0));
        for vcpu in 0..2 {
            let woken = Arc::clone(&woken);
            kicks.add(VcpuId(vcpu), Box::new(move || _ = woken.fetch_add(1, Ordering::Relaxed)));
        }
        assert!(!kicks.halt(VcpuId(1)), "its first halt is over at once");
        assert!(kicks.halt(VcpuId(1)));
        let number = Kicks::number(guest::layout::KICK_CPU).unwrap();
        for (named, expected) in [(0, 0), (2, 0), (255, 0), (1, 1), (1, 1)] {
            kicks.call(VcpuId(0), number, named);
            assert_eq!(woken.load(Ordering::Relaxed), expected, "{named}");
        }
        assert!(!kicks.halt(VcpuId(1)), "kicked again while it was awake");
    }

    #[test]
    fn other_ports_are_no_hypercalls() {
        assert_eq!(Kicks::number(guest::layout::DOORBELL), None);
        assert_eq!(Kicks::number(HYPERCALLS), Some(0));
        assert_eq!(Kicks::number(HYPERCALLS + 16), None);
    }
}
