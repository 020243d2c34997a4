//! The layout of the guest's memory, and the ports by which it calls its host.

use pvclock::hyperv::ReferencePage;
use pvclock::kvm_clock::{TimePage, WallClockPage};
use pvclock::shared::{Aligned, Memory};
use pvclock::steal_time::StealPage;

/// vCPUs that image and shared memory have room for.
pub const VCPUS_MAX: usize = 32;

/// The address at which the image is linked.
pub const IMAGE: u64 = 0x10_0000;

/// The limit of the image.
pub const IMAGE_END: u64 = 0x80_0000;

/// The address of [`SharedArea`](crate::protocol::SharedArea).
pub const SHARED: u64 = 0x80_0000;

/// The address of [`GuestPages`].
pub const PAGES: u64 = 0xa0_0000;

/// Memory for the machine's own use: the page tables with which a vCPU starts.
pub const START_TABLES: u64 = 0x1000;

/// The least memory a machine must have, in bytes.
pub const MEMORY_MIN: u64 = 0x100_0000;

/// The value of RSI with which our own machine starts the boot vCPU; elsewhere
/// the image starts at its PVH entry and reports on its serial port.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PARACHRN");

/// The port by which the guest calls its host; the value written is the reason.
pub const DOORBELL: u16 = 0xf00;

/// Written when no request is pending.
pub const DOORBELL_IDLE: u8 = 1;

/// Written by a vCPU that cannot continue; its exception is in
/// [`SharedArea`](crate::protocol::SharedArea).
pub const DOORBELL_DIED: u8 = 2;

/// Written by a vCPU that has nothing to do until it is kicked.
pub const DOORBELL_HALT: u8 = 3;

/// KVM's hypercalls, as ports: the one of number N is at this plus N, and what is
/// written is the vCPU that it names. KVM answers VMCALL by itself and passes none of
/// these on (KVM_CAP_EXIT_HYPERCALL knows KVM_HC_MAP_GPA_RANGE alone), and refuses it
/// at CPL 3, where this guest runs.
pub const HYPERCALLS: u16 = 0xf10;

/// The port of KVM_HC_VAPIC_POLL_IRQ.
pub const VAPIC_POLL_IRQ: u16 = HYPERCALLS + 1;

/// The port of KVM_HC_KICK_CPU.
pub const KICK_CPU: u16 = HYPERCALLS + 5;

/// The port of KVM_HC_SCHED_YIELD.
pub const SCHED_YIELD: u16 = HYPERCALLS + 11;

/// The first serial port.
pub const SERIAL: u16 = 0x3f8;

/// The registers of the network device: `guest::network`.
pub const NETWORK_REGISTERS: u64 = 0xd000_0000;

/// The memory that the device reaches, and no other:
/// [`Area`](crate::network::rings::Area). It is there where the device is.
pub const NETWORK_MEMORY: u64 = 0x4000_0000;

/// The vector of the device's interrupt, a message to vCPU 0.
pub const NETWORK_VECTOR: u8 = 0x21;

/// The clock pages of one vCPU, each on cache lines of its own.
#[derive(Debug)]
#[repr(C, align(256))]
pub struct VcpuPages<M: Memory = Aligned> {
    /// kvm-clock's.
    pub time: TimePage<M>,
    unused: [M::U64; 4],
    /// Steal time.
    pub steal: StealPage<M>,
}

/// All clock pages the guest registers.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct GuestPages<M: Memory = Aligned> {
    /// By vCPU.
    pub vcpus: [VcpuPages<M>; VCPUS_MAX],
    /// Hyper-V's reference TSC page: an overlay, so on a page of its own.
    pub reference: ReferencePage<M>,
    rest_of_page: [M::U64; 509],
    /// kvm-clock's wall clock.
    pub wall_clock: WallClockPage<M>,
}

impl GuestPages {
    /// The guest address of a vCPU's time page.
    pub const fn time_address(vcpu: usize) -> u64 {
        Self::vcpu_address(vcpu) + core::mem::offset_of!(VcpuPages, time) as u64
    }

    /// The guest address of a vCPU's steal time page.
    pub const fn steal_address(vcpu: usize) -> u64 {
        Self::vcpu_address(vcpu) + core::mem::offset_of!(VcpuPages, steal) as u64
    }

    /// The guest address of the reference TSC page.
    pub const fn reference_address() -> u64 {
        PAGES + core::mem::offset_of!(Self, reference) as u64
    }

    /// The guest address of the wall clock.
    pub const fn wall_clock_address() -> u64 {
        PAGES + core::mem::offset_of!(Self, wall_clock) as u64
    }

    const fn vcpu_address(vcpu: usize) -> u64 {
        PAGES + core::mem::offset_of!(Self, vcpus) as u64 + (vcpu * size_of::<VcpuPages>()) as u64
    }
}

const _: () = {
    assert!(GuestPages::reference_address().is_multiple_of(4096));
    assert!(GuestPages::steal_address(1).is_multiple_of(64));
    assert!(PAGES + size_of::<GuestPages>() as u64 <= MEMORY_MIN);
};
