//! What a vCPU finds at its start: the hypervisor, its pages and timers.

use pvclock::Hertz;
use pvclock::kvm_clock::{Flags, TimeReader};

use crate::hardware::Hardware;
use crate::layout::GuestPages;
use crate::protocol::Words;
use crate::tsc_rate::MeasuredRate;
use crate::{hpet, pit, pm_timer, rtc};

/// The hypervisor, by its signature in CPUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveredHypervisor {
    /// None, or a hidden one.
    None,
    /// "KVMKVMKVM".
    Kvm,
    /// "Microsoft Hv".
    HyperV,
    /// Another.
    Other,
}

/// Where the TSC's frequency comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrequencyOrigin {
    /// Not advertised; measured against the ACPI PM timer, HPET or PIT.
    Measured,
    /// CPUID leaf 0x4000_0010.
    TimingLeaf,
    /// Hyper-V's frequency MSR.
    HyperVMsr,
    /// The scale in kvm-clock's page.
    KvmClockPage,
    /// Not advertised, and there was no timer to measure it against.
    Unknown,
}

const HYPERVISORS: [DiscoveredHypervisor; 4] = [
    DiscoveredHypervisor::None,
    DiscoveredHypervisor::Kvm,
    DiscoveredHypervisor::HyperV,
    DiscoveredHypervisor::Other,
];
const TELLERS: [FrequencyOrigin; 5] = [
    FrequencyOrigin::Measured,
    FrequencyOrigin::TimingLeaf,
    FrequencyOrigin::HyperVMsr,
    FrequencyOrigin::KvmClockPage,
    FrequencyOrigin::Unknown,
];

/// The clocks and timers found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discovery {
    /// The hypervisor.
    pub hypervisor: DiscoveredHypervisor,
    /// kvm-clock's page is registered.
    pub kvm_clock: bool,
    /// Hyper-V's page is registered.
    pub hyperv_page: bool,
    /// Hyper-V's counter is readable.
    pub hyperv_counter: bool,
    /// Steal time is registered.
    pub steal_time: bool,
    /// kvm-clock's page had TSC_STABLE.
    pub stable: bool,
    /// The ACPI PM timer counts.
    pub pm_timer: bool,
    /// The HPET counts.
    pub hpet: bool,
    /// The PIT counts.
    pub pit: bool,
    /// There is an RTC.
    pub rtc: bool,
    /// The TSC's frequency.
    pub tsc: Hertz,
    /// How far a measured frequency may be from the true one; 0 of one that is
    /// advertised.
    pub tsc_bound: Hertz,
    /// Where that comes from.
    pub frequency_from: FrequencyOrigin,
}

impl Discovery {
    /// As a reply's words.
    pub fn encode(&self) -> Words {
        let flags = [
            self.kvm_clock,
            self.hyperv_page,
            self.hyperv_counter,
            self.steal_time,
            self.stable,
            self.pm_timer,
            self.hpet,
            self.pit,
            self.rtc,
        ];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        [self.hypervisor as u64, flags, self.tsc.0, self.frequency_from as u64, self.tsc_bound.0, 0]
    }

    /// From a reply's words.
    pub fn decode(words: &Words) -> Option<Self> {
        let [hypervisor, flags, tsc, frequency_from, tsc_bound, _] = *words;
        let flag = |bit: u32| flags >> bit & 1 == 1;
        Some(Self {
            hypervisor: *HYPERVISORS.get(usize::try_from(hypervisor).ok()?)?,
            kvm_clock: flag(0),
            hyperv_page: flag(1),
            hyperv_counter: flag(2),
            steal_time: flag(3),
            stable: flag(4),
            pm_timer: flag(5),
            hpet: flag(6),
            pit: flag(7),
            rtc: flag(8),
            tsc: Hertz(tsc),
            tsc_bound: Hertz(tsc_bound),
            frequency_from: *TELLERS.get(usize::try_from(frequency_from).ok()?)?,
        })
    }
}

/// CPUID leaves and MSRs; spec in docs/protocols.
const HYPERVISOR_BASE: u32 = 0x4000_0000;
const TIMING_LEAF: u32 = 0x4000_0010;
const SYSTEM_TIME: [u32; 2] = [0x12, 0x4b56_4d01];
const WALL_CLOCK: [u32; 2] = [0x11, 0x4b56_4d00];
const STEAL_TIME: u32 = 0x4b56_4d03;
const HV_OS_ID: u32 = 0x4000_0000;
/// Hyper-V's reference counter.
pub const HV_COUNTER: u32 = 0x4000_0020;
const HV_PAGE: u32 = 0x4000_0021;
const HV_TSC_FREQUENCY: u32 = 0x4000_0022;
/// "A guest OS other than those listed": TLFS, HV_X64_MSR_GUEST_OS_ID, bit 63.
const OPEN_SOURCE_OS: u64 = 1 << 63 | 0xff << 48;

