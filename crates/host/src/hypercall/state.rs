//! The state machine.

use alloc::collections::BTreeMap;

use super::{
    CLOCK_PAIRING, Delivery, EINVAL, ENOSYS, EOPNOTSUPP, EPERM, Features, Halt, HypercallAction,
    HypercallRegisters, HypercallResult, KICK_CPU, POLL_CONTROL, SCHED_YIELD, SEND_IPI, Targets,
    VAPIC_POLL_IRQ,
};
use crate::{ClockAddress, MsrError, VcpuId};

/// ICR: the vector, the delivery mode, logical destinations, a shorthand of them.
const ICR_VECTOR: u64 = 0xff;
const ICR_MODE: u64 = 0x700;
const ICR_NMI: u64 = 0x400;
const ICR_LOGICAL: u64 = 0x800;
const ICR_SHORTHAND: u64 = 0xc_0000;
/// Vectors below are the CPU's own.
const FIRST_VECTOR: u8 = 16;

/// KVM_CLOCK_PAIRING_WALLCLOCK.
const WALL_CLOCK: u64 = 0;

/// Calls that no guest in its right mind makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Absurd {
    /// Of a number that is not known or not offered.
    pub unknown: u64,
    /// By a program of the guest, not by its kernel.
    pub unprivileged: u64,
    /// For vCPUs that are not there.
    pub absent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Running,
    Kicked,
    Halted,
}

#[derive(Debug, Clone, Copy)]
struct HypercallVcpu {
    waits: Waits,
    may_poll: bool,
}

/// The hypercalls of one virtual machine. A vCPU's APIC id is its index.
///
/// ```
/// use pvclock_host::VcpuId;
/// use pvclock_host::hypercall::{HypercallAction, Features, Halt, Hypercalls, KICK_CPU, HypercallRegisters};
///
/// let mut calls = Hypercalls::new(Features::ALL, true);
/// let [first, second] = [VcpuId(0), VcpuId(1)];
/// calls.add(first);
/// calls.add(second);
/// let kick = HypercallRegisters {
///     number: KICK_CPU,
///     arguments: [0, 1, 0, 0],
///     is_64_bit: true,
///     privilege: 0,
/// };
/// // The kick comes first, and the halt is over at once.
/// assert_eq!(calls.call(first, &kick).action, HypercallAction::None);
/// assert_eq!(calls.halt(second), Halt::GoOn);
/// // The halt comes first.
/// assert_eq!(calls.halt(second), Halt::Sleep { may_poll: true });
/// assert_eq!(calls.call(first, &kick).action, HypercallAction::Wake(second));
/// ```
#[derive(Debug, Clone)]
pub struct Hypercalls {
    offered: Features,
    /// Whether the host's clock is TSC-based, so that a moment has both.
    pairs: bool,
    vcpus: BTreeMap<VcpuId, HypercallVcpu>,
    absurd: Absurd,
}

impl Hypercalls {
    /// No vCPU yet. Without `pairs` the host's clock is not TSC-based, and
    /// KVM_HC_CLOCK_PAIRING is refused.
    pub const fn new(offered: Features, pairs: bool) -> Self {
        let absurd = Absurd { unknown: 0, unprivileged: 0, absent: 0 };
        Self { offered, pairs, vcpus: BTreeMap::new(), absurd }
    }

    /// A vCPU was created, or reset.
    pub fn add(&mut self, vcpu: VcpuId) {
        self.vcpus.insert(vcpu, HypercallVcpu { waits: Waits::Running, may_poll: true });
    }

    /// A vCPU is restored: its first halt is over at once, as a kick may have come
    /// before it was saved. Guests expect such: HLT may return for no reason.
    pub fn restored(&mut self, vcpu: VcpuId) {
        self.vcpus.insert(vcpu, HypercallVcpu { waits: Waits::Kicked, may_poll: true });
    }

    /// What calls were absurd so far.
    pub const fn absurd(&self) -> Absurd {
        self.absurd
    }

    /// A vCPU calls.
    pub fn call(&mut self, vcpu: VcpuId, registers: &HypercallRegisters) -> HypercallResult {
        let keep = if registers.is_64_bit { u64::MAX } else { u64::from(u32::MAX) };
        let [a0, a1, a2, a3] = registers.arguments.map(|argument| argument & keep);
        if registers.privilege != 0 {
            self.absurd.unprivileged += 1;
            return HypercallResult::new(-EPERM, HypercallAction::None);
        }
        match registers.number & keep {
            VAPIC_POLL_IRQ => HypercallResult::new(0, HypercallAction::None),
            KICK_CPU if self.offered.has(Features::PV_UNHALT) => {
                HypercallResult::new(0, self.kick(a1))
            }
            CLOCK_PAIRING if a1 != WALL_CLOCK || !self.pairs => {
                HypercallResult::new(-EOPNOTSUPP, HypercallAction::None)
            }
            CLOCK_PAIRING => HypercallResult::new(0, HypercallAction::Pair(ClockAddress(a0))),
            SEND_IPI if self.offered.has(Features::PV_SEND_IPI) => {
                let width = if registers.is_64_bit { 64 } else { 32 };
                self.send(u128::from(a0) | u128::from(a1) << width, a2, a3)
            }
            SCHED_YIELD if self.offered.has(Features::PV_SCHED_YIELD) => {
                let target = self.present(a0).filter(|target| *target != vcpu);
                HypercallResult::new(
                    0,
                    target.map_or(HypercallAction::None, HypercallAction::YieldTo),
                )
            }
            _ => {
                self.absurd.unknown += 1;
                HypercallResult::new(-ENOSYS, HypercallAction::None)
            }
        }
    }

