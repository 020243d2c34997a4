//! True rates and told ones, judged by TSCs of the rig's own: what a guest computes
//! from its page and its hardware's TSC, not from what the state machine believes.

use crate::common::{REAL_AT_BOOT, SECOND, cases, reread};
use proptest::prelude::*;
use pvclock::kvm_clock::TimeReader;
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::msr::KVM_SYSTEM_TIME;
use pvclock_host::pages::TimePage;
use pvclock_host::{
    ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent, PerVcpu,
    PlainMemory, RestorePolicy, VcpuId,
};

const GHZ: u64 = 1_000_000_000;

/// A physical TSC whose rate may change, and two vCPUs' hardware on it.
struct Hardware {
    ns: u64,
    tsc: u64,
    hz: u64,
    /// What the VMM has set: guest kHz by host kHz, and the offset.
    vcpus: [(Option<(u64, u64)>, u64); 2],
}

impl Hardware {
    fn new(hz: u64) -> Self {
        Self { ns: SECOND, tsc: 7 * hz, hz, vcpus: [(None, 0); 2] }
    }

    fn pass(&mut self, ns: u64) {
        self.ns += ns;
        self.tsc += (u128::from(ns) * u128::from(self.hz) / u128::from(SECOND)) as u64;
    }

    fn clocks(&self) -> HostClocks {
        let real = UnixTime(Nanos(REAL_AT_BOOT + self.ns));
        HostClocks::new(Ticks(self.tsc), Nanos(self.ns), real)
    }

    /// RDTSC in a guest, as hardware with 48 bits of fraction computes it.
    fn rdtsc(&self, vcpu: usize) -> u64 {
        let (ratio, offset) = self.vcpus[vcpu];
        let scaled = match ratio {
            None => self.tsc,
            Some((guest, host)) => {
                let ratio = (u128::from(guest) << 48) / u128::from(host);
                ((u128::from(self.tsc) * ratio) >> 48) as u64
            }
        };
        scaled.wrapping_add(offset)
    }
}

struct Vm {
    host: GuestClock,
    memory: PlainMemory,
    hardware: Hardware,
}

impl Vm {
    fn new(settings: ClockSettings) -> Self {
        let hardware = Hardware::new(settings.host_tsc.0);
        let now = hardware.clocks();
        let host = GuestClock::new(settings, now).unwrap();
        let mut vm = Self { host, memory: PlainMemory::new(2), hardware };
        for vcpu in [VcpuId(0), VcpuId(1)] {
            vm.event(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 });
            let page = PlainMemory::time(vcpu.0).0 | 1;
            vm.host.write_msr(vcpu, KVM_SYSTEM_TIME, page, now, &vm.memory).unwrap();
        }
        vm.apply();
        vm
    }

    fn event(&mut self, event: HostEvent) {
        self.host.handle(event, self.hardware.clocks(), &self.memory);
    }

    /// A VMM's part after an event: offsets into the hardware, then entries.
    fn apply(&mut self) {
        for vcpu in 0..2 {
            self.hardware.vcpus[vcpu as usize].1 = self.host.tsc_offset(VcpuId(vcpu)).unwrap();
            self.host.before_entry(VcpuId(vcpu), self.hardware.clocks(), &self.memory);
        }
    }

    /// All vCPUs to another rate: the hardware's, and what the state machine is told.
    fn change_rate(&mut self, hz: u64) {
        for vcpu in [VcpuId(0), VcpuId(1)] {
            self.event(HostEvent::TscRateChanged { vcpu, rate: Hertz(hz) });
        }
        self.event(HostEvent::TscFrequencyAdvertised { frequency: Hertz(hz) });
        self.apply();
    }

    fn reads(&self, vcpu: u32) -> u64 {
        let page: &TimePage = self.memory.page(PlainMemory::time(vcpu)).unwrap();
        let tsc = self.hardware.rdtsc(vcpu as usize);
        TimeReader::new(page).nanos(&|| tsc).unwrap().0
    }

    fn move_to(self, settings: ClockSettings, mut hardware: Hardware) -> Self {
        let Self { mut host, memory, hardware: from } = self;
        let saved = reread(&host.save(from.clocks()));
        let now = hardware.clocks();
        let (host, restored) =
            GuestClock::restore(&saved, settings, RestorePolicy::Advance, now).unwrap();
        let khz = restored.advertised_tsc.0 / 1_000;
        let is_scaled = restored.ratio != pvclock_host::TscRatio::ONE;
        let ratio = is_scaled.then_some((khz, settings.host_tsc.0 / 1_000));
        hardware.vcpus = [(ratio, 0); 2];
        let mut vm = Self { host, memory, hardware };
        vm.apply();
        vm
    }
}

fn kvm(hz: u64) -> ClockSettings {
    ClockSettings::new(ClockProvider::Kvm, Hertz(hz))
}

#[test]
fn a_cpu_without_constant_tsc_that_slows_down_and_a_move_afterwards() {
    let mut vm = Vm::new(kvm(2 * GHZ));
    vm.hardware.pass(10 * SECOND);
    vm.hardware.hz = GHZ;
    vm.change_rate(GHZ);
    vm.hardware.pass(10 * SECOND);
    assert!(vm.reads(0).abs_diff(20 * SECOND) < 20, "{}", vm.reads(0));
    let before = vm.hardware.rdtsc(0);
    let mut there = Hardware::new(GHZ);
    there.ns = vm.hardware.ns + SECOND;
    let mut vm = vm.move_to(kvm(GHZ), there);
    assert_eq!(vm.host.settings().advertised_tsc, Hertz(GHZ));
    assert_eq!(vm.hardware.rdtsc(0), before + GHZ, "1 s away at 1 GHz");
    vm.hardware.pass(10 * SECOND);
    assert!(vm.reads(1).abs_diff(31 * SECOND) < 20, "{}", vm.reads(1));
}

