//! `host` under a guest that writes anything to its MSRs, and a VMM that reports
//! any event.
//!
//! The bytes are the settings and then a program: an operation and its
//! operands, see [`Vm::step`]. What is checked after each operation:
//!
//! - a refused write changes nothing that can be read;
//! - no page is written that no vCPU has enabled;
//! - a page with nothing due gives the time that the host computes;
//! - with `never_back`, no running vCPU reads a time before an earlier one;
//! - a saved VM equals its decoded bytes, and keeps its registers when restored;
//! - a handled deadline is over, and after its entry a vCPU has nothing due.

use host::msr::{
    HV_GUEST_OS_ID, HV_REFERENCE_TSC, HV_TIME_REF_COUNT, KVM_STEAL_TIME, KVM_SYSTEM_TIME,
    KVM_WALL_CLOCK,
};
use host::pages::{ReferencePage, TimePage};
use host::{
    ClockAddress, ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent,
    PlainMemory, RestorePolicy, TscMode, VcpuId,
};
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::TimeReader;
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};

use crate::bytes::Bytes;
use crate::host_saved::reread;

/// One more than the vCPUs that are ever created.
const VCPUS: u32 = 4;
const FRAMES: u32 = 4;
/// Everything is checked after each; longer programs only slow the fuzzer.
const STEPS: usize = 300;
const TSC_HZ: u64 = 2_600_000_000;

/// Runs the program.
pub(crate) fn host_msr(data: &[u8]) {
    let mut bytes = Bytes(data);
    let Some(mut vm) = Vm::new(&mut bytes) else { return };
    for _ in 0..STEPS {
        let Some(operation) = bytes.next() else { break };
        vm.checked_step(operation, &mut bytes);
    }
}

/// A VM's clock, its memory and its guests.
struct Vm {
    host: GuestClock,
    memory: PlainMemory,
    now: HostClocks,
    guests: [Guest; VCPUS as usize],
}

/// A vCPU as its guest uses it.
#[derive(Debug, Clone, Copy, Default)]
struct Guest {
    /// It has entered since it was stopped.
    runs: bool,
    /// Its page's register, and the latest time it has read there.
    page: u64,
    read: Option<Nanos>,
}

/// State that may not change by itself.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// By vCPU: its page's register, and its time at this reading.
    vcpus: Vec<Option<(u64, Nanos)>>,
    /// By frame: versions of the two time pages, and the sequence of the
    /// Hyper-V page.
    versions: Vec<[u32; 3]>,
    /// The register of the VM's Hyper-V page.
    reference: u64,
}

impl Vm {
    /// The settings are the first bytes; `None` when they are invalid.
    fn new(bytes: &mut Bytes<'_>) -> Option<Self> {
        let kind = ClockProvider::ALL[bytes.number(1) as usize % ClockProvider::ALL.len()];
        let flags = bytes.number(1);
        let flag = |bit: u32| flags >> bit & 1 == 1;
        let settings = ClockSettings::new(kind, Hertz(TSC_HZ)).changed(|new| {
            new.advertised_tsc = Hertz(if flag(0) { bytes.number(5) } else { TSC_HZ });
            new.tsc_mode = if flag(1) { TscMode::Emulated } else { TscMode::Real };
            new.tsc_scaling = flag(2).then_some(48);
            new.tsc_trapping = flag(3);
            new.host_clocksource_is_tsc = !flag(4);
            new.sync_period = flag(5).then(|| Nanos(bytes.number(5)));
            new.never_back = !flag(6);
        });
        let now = HostClocks::new(
            Ticks(TSC_HZ),
            Nanos(1_000_000_000),
            UnixTime(Nanos(1_795_273_445_000_000_000)),
        );
        let mut host = GuestClock::new(settings, now).ok()?;
        let memory = PlainMemory::new(FRAMES);
        host.handle(HostEvent::VcpuCreated { vcpu: VcpuId(0), tsc_offset: 0 }, now, &memory);
        Some(Self { host, memory, now, guests: Default::default() })
    }

    fn checked_step(&mut self, operation: u8, operands: &mut Bytes<'_>) {
        let before = self.seen();
        let clock_set = self.step(operation, operands);
        let after = self.seen();
        self.check_readings(&after, clock_set);
        self.check_unused(&before, &after);
        self.check_pages();
    }