impl Discovery {
    /// Finds all clocks and registers this vCPU's pages. Only vCPU 0 programs
    /// the timers: there is one of each.
    pub fn probe(hardware: &impl Hardware, vcpu: usize) -> Self {
        let mut found = Self {
            hypervisor: DiscoveredHypervisor::None,
            kvm_clock: false,
            hyperv_page: false,
            hyperv_counter: false,
            steal_time: false,
            stable: false,
            pm_timer: pm_timer::is_there(hardware),
            hpet: hpet::start(hardware, vcpu == 0).is_some(),
            pit: if vcpu == 0 { pit::start(hardware) } else { pit::is_there(hardware) },
            rtc: rtc::is_there(hardware),
            tsc: Hertz(0),
            tsc_bound: Hertz(0),
            frequency_from: FrequencyOrigin::Unknown,
        };
        let mut highest = 0;
        if hardware.cpuid(1, 0)[2] >> 31 == 1 {
            let base;
            (found.hypervisor, base, highest) = signature(hardware);
            match found.hypervisor {
                DiscoveredHypervisor::Kvm => found.register_kvm(hardware, base, vcpu),
                DiscoveredHypervisor::HyperV => found.register_hyperv(hardware, base),
                DiscoveredHypervisor::None | DiscoveredHypervisor::Other => {}
            }
        }
        found.learn_frequency(hardware, vcpu, highest);
        found
    }

    fn register_kvm(&mut self, hardware: &impl Hardware, base: u32, vcpu: usize) {
        let features = hardware.cpuid(base + 1, 0)[0];
        // The newer MSRs (bit 3) where there are both.
        let Some(set) = [3u32, 0].iter().position(|bit| features >> bit & 1 == 1) else { return };
        let new = 1 - set;
        let page = GuestPages::time_address(vcpu) | 1;
        self.kvm_clock = hardware.write_msr(SYSTEM_TIME[new], page).is_ok();
        if vcpu == 0 {
            // If it is refused, it cannot be read.
            let _ = hardware.write_msr(WALL_CLOCK[new], GuestPages::wall_clock_address());
        }
        if features >> 5 & 1 == 1 {
            let page = GuestPages::steal_address(vcpu) | 1;
            self.steal_time = hardware.write_msr(STEAL_TIME, page).is_ok();
        }
    }

    fn register_hyperv(&mut self, hardware: &impl Hardware, base: u32) {
        let privileges = hardware.cpuid(base + 3, 0)[0];
        if hardware.write_msr(HV_OS_ID, OPEN_SOURCE_OS).is_err() {
            return;
        }
        self.hyperv_counter = privileges >> 1 & 1 == 1 && hardware.read_msr(HV_COUNTER).is_ok();
        self.hyperv_page = privileges >> 9 & 1 == 1
            && hardware.write_msr(HV_PAGE, GuestPages::reference_address() | 1).is_ok();
    }

    fn learn_frequency(&mut self, hardware: &impl Hardware, vcpu: usize, highest: u32) {
        let advertised = if self.kvm_clock {
            let reader = TimeReader::new(&hardware.pages().vcpus[vcpu].time);
            reader.info().ok().and_then(|info| {
                self.stable = info.flags.contains(Flags::TSC_STABLE);
                Some((info.scale.to_hertz()?, FrequencyOrigin::KvmClockPage))
            })
        } else if self.hypervisor == DiscoveredHypervisor::HyperV {
            let frequency = hardware.read_msr(HV_TSC_FREQUENCY).ok();
            frequency.map(|frequency| (Hertz(frequency), FrequencyOrigin::HyperVMsr))
        } else {
            None
        };
        let advertised = advertised.or_else(|| {
            let [khz, ..] = (highest >= TIMING_LEAF).then(|| hardware.cpuid(TIMING_LEAF, 0))?;
            (khz > 0).then_some((Hertz(u64::from(khz) * 1000), FrequencyOrigin::TimingLeaf))
        });
        if let Some((rate, from)) = advertised {
            (self.tsc, self.frequency_from) = (rate, from);
        } else if let Some(MeasuredRate { rate, bound }) = self.measure(hardware) {
            (self.tsc, self.tsc_bound) = (rate, bound);
            self.frequency_from = FrequencyOrigin::Measured;
        }
    }

    /// The TSC's rate against the best available timer.
    fn measure(&self, hardware: &impl Hardware) -> Option<MeasuredRate> {
        if self.pm_timer {
            return pm_timer::measure_tsc(hardware);
        }
        if self.hpet { hpet::measure_tsc(hardware) } else { None }
    }
}

/// The hypervisor, its first leaf and its highest leaf.
fn signature(hardware: &impl Hardware) -> (DiscoveredHypervisor, u32, u32) {
    let mut seen = (DiscoveredHypervisor::None, 0, 0);
    for base in (HYPERVISOR_BASE..HYPERVISOR_BASE + 0x1_0000).step_by(0x100) {
        let [highest, b, c, d] = hardware.cpuid(base, 0);
        let mut name = [0; 12];
        for (bytes, register) in name.chunks_mut(4).zip([b, c, d]) {
            bytes.copy_from_slice(&register.to_le_bytes());
        }
        // An old KVM returns 0 and means the features leaf.
        let highest = highest.max(base + 1);
        match &name {
            b"KVMKVMKVM\0\0\0" => return (DiscoveredHypervisor::Kvm, base, highest),
            b"Microsoft Hv" => seen = (DiscoveredHypervisor::HyperV, base, highest),
            _ if base == HYPERVISOR_BASE => seen = (DiscoveredHypervisor::Other, base, highest),
            // Absent leaves repeat others on Intel; of two hypervisors at two
            // bases the first one counts.
            _ => break,
        }
    }
    seen
}