    /// A vCPU halts.
    pub fn halt(&mut self, vcpu: VcpuId) -> Halt {
        let Some(state) = self.vcpus.get_mut(&vcpu) else { return Halt::GoOn };
        if state.waits == Waits::Kicked {
            state.waits = Waits::Running;
            return Halt::GoOn;
        }
        state.waits = Waits::Halted;
        Halt::Sleep { may_poll: state.may_poll }
    }

    /// A vCPU gets an interrupt; whether it is to be woken for it.
    pub fn interrupted(&mut self, vcpu: VcpuId) -> bool {
        let Some(state) = self.vcpus.get_mut(&vcpu) else { return false };
        let was_halted = state.waits == Waits::Halted;
        if was_halted {
            state.waits = Waits::Running;
        }
        was_halted
    }

    /// RDMSR of [`POLL_CONTROL`].
    ///
    /// # Errors
    /// #GP for the guest: it is not offered, or there is no such vCPU.
    pub fn read_poll_control(&self, vcpu: VcpuId) -> Result<u64, MsrError> {
        self.polls(vcpu).map(|state| state.may_poll.into())
    }

    /// WRMSR of [`POLL_CONTROL`].
    ///
    /// # Errors
    /// The same, or bits other than 0 were set.
    pub fn write_poll_control(&mut self, vcpu: VcpuId, value: u64) -> Result<(), MsrError> {
        let state = self.polls(vcpu)?;
        if value & !1 != 0 {
            return Err(MsrError::Reserved { msr: POLL_CONTROL, value, reserved: !1 });
        }
        self.vcpus.insert(vcpu, HypercallVcpu { may_poll: value == 1, ..state });
        Ok(())
    }

    fn polls(&self, vcpu: VcpuId) -> Result<HypercallVcpu, MsrError> {
        let msr = POLL_CONTROL;
        if !self.offered.has(Features::POLL_CONTROL) {
            return Err(MsrError::NotOurs { msr, kind: crate::ClockProvider::Kvm });
        }
        self.vcpus.get(&vcpu).copied().ok_or(MsrError::NoSuchVcpu { msr, vcpu })
    }

    /// The vCPU of an APIC id. What is not there is counted.
    fn present(&mut self, apic: u64) -> Option<VcpuId> {
        let vcpu = u32::try_from(apic).ok().map(VcpuId);
        let present = vcpu.filter(|vcpu| self.vcpus.contains_key(vcpu));
        self.absurd.absent += u64::from(present.is_none());
        present
    }

    fn kick(&mut self, apic: u64) -> HypercallAction {
        let Some(vcpu) = self.present(apic) else { return HypercallAction::None };
        if self.interrupted(vcpu) {
            return HypercallAction::Wake(vcpu);
        }
        if let Some(state) = self.vcpus.get_mut(&vcpu) {
            state.waits = Waits::Kicked;
        }
        HypercallAction::None
    }

    /// KVM returns how many took it (`kvm_pv_send_ipi`, arch/x86/kvm/lapic.c). Modes
    /// other than fixed and NMI are refused, which KVM passes on: they start and stop
    /// vCPUs.
    fn send(&mut self, bits: u128, first: u64, icr: u64) -> HypercallResult {
        let vector = (icr & ICR_VECTOR) as u8;
        let delivery = match icr & ICR_MODE {
            0 if vector >= FIRST_VECTOR => Delivery::Fixed(vector),
            ICR_NMI => Delivery::Nmi,
            _ => return HypercallResult::new(-EINVAL, HypercallAction::None),
        };
        if icr & (ICR_LOGICAL | ICR_SHORTHAND) != 0 {
            return HypercallResult::new(-EINVAL, HypercallAction::None);
        }
        // KVM takes the lower 32 bits too. No vCPU has a number near their end.
        let first = first as u32;
        let mut present = 0;
        for bit in 0..128 {
            let there =
                first.checked_add(bit).is_some_and(|id| self.vcpus.contains_key(&VcpuId(id)));
            present |= u128::from(there) << bit;
        }
        self.absurd.absent += u64::from((bits & !present).count_ones());
        let bits = bits & present;
        if bits == 0 {
            return HypercallResult::new(0, HypercallAction::None);
        }
        let action = HypercallAction::Interrupt(Targets { first, bits }, delivery);
        HypercallResult::new(bits.count_ones().into(), action)
    }
}
