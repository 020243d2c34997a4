//! The bits in CPUID by which a guest learns of its host's hypercalls.

use crate::Leaf;

/// KVM_HINTS_REALTIME, in EDX of leaf 0x4000_0001: vCPUs are never preempted for an
/// unlimited time, so a guest does better to spin than to halt
/// (Documentation/virt/kvm/x86/cpuid.rst). Linux then uses its native locks.
pub const HINTS_REALTIME: u32 = 1;

/// Which hypercalls a host offers, as bits of EAX in leaf 0x4000_0001.
///
/// ```
/// use pvclock_host::Leaf;
/// use pvclock_host::hypercall::Features;
///
/// let kicks = Features::PV_UNHALT | Features::PV_SCHED_YIELD;
/// let leaf = kicks.offered_in(Leaf { eax: 1, ..Leaf::default() });
/// assert_eq!(leaf.eax, 1 | 1 << 7 | 1 << 13);
/// assert_eq!(Features::from_leaf(leaf), kicks);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// KVM_FEATURE_PV_UNHALT: KVM_HC_KICK_CPU.
    pub const PV_UNHALT: Self = Self(1 << 7);
    /// KVM_FEATURE_PV_SEND_IPI.
    pub const PV_SEND_IPI: Self = Self(1 << 11);
    /// KVM_FEATURE_POLL_CONTROL: [`POLL_CONTROL`](super::POLL_CONTROL).
    pub const POLL_CONTROL: Self = Self(1 << 12);
    /// KVM_FEATURE_PV_SCHED_YIELD.
    pub const PV_SCHED_YIELD: Self = Self(1 << 13);
    /// All of these. KVM_HC_VAPIC_POLL_IRQ and KVM_HC_CLOCK_PAIRING have no bit.
    pub const ALL: Self = Self(1 << 7 | 1 << 11 | 1 << 12 | 1 << 13);

    /// Those that a leaf offers.
    pub const fn from_leaf(leaf: Leaf) -> Self {
        Self(leaf.eax & Self::ALL.0)
    }

    /// Whether all of these are among them.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The leaf with these in it.
    #[must_use]
    pub const fn offered_in(self, leaf: Leaf) -> Leaf {
        Leaf { eax: leaf.eax | self.0, ..leaf }
    }
}

impl core::ops::BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
