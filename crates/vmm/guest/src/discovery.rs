//! What a vCPU finds at its start: the hypervisor, its pages and timers.

use pvclock::Hertz;
use pvclock::kvm_clock::{Flags, TimeReader};

use crate::hardware::Hardware;
use crate::layout::GuestPages;
use crate::protocol::Words;
use crate::source::Source;
use crate::tsc_rate::MeasuredRate;
use crate::{hpet, pm_timer, rtc};

numbered! {
    /// The hypervisor, by its signature in CPUID.
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
}

numbered! {
    /// Where the TSC's frequency comes from.
    pub enum FrequencyOrigin {
        /// Not advertised; measured against the ACPI PM timer or HPET.
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
}

/// The clocks and timers found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discovery {
    /// The hypervisor.
    pub hypervisor: DiscoveredHypervisor,
    /// A bit for each clock, by its number: its page is registered, or it counts.
    clocks: u64,
    /// Steal time is registered.
    pub steal_time: bool,
    /// kvm-clock's page had TSC_STABLE.
    pub stable: bool,
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
        let (hypervisor, from) = (self.hypervisor.number(), self.frequency_from.number());
        let flags = u64::from(self.steal_time) | u64::from(self.stable) << 1;
        [hypervisor, self.clocks << 2 | flags, self.tsc.0, from, self.tsc_bound.0, 0]
    }

    /// From a reply's words.
    pub fn decode(words: &Words) -> Option<Self> {
        let [hypervisor, flags, tsc, frequency_from, tsc_bound, _] = *words;
        Some(Self {
            hypervisor: DiscoveredHypervisor::from_number(hypervisor)?,
            clocks: flags >> 2,
            steal_time: flags & 1 != 0,
            stable: flags & 2 != 0,
            tsc: Hertz(tsc),
            tsc_bound: Hertz(tsc_bound),
            frequency_from: FrequencyOrigin::from_number(frequency_from)?,
        })
    }

    /// Whether a clock was found; of the TSC, its frequency.
    pub const fn has(&self, clock: Source) -> bool {
        self.clocks >> clock.number() & 1 == 1
    }

    fn set(&mut self, clock: Source, found: bool) {
        self.clocks |= u64::from(found) << clock.number();
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
            clocks: 0,
            steal_time: false,
            stable: false,
            tsc: Hertz(0),
            tsc_bound: Hertz(0),
            frequency_from: FrequencyOrigin::Unknown,
        };
        for (clock, is_there) in [
            (Source::AcpiPm, pm_timer::is_there(hardware)),
            (Source::Hpet, hpet::start(hardware, vcpu == 0).is_some()),
            (Source::Rtc, rtc::is_there(hardware)),
        ] {
            found.set(clock, is_there);
        }
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
        found.set(Source::Tsc, found.tsc.0 > 0);
        found
    }

    fn register_kvm(&mut self, hardware: &impl Hardware, base: u32, vcpu: usize) {
        let features = hardware.cpuid(base + 1, 0)[0];
        // The newer MSRs (bit 3) where there are both.
        let Some(set) = [3u32, 0].iter().position(|bit| features >> bit & 1 == 1) else { return };
        let new = 1 - set;
        let page = GuestPages::time_address(vcpu) | 1;
        self.set(Source::KvmClock, hardware.write_msr(SYSTEM_TIME[new], page).is_ok());
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
        let counter = privileges >> 1 & 1 == 1 && hardware.read_msr(HV_COUNTER).is_ok();
        self.set(Source::HyperVCounter, counter);
        let page = privileges >> 9 & 1 == 1
            && hardware.write_msr(HV_PAGE, GuestPages::reference_address() | 1).is_ok();
        self.set(Source::HyperVPage, page);
    }

    fn learn_frequency(&mut self, hardware: &impl Hardware, vcpu: usize, highest: u32) {
        let advertised = if self.has(Source::KvmClock) {
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
        if self.has(Source::AcpiPm) {
            return pm_timer::measure_tsc(hardware);
        }
        if self.has(Source::Hpet) { hpet::measure_tsc(hardware) } else { None }
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