    /// One operation; whether it set the clock.
    fn step(&mut self, operation: u8, operands: &mut Bytes<'_>) -> bool {
        match operation % 8 {
            0 => self.read(operands),
            1 | 2 => self.write(operands),
            3 => self.enter(VcpuId(operands.number(1) as u32 % VCPUS)),
            4 => self.wait(operands),
            5 => {
                self.meet_deadline();
                if operation & 0x80 != 0 {
                    self.migrate(operands);
                }
            }
            6 => (0..VCPUS).for_each(|vcpu| self.enter(VcpuId(vcpu))),
            _ => {
                let event = event(operands);
                if event.stops_all() {
                    self.stop(|_| true);
                }
                self.host.handle(event, self.now, &self.memory);
                return matches!(event, HostEvent::ClockSet { .. });
            }
        }
        false
    }

    fn read(&mut self, operands: &mut Bytes<'_>) {
        let (vcpu, msr) = (VcpuId(operands.number(1) as u32 % VCPUS), self.msr(operands));
        let _ = self.host.read_msr(vcpu, msr, self.now, &self.memory);
    }

    fn write(&mut self, operands: &mut Bytes<'_>) {
        let (vcpu, msr) = (VcpuId(operands.number(1) as u32 % VCPUS), self.msr(operands));
        let value = value(operands);
        self.stop(|stopped| stopped == vcpu.0);
        let readable = self.host.read_msr(vcpu, msr, self.now, &self.memory);
        let seen = self.seen();
        let written = self.host.write_msr(vcpu, msr, value, self.now, &self.memory);
        if let Err(error) = written {
            assert!(!error.to_string().is_empty());
            let still = self.host.read_msr(vcpu, msr, self.now, &self.memory);
            assert_eq!(still, readable, "changed by a refused write: {error}");
            assert_eq!(self.seen(), seen, "changed by a refused write: {error}");
        }
    }

    /// One of the provider's, or any.
    fn msr(&self, operands: &mut Bytes<'_>) -> u32 {
        let chosen = operands.number(1) as u32;
        let mut ours =
            self.host.msrs().iter().flat_map(|range| range.first..range.first + range.count);
        ours.nth(chosen as usize).unwrap_or_else(|| operands.number(4) as u32)
    }

    fn enter(&mut self, vcpu: VcpuId) {
        self.host.before_entry(vcpu, self.now, &self.memory);
        assert!(self.host.due().all(|due| due != vcpu), "{vcpu:?} still has updates due");
        self.guests[vcpu.0 as usize].runs = true;
    }

    /// Both clocks go forward, the TSC at its rate or at any other.
    fn wait(&mut self, operands: &mut Bytes<'_>) {
        let ns = operands.number(2) << (operands.number(1) % 24);
        let cycles = match operands.number(1) {
            0..0xf0 => (u128::from(ns) * u128::from(TSC_HZ) / 1_000_000_000) as u64,
            _ => operands.number(6),
        };
        let HostClocks { tsc, boot, real: UnixTime(real), .. } = self.now;
        self.now = HostClocks::new(
            Ticks(tsc.0.wrapping_add(cycles)),
            Nanos(boot.0 + ns),
            UnixTime(Nanos(real.0 + ns)),
        );
    }

    fn meet_deadline(&mut self) {
        let Some(deadline) = self.host.deadline() else { return };
        self.now.boot = self.now.boot.max(deadline);
        self.host.handle(HostEvent::Timer, self.now, &self.memory);
        let next = self.host.deadline();
        let over = next.is_none_or(|next| next > self.now.boot);
        assert!(over, "{deadline} has come, and {next:?} is next at {}", self.now.boot);
    }

