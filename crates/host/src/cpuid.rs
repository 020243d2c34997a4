//! The CPUID leaves of each provider.
//!
//! They are those of the hypervisor's range. The VMM itself sets leaf 1, ECX
//! bit 31 (a hypervisor is present): see [`ClockProvider::has_cpuid`](crate::ClockProvider::has_cpuid).

use pvclock::Hertz;

use crate::{ClockProvider, ClockSettings};

/// The registers of a leaf.
///
/// ```
/// use pvclock_host::{GuestClock, ClockProvider, Leaf, HostClocks, ClockSettings};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
/// let host = GuestClock::new(ClockSettings::new(ClockProvider::Minimal, Hertz(2_445_428_000)), now)?;
/// // TSC and APIC in kHz.
/// let frequencies = Leaf { eax: 2_445_428, ebx: 1_000_000, ecx: 0, edx: 0 };
/// assert_eq!(host.cpuid(0x4000_0010, 0), Some(frequencies));
/// # Ok::<(), pvclock_host::SettingsError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

const SIGNATURE: u32 = 0x4000_0000;
const INTERFACE: u32 = 0x4000_0001;
const HV_VERSION: u32 = 0x4000_0002;
const HV_FEATURES: u32 = 0x4000_0003;
const HV_RECOMMENDATIONS: u32 = 0x4000_0004;
const HV_LIMITS: u32 = 0x4000_0005;
/// TSC and APIC frequency in kHz: VMware's leaf, which some KVM hosts and
/// VirtualBox's minimal provider have.
const FREQUENCIES: u32 = 0x4000_0010;

/// CLOCKSOURCE, CLOCKSOURCE2, STEAL_TIME, CLOCKSOURCE_STABLE.
const KVM_FEATURES: u32 = 1 | 1 << 3 | 1 << 5 | 1 << 24;
/// Reference counter, VP index, reference TSC page, frequency MSRs,
/// re-enlightenment.
const HV_PRIVILEGES: u32 = 1 << 1 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13;
/// The guest may have the host promise an invariant TSC.
const HV_TSC_INVARIANT: u32 = 1 << 15;
/// The frequency MSRs exist.
const HV_FREQUENCY_MSRS: u32 = 1 << 8;

/// The leaves of a provider.
pub(crate) const fn functions(kind: ClockProvider) -> &'static [u32] {
    match kind {
        ClockProvider::None | ClockProvider::Legacy => &[],
        ClockProvider::Minimal | ClockProvider::Kvm => &[SIGNATURE, INTERFACE, FREQUENCIES],
        ClockProvider::HyperV => {
            &[SIGNATURE, INTERFACE, HV_VERSION, HV_FEATURES, HV_RECOMMENDATIONS, HV_LIMITS]
        }
    }
}

/// One of them.
pub(crate) fn leaf(settings: &ClockSettings, function: u32) -> Option<Leaf> {
    if !functions(settings.kind).contains(&function) {
        return None;
    }
    let leaf = match (settings.kind, function) {
        // A signature identifies an interface: this one is VirtualBox's.
        (ClockProvider::Minimal, SIGNATURE) => signature(FREQUENCIES, b"VBoxVBoxVBox"),
        (ClockProvider::Kvm, SIGNATURE) => signature(FREQUENCIES, b"KVMKVMKVM\0\0\0"),
        (ClockProvider::HyperV, SIGNATURE) => signature(HV_LIMITS, b"Microsoft Hv"),
        (ClockProvider::Kvm, INTERFACE) => Leaf { eax: KVM_FEATURES, ..Leaf::default() },
        (ClockProvider::HyperV, INTERFACE) => Leaf { eax: word(b"Hv#1"), ..Leaf::default() },
        (ClockProvider::HyperV, HV_FEATURES) => {
            let invariant = if settings.tsc_invariant { HV_TSC_INVARIANT } else { 0 };
            Leaf { eax: HV_PRIVILEGES | invariant, edx: HV_FREQUENCY_MSRS, ..Leaf::default() }
        }
        (_, FREQUENCIES) => {
            Leaf { eax: khz(settings.advertised_tsc), ebx: khz(settings.apic), ..Leaf::default() }
        }
        // Version, recommendations and limits are 0.
        _ => Leaf::default(),
    };
    Some(leaf)
}

fn signature(highest: u32, name: &[u8; 12]) -> Leaf {
    let ([ebx, ecx, edx], _) = name.as_chunks::<4>() else { return Leaf::default() };
    Leaf { eax: highest, ebx: word(ebx), ecx: word(ecx), edx: word(edx) }
}

const fn word(bytes: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*bytes)
}

/// Both frequencies were checked to fit (`ClockSettings::scale`).
const fn khz(frequency: Hertz) -> u32 {
    (frequency.0 / 1_000) as u32
}