#[test]
fn a_told_rate_changes_no_tsc() {
    let mut vm = Vm::new(kvm(2 * GHZ));
    vm.event(HostEvent::TscFrequencyAdvertised { frequency: Hertz(GHZ) });
    vm.apply();
    vm.hardware.pass(SECOND);
    assert_eq!(vm.host.guest_tsc(VcpuId(0), vm.hardware.clocks()), Some(vm.hardware.rdtsc(0)));
    // Told half its rate, the guest counts two seconds.
    assert!(vm.reads(0).abs_diff(2 * SECOND) < 20, "{}", vm.reads(0));
}

#[test]
fn tscs_of_two_rates_end_the_master_clock_until_they_agree() {
    let scaling = kvm(2 * GHZ).changed(|new| new.tsc_scaling = Some(48));
    let mut vm = Vm::new(scaling);
    vm.hardware.pass(SECOND);
    vm.hardware.vcpus[1].0 = Some((1_000_000, 2_000_000));
    vm.event(HostEvent::TscRateChanged { vcpu: VcpuId(1), rate: Hertz(GHZ) });
    assert_eq!(vm.host.why_per_vcpu(), Some(PerVcpu::TscRates));
    vm.apply();
    assert_eq!(vm.host.guest_tsc(VcpuId(1), vm.hardware.clocks()), Some(vm.hardware.rdtsc(1)));
    let saved = vm.host.save(vm.hardware.clocks());
    let now = vm.hardware.clocks();
    let (restored, plan) =
        GuestClock::restore(&saved, scaling, RestorePolicy::Freeze, now).unwrap();
    assert_eq!(restored.guest_tsc(VcpuId(1), now), Some(vm.hardware.rdtsc(1)));
    assert_eq!(restored.why_per_vcpu(), Some(PerVcpu::TscRates));
    assert_eq!(plan.vcpus[0].tsc_offset, 0);
    vm.hardware.vcpus[0].0 = Some((1_000_000, 2_000_000));
    vm.event(HostEvent::TscRateChanged { vcpu: VcpuId(0), rate: Hertz(GHZ) });
    assert!(vm.host.master_clock(), "{:?}", vm.host.why_per_vcpu());
    // A rate that no page can hold.
    vm.event(HostEvent::TscRateChanged { vcpu: VcpuId(0), rate: Hertz(0) });
    assert!(vm.host.master_clock());
    assert!(vm.host.log().any(|entry| entry.to_string().contains("unchanged")));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Passes(u64),
    Rate(u64),
    Move(u64),
}

fn step(scales: bool) -> impl Strategy<Value = Step> {
    // In kHz, as KVM takes them; when hardware scales the TSC is that of the ratio.
    let rate = (800_000u64..4_000_000).prop_map(|khz| khz * 1_000);
    let moves = rate.clone().prop_map(Step::Move);
    prop_oneof![
        3 => (0u64..20 * SECOND).prop_map(Step::Passes),
        1 => rate.prop_map(Step::Rate),
        if scales { 1 } else { 2 } => moves,
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    /// Told the truth about rates, a guest's clock follows its host's through changes
    /// of rate and moves, whether hardware scales or not.
    #[test]
    fn a_guest_told_the_truth_reads_the_time(
        (scales, steps) in any::<bool>()
            .prop_flat_map(|scales| (Just(scales), prop::collection::vec(step(scales), 1..20))),
    ) {
        let scaling = |hz| kvm(hz).changed(|new| new.tsc_scaling = scales.then_some(48));
        let mut vm = Vm::new(scaling(2_600_000_000));
        let (mut expected, mut told) = (0, 0u64);
        for step in steps {
            match step {
                Step::Passes(ns) => {
                    vm.hardware.pass(ns);
                    expected += ns;
                    // Rounding: of the page's scale, and of the hardware's ratio.
                    told += ns / 1_000_000_000 + 2;
                }
                Step::Rate(hz) if scales => {
                    let host_khz = vm.host.settings().host_tsc.0 / 1_000;
                    let far = !pvclock_host::TscPlan::is_tolerated(Hertz(hz), Hertz(host_khz * 1_000));
                    let ratio = far.then_some((hz / 1_000, host_khz));
                    vm.hardware.vcpus.iter_mut().for_each(|vcpu| vcpu.0 = ratio);
                    vm.change_rate(if far { hz } else { host_khz * 1_000 });
                }
                Step::Rate(hz) => {
                    vm.hardware.hz = hz;
                    vm.change_rate(hz);
                }
                Step::Move(hz) => {
                    let mut there = Hardware::new(hz);
                    there.ns = vm.hardware.ns;
                    vm = vm.move_to(scaling(hz), there);
                    told += 4;
                }
            }
            for vcpu in 0..2 {
                let read = vm.reads(vcpu);
                prop_assert!(read.abs_diff(expected) <= told + 8, "{read} not {expected} after {step:?}");
            }
        }
    }
}