    /// To a host that may have another TSC, through the saved bytes.
    fn migrate(&mut self, operands: &mut Bytes<'_>) {
        let saved = self.host.save(self.now);
        assert_eq!(reread(&saved), saved);
        let flags = operands.number(1);
        let policy = if flags & 1 == 0 { RestorePolicy::Advance } else { RestorePolicy::Freeze };
        let host_tsc = if flags & 2 == 0 { TSC_HZ } else { operands.number(5) };
        let settings = self.host.settings().changed(|new| {
            new.tsc_scaling = (flags & 4 != 0).then_some(48);
            new.tsc_trapping = flags & 8 != 0;
            new.host_tsc = Hertz(host_tsc);
        });
        let registers = self.registers();
        match GuestClock::restore(&saved, settings, policy, self.now) {
            Ok((host, restored)) => {
                assert!(!restored.to_string().is_empty());
                self.host = host;
                self.stop(|_| true);
                assert_eq!(self.registers(), registers, "by {policy:?} to {settings:?}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    /// The registers that a guest wrote, as it reads them back.
    fn registers(&mut self) -> Vec<Option<u64>> {
        let vcpus = (0..VCPUS).map(VcpuId);
        let kept =
            [KVM_WALL_CLOCK, KVM_SYSTEM_TIME, KVM_STEAL_TIME, HV_GUEST_OS_ID, HV_REFERENCE_TSC];
        vcpus
            .flat_map(|vcpu| kept.map(|msr| (vcpu, msr)))
            .map(|(vcpu, msr)| self.host.read_msr(vcpu, msr, self.now, &self.memory).ok())
            .collect()
    }

    fn seen(&mut self) -> Seen {
        let mut register = |vcpu, msr| self.host.read_msr(vcpu, msr, self.now, &self.memory).ok();
        let reference = register(VcpuId(0), HV_REFERENCE_TSC).unwrap_or(0);
        let mut vcpus = Vec::new();
        for vcpu in (0..VCPUS).map(VcpuId) {
            let page = register(vcpu, KVM_SYSTEM_TIME);
            vcpus.push(page.map(|page| (page, vcpu)));
        }
        let time = |(page, vcpu)| (page, self.host.time(vcpu, self.now));
        let vcpus = vcpus.into_iter().map(|vcpu| vcpu.map(time)).collect();
        let versions = (0..FRAMES).map(|frame| self.versions(frame)).collect();
        Seen { vcpus, versions, reference }
    }

    fn versions(&self, frame: u32) -> [u32; 3] {
        let time = TimeReader::new(self.page::<TimePage>(PlainMemory::time(frame)));
        let split = TimeReader::new(self.page::<TimePage>(PlainMemory::time_split(frame)));
        let reference =
            ReferenceReader::new(self.page::<ReferencePage>(PlainMemory::reference(frame)));
        [
            time.info().expect("a finished page").version,
            split.info().expect("a finished page").version,
            reference.info().map_or(0, |info| info.sequence),
        ]
    }

    fn page<P: pvclock::shared::Page + 'static>(&self, address: ClockAddress) -> &P {
        self.memory.page(address).expect("every frame has one")
    }

    /// What a running vCPU reads from its page does not go back.
    fn check_readings(&mut self, seen: &Seen, clock_set: bool) {
        let may_step = clock_set || !self.host.settings().never_back;
        for (i, (guest, vcpu)) in self.guests.iter_mut().zip(&seen.vcpus).enumerate() {
            let (page, time) = vcpu.unwrap_or((0, Nanos(0)));
            if may_step || page != guest.page || page & 1 == 0 {
                *guest = Guest { page, read: None, ..*guest };
            }
            if guest.runs && page & 1 == 1 {
                assert!(Some(time) >= guest.read, "vCPU {i}: {:?}, then {time}", guest.read);
                guest.read = Some(time);
            }
        }
    }

    /// Some or all vCPUs are out of the guest until their next entry.
    fn stop(&mut self, vcpus: impl Fn(u32) -> bool) {
        for (_, guest) in (0..).zip(&mut self.guests).filter(|(vcpu, _)| vcpus(*vcpu)) {
            guest.runs = false;
        }
    }

    /// A page that is off before and after was not written in between.
    fn check_unused(&self, before: &Seen, after: &Seen) {
        let used = |seen: &Seen, address: ClockAddress| {
            seen.vcpus.iter().flatten().any(|(page, _)| *page == address.0 | 1)
                // Bits 1 to 11 are the guest's own.
                || seen.reference & !0xffe == address.0 | 1
        };
        for (frame, (old, new)) in (0..).zip(before.versions.iter().zip(&after.versions)) {
            let pages = [
                PlainMemory::time(frame),
                PlainMemory::time_split(frame),
                PlainMemory::reference(frame),
            ];
            for (page, (old, new)) in pages.into_iter().zip(old.iter().zip(new)) {
                let unused = !used(before, page) && !used(after, page);
                assert!(!unused || old == new, "{page:?} was written, and nobody uses it");
            }
        }
    }

    /// Pages give the time that the host computes.
    fn check_pages(&mut self) {
        let seen = self.seen();
        let due: Vec<_> = self.host.due().collect();
        for (i, page) in (0..).zip(&seen.vcpus) {
            let Some((page, time)) = page else { continue };
            let shared = seen.vcpus.iter().flatten().filter(|(other, _)| other == page).count() > 1;
            if page & 1 == 0 || shared || due.contains(&VcpuId(i)) {
                continue;
            }
            let tsc = self.host.guest_tsc(VcpuId(i), self.now).expect("it was created");
            let address = ClockAddress(page & !1);
            let read = TimeReader::new(self.page::<TimePage>(address)).nanos(&|| tsc);
            // A reader may refuse a TSC behind the page or far ahead of it.
            assert!(read.is_err() || read == Ok(*time), "vCPU {i} reads {read:?}, not {time}");
        }
        if seen.reference & 1 == 1 && due.is_empty() {
            let page: &ReferencePage = self.page(ClockAddress(seen.reference & !0xfff));
            let tsc = self.host.guest_tsc(VcpuId(0), self.now).expect("it was created");
            if let Ok(units) = ReferenceReader::new(page).units_100ns(&|| tsc) {
                let counter =
                    self.host.read_msr(VcpuId(0), HV_TIME_REF_COUNT, self.now, &self.memory);
                assert_eq!(counter, Ok(units), "counter and page are one clock");
            }
        }
    }
}

/// Any value, or a page, enabled or not.
fn value(operands: &mut Bytes<'_>) -> u64 {
    let form = operands.number(1);
    let frame = operands.number(1) as u32;
    let on = u64::from(form & 0x80 != 0);
    match form & 7 {
        0 => PlainMemory::time(frame).0 | on,
        1 => PlainMemory::time_split(frame).0 | on,
        2 => PlainMemory::wall_clock(frame).0 | on,
        3 => PlainMemory::steal(frame).0 | on,
        4 => PlainMemory::reference(frame).0 | on,
        5 => u64::from(frame),
        _ => operands.number(8),
    }
}

fn event(operands: &mut Bytes<'_>) -> HostEvent {
    let kind = operands.number(1);
    let vcpu = VcpuId(operands.number(1) as u32 % (VCPUS - 1));
    match kind % 15 {
        0 => HostEvent::VcpuCreated { vcpu, tsc_offset: operands.number(8) },
        1 => HostEvent::VcpuCreated { vcpu, tsc_offset: 0 },
        2 => HostEvent::VcpuMoved { vcpu, physical_cpu: operands.number(1) as u32 },
        3 => HostEvent::TscOffsetChanged { vcpu, tsc_offset: operands.number(8) },
        4 => HostEvent::TscFrequencyAdvertised { frequency: Hertz(operands.number(8)) },
        5 => HostEvent::ClockSet { clock: Nanos(operands.number(8)) },
        6 => HostEvent::VcpuReset { vcpu },
        7 => HostEvent::HostSuspended,
        8 => HostEvent::HostResumed,
        9 => HostEvent::HostClocksource { is_tsc: operands.number(1) & 1 != 0 },
        10 => match operands.number(1) as u32 {
            choice @ 0..128 => HostEvent::PhysicalCpuAdded {
                physical_cpu: choice >> 1,
                tsc_agrees: choice & 1 != 0,
            },
            choice => HostEvent::PhysicalCpuRemoved { physical_cpu: choice >> 1 & 63 },
        },
        11 => HostEvent::Paused,
        12 => HostEvent::Resumed,
        13 => HostEvent::VcpuPreempted { vcpu },
        _ => HostEvent::StealMeasured { vcpu, stolen: Nanos(operands.number(8)) },
    }
}
