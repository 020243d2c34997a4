//! A VM without a machine: a host, its memory, and its clocks, moved by hand.
#![allow(dead_code, reason = "each test file uses its part")]

use pvclock::kvm_clock::{TimeInfo, TimeReader};
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, ReadError, Ticks};
use pvclock_host::msr::{HV_GUEST_OS_ID, HV_REFERENCE_TSC, KVM_SYSTEM_TIME};
use pvclock_host::pages::TimePage;
use pvclock_host::{
    ClockAddress, ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent,
    PlainMemory, SavedGuestClock, VcpuId,
};

pub(crate) const HOST_TSC: Hertz = Hertz(2_600_000_000);
/// A Friday in January 2027.
pub(crate) const REAL_AT_BOOT: u64 = 1_800_000_000_000_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// As many cases as asked for, or fewer under a debug build's patience.
pub(crate) fn cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config::with_cases(cases)
}

/// What another process reads of it.
pub(crate) fn reread(saved: &SavedGuestClock) -> SavedGuestClock {
    serde_json::from_str(&serde_json::to_string(saved).unwrap()).unwrap()
}

/// The host's clocks `ns` after its boot, which was at TSC 0.
pub(crate) fn at_rate(ns: u64, tsc: Hertz) -> HostClocks {
    let cycles = u128::from(ns) * u128::from(tsc.0) / u128::from(SECOND);
    HostClocks::new(Ticks(cycles as u64), Nanos(ns), UnixTime(Nanos(REAL_AT_BOOT + ns)))
}

pub(crate) fn at(ns: u64) -> HostClocks {
    at_rate(ns, HOST_TSC)
}

pub(crate) struct Rig {
    pub(crate) host: GuestClock,
    pub(crate) memory: PlainMemory,
}

impl Rig {
    /// A VM with `vcpus` vCPUs that have run, made at `now`.
    pub(crate) fn new(settings: ClockSettings, vcpus: u32, now: HostClocks) -> Self {
        let memory = PlainMemory::new(vcpus + 1);
        let host = GuestClock::new(settings, now).unwrap();
        let mut rig = Self { host, memory };
        for index in 0..vcpus {
            rig.event(HostEvent::VcpuCreated { vcpu: VcpuId(index), tsc_offset: 0 }, now);
            rig.event(HostEvent::VcpuMoved { vcpu: VcpuId(index), physical_cpu: index }, now);
        }
        rig
    }

    /// The same, with each vCPU's kvm-clock page registered and written, and
    /// the writing of all after that done.
    pub(crate) fn kvm(settings: ClockSettings, vcpus: u32, now: HostClocks) -> Self {
        assert_eq!(settings.kind, ClockProvider::Kvm);
        let mut rig = Self::new(settings, vcpus, now);
        for index in 0..vcpus {
            rig.register(index, now);
        }
        let soon = now.changed(|new| new.boot = rig.host.deadline().unwrap());
        rig.event(HostEvent::Timer, soon);
        rig.enter_all(now);
        rig
    }

    /// A VM with a Hyper-V page in frame 0.
    pub(crate) fn hyperv(settings: ClockSettings, vcpus: u32, now: HostClocks) -> Self {
        assert_eq!(settings.kind, ClockProvider::HyperV);
        let mut rig = Self::new(settings, vcpus, now);
        rig.write(0, HV_GUEST_OS_ID, 1, now).unwrap();
        rig.write(0, HV_REFERENCE_TSC, PlainMemory::reference(0).0 | 1, now).unwrap();
        rig
    }

    pub(crate) fn register(&mut self, vcpu: u32, now: HostClocks) {
        self.write(vcpu, KVM_SYSTEM_TIME, PlainMemory::time(vcpu).0 | 1, now).unwrap();
    }

    pub(crate) fn event(&mut self, event: HostEvent, now: HostClocks) {
        self.host.handle(event, now, &self.memory);
    }

    pub(crate) fn write(
        &mut self,
        vcpu: u32,
        msr: u32,
        value: u64,
        now: HostClocks,
    ) -> Result<(), pvclock_host::MsrError> {
        self.host.write_msr(VcpuId(vcpu), msr, value, now, &self.memory)
    }

    pub(crate) fn read(
        &mut self,
        vcpu: u32,
        msr: u32,
        now: HostClocks,
    ) -> Result<u64, pvclock_host::MsrError> {
        self.host.read_msr(VcpuId(vcpu), msr, now, &self.memory)
    }

    pub(crate) fn enter(&mut self, vcpu: u32, now: HostClocks) {
        self.host.before_entry(VcpuId(vcpu), now, &self.memory);
    }

    pub(crate) fn enter_all(&mut self, now: HostClocks) {
        let due: Vec<_> = self.host.due().collect();
        for vcpu in due {
            self.host.before_entry(vcpu, now, &self.memory);
        }
    }

    pub(crate) fn page(&self, vcpu: u32) -> TimeInfo {
        info(&self.memory, PlainMemory::time(vcpu)).unwrap()
    }

    /// What the guest reads on this vCPU, by its own TSC.
    pub(crate) fn guest_reads(&self, vcpu: u32, now: HostClocks) -> Result<Nanos, ReadError> {
        let tsc = self.host.guest_tsc(VcpuId(vcpu), now).unwrap();
        let page: &TimePage = self.memory.page(PlainMemory::time(vcpu)).unwrap();
        TimeReader::new(page).nanos(&|| tsc)
    }
}

/// A time page's contents, wherever it is.
pub(crate) fn info(memory: &PlainMemory, address: ClockAddress) -> Result<TimeInfo, ReadError> {
    TimeReader::new(memory.page::<TimePage>(address).unwrap()).info()
}
