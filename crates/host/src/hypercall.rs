//! KVM's hypercalls, as a state machine: calls of the guest in, what to do and the
//! guest's RAX out (Linux: Documentation/virt/kvm/x86/hypercalls.rst; numbers, bits
//! and errors: include/uapi/linux/kvm_para.h and arch/x86/include/uapi/asm/kvm_para.h).
//!
//! It is for a host that sees these calls: KVM itself answers them in the kernel, and
//! passes none but KVM_HC_MAP_GPA_RANGE on (KVM_CAP_EXIT_HYPERCALL). A VMM on KVM
//! has other ways for a guest of its own, as the lab has ports.
//!
//! A vCPU that waits for a kick goes through
//!
//! | from | to | by | asks for |
//! | --- | --- | --- | --- |
//! | running | running, kicked | a kick | |
//! | running, kicked | running | [`halt`](Hypercalls::halt) | the vCPU to continue |
//! | running | halted | [`halt`](Hypercalls::halt) | the vCPU to sleep |
//! | halted | running | a kick or an interrupt | a wake-up |
//!
//! so no kick is lost, whichever of the two comes first (KVM: `pv_unhalted`).
//!
//! What a guest can make of it is bounded: a call takes one of the steps above for at
//! most 128 vCPUs, nothing is queued, and no vCPU is woken more often than it halts.
//! Kicks that find a vCPU running are one kick; those of vCPUs that are not there do
//! nothing, and are counted.

mod state;

use crate::{ClockAddress, HostClocks, Leaf, VcpuId};

pub use state::{Absurd, Hypercalls};

/// MSR_KVM_POLL_CONTROL: bit 0 lets the host poll when this vCPU halts.
pub const POLL_CONTROL: u32 = 0x4b56_4d05;

/// KVM_HC_VAPIC_POLL_IRQ.
pub const VAPIC_POLL_IRQ: u64 = 1;
/// KVM_HC_KICK_CPU.
pub const KICK_CPU: u64 = 5;
/// KVM_HC_CLOCK_PAIRING.
pub const CLOCK_PAIRING: u64 = 9;
/// KVM_HC_SEND_IPI.
pub const SEND_IPI: u64 = 10;
/// KVM_HC_SCHED_YIELD.
pub const SCHED_YIELD: u64 = 11;

/// KVM_EPERM.
pub(crate) const EPERM: i64 = 1;
/// KVM_EFAULT: what RAX is, negated, where [`HypercallAction::Pair`] cannot be written.
pub const EFAULT: i64 = 14;
/// KVM_EINVAL.
pub(crate) const EINVAL: i64 = 22;
/// KVM_EOPNOTSUPP.
pub(crate) const EOPNOTSUPP: i64 = 95;
/// KVM_ENOSYS, which is not Linux's.
pub(crate) const ENOSYS: i64 = 1000;

/// A hypercall as the CPU's registers have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HypercallRegisters {
    /// RAX.
    pub number: u64,
    /// RBX, RCX, RDX, RSI.
    pub arguments: [u64; 4],
    /// Whether the vCPU is in 64-bit mode; else only the lower halves count.
    pub is_64_bit: bool,
    /// CPL: only 0 may call.
    pub privilege: u8,
}

/// What the host does for a call, before the vCPU continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HypercallAction {
    /// Nothing but to enter again, at which interrupts are looked for.
    None,
    /// Wake this vCPU, which sleeps since [`Halt::Sleep`].
    Wake(VcpuId),
    /// Raise an interrupt on these vCPUs. One that is halted is woken by
    /// [`Hypercalls::interrupted`].
    Interrupt(Targets, Delivery),
    /// Let this vCPU run in the caller's place, if it waits for a CPU.
    YieldTo(VcpuId),
    /// Write [`pairing`] to this address, and return -[`EFAULT`] where that fails.
    Pair(ClockAddress),
}

/// What an interrupt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Of this vector, 16 to 255.
    Fixed(u8),
    /// One that cannot be masked.
    Nmi,
}

/// Some vCPUs: one each bit, from a first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets {
    first: u32,
    bits: u128,
}

impl Targets {
    /// They, in order.
    pub fn iter(self) -> impl Iterator<Item = VcpuId> {
        (0..128)
            .filter(move |bit| self.bits >> bit & 1 == 1)
            .map(move |bit| VcpuId(self.first + bit))
    }
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HypercallResult {
    /// RAX.
    pub result: i64,
    /// What to do.
    pub action: HypercallAction,
}

impl HypercallResult {
    const fn new(result: i64, action: HypercallAction) -> Self {
        Self { result, action }
    }
}

/// What a vCPU does that halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// It continues: it was kicked before.
    GoOn,
    /// It sleeps until it is woken.
    Sleep {
        /// Whether its host may poll for a while first: the guest does not itself.
        may_poll: bool,
    },
}

/// The bytes of `struct kvm_clock_pairing`: the host's time of day, and the guest's
/// TSC (the host's plus `tsc_offset`) at that moment.
///
/// ```
/// use pvclock_host::{HostClocks, hypercall::pairing};
/// use pvclock::units::UnixTime;
/// use pvclock::{Nanos, Ticks};
///
/// let now = HostClocks::new(Ticks(7), Nanos(0), UnixTime(Nanos(3_000_000_005)));
/// let bytes = pairing(now, 2);
/// assert_eq!((bytes[0], bytes[8], bytes[16]), (3, 5, 9));
/// ```
pub fn pairing(now: HostClocks, tsc_offset: u64) -> [u8; 64] {
    let ns = now.real.0.0;
    let words = [ns / 1_000_000_000, ns % 1_000_000_000, now.tsc.0.wrapping_add(tsc_offset)];
    let mut bytes = [0; 64];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

// The bits in CPUID by which a guest learns of its host's hypercalls.

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
    /// KVM_FEATURE_POLL_CONTROL: [`POLL_CONTROL`].
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
