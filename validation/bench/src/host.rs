//! What crate `host` costs a VMM: `update` is one page update by an event, without the exit
//! that caused it; `entry` is a vCPU's entry with nothing due.

use std::cell::{Cell, RefCell};

use host::msr::{HV_GUEST_OS_ID, HV_REFERENCE_TSC, KVM_SYSTEM_TIME};
use host::pages::ReferencePage;
use host::{
    ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent, PlainMemory,
    VcpuId,
};
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::{TimePage, TimeReader, TimeUpdate, TimeWriter};
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Scale, Ticks};

use crate::judge;
use crate::rounds::{self, CALLS, Contender};

const BAR_NS: f64 = 50.0;
const VCPU: VcpuId = VcpuId(0);
const TSC: Hertz = Hertz(2_600_000_000);

const BARE: &str = "pvclock TimeWriter::write, bare";
const NOTHING: &str = "before_entry, nothing due";
const LOOK: &str = "vCPU entry, nothing due: its flag";
const ENTRY: &str = "vCPU entry, nothing due: the machine's whole path";
const ENTRY_ROUNDS: u32 = 500;
const LOOK_BAR_NS: f64 = 10.0;
const MOVED: &str = "vCPU moved: event, entry, own snapshot";
const WOKEN: &str = "host resumed: event, entry, shared snapshot";
const REFERENCE: &str = "host resumed: event, Hyper-V page";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Update,
    Entry,
    Both,
}

impl Part {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "update" => Some(Self::Update),
            "entry" => Some(Self::Entry),
            _ => None,
        }
    }

    /// Whether this row's bar is one of it.
    fn judges(self, row: &str) -> bool {
        match self {
            Self::Both => true,
            Self::Update => row != LOOK,
            Self::Entry => row == LOOK,
        }
    }
}

/// Whether the bars are met.
pub(crate) fn run(part: Part, rounds: u32) -> Result<bool, String> {
    let clock = Cell::new(0);
    // The host's clocks advance by a microsecond a call; reading them is the
    // VMM's part, not this code's.
    let now = || {
        clock.set(clock.get() + 1_000);
        at(clock.get())
    };
    let bare = TimePage::new();
    let scale = Scale::from_hertz(TSC).map_err(|error| error.to_string())?;
    let idle = Vm::kvm(true)?;
    let idle_flag = idle.host.borrow().due_flag(VCPU).ok_or("no such vCPU")?;
    let moving = Vm::kvm(false)?;
    let woken = Vm::kvm(true)?;
    let hyperv = Vm::hyperv()?;
    let physical_cpu = Cell::new(0);
    let mut contenders = [
        Contender::new(BARE, || {
            let HostClocks { tsc, boot: system_time, .. } = now();
            let update = TimeUpdate { tsc_timestamp: tsc.0, system_time, scale, stable: true };
            TimeWriter::new(&bare).write(&update);
        }),
        Contender::new(NOTHING, || idle.enter(now())),
        Contender::new(LOOK, || {
            if idle_flag.is_due() {
                idle.enter(now());
            }
        }),
        Contender::new(MOVED, || {
            physical_cpu.set(physical_cpu.get() ^ 1);
            let now = now();
            let moved = HostEvent::VcpuMoved { vcpu: VCPU, physical_cpu: physical_cpu.get() };
            moving.handle(moved, now);
            moving.enter(now);
        }),
        Contender::new(WOKEN, || {
            let now = now();
            woken.handle(HostEvent::HostResumed, now);
            woken.enter(now);
        }),
        Contender::new(REFERENCE, || hyperv.handle(HostEvent::HostResumed, now())),
    ];
    rounds::run(&mut contenders, rounds);
    println!("{rounds} interleaved rounds of {CALLS} calls; ns a call\n");
    println!("{:<46} {:>8} {:>8}", "", "min", "median");
    for row in &contenders {
        println!("{:<46} {:>8.2} {:>8.2}", row.name, row.min_ns(), row.median_ns());
    }
    println!();
    let mut met = true;
    let judged = contenders.iter().filter(|row| row.name != BARE && row.name != NOTHING);
    for row in judged.filter(|row| part.judges(row.name)) {
        let bar_ns = if row.name == LOOK { LOOK_BAR_NS } else { BAR_NS };
        met &= judge(row.name, row.min_ns(), bar_ns, " ns");
    }
    drop(contenders);
    if part != Part::Update {
        met &= whole_entry()?;
    }
    let updates = (rounds + 1) * CALLS;
    moving.assert_kvm(updates, at(clock.get()))?;
    woken.assert_kvm(updates, at(clock.get()))?;
    idle.assert_kvm(0, at(clock.get()))?;
    hyperv.assert_hyperv(updates, at(clock.get()))?;
    Ok(met)
}

/// The whole path of our own machine, on a vCPU's thread: commands, barrier, steal time
/// and page; not measured without KVM.
fn whole_entry() -> Result<bool, String> {
    let text = |error: vmm::MachineError| error.to_string();
    let settings = match vmm::kvm::host_tsc() {
        Ok(tsc) => {
            vmm::Settings::new(vmm::ClockBackend::Own(ClockSettings::new(ClockProvider::Kvm, tsc)))
        }
        Err(error) => {
            println!("{ENTRY}: not measured: {error}");
            return Ok(true);
        }
    };
    let machine = vmm::Machine::start(&settings).map_err(text)?;
    machine.discover(0).map_err(text)?;
    let mut least_ns = f64::INFINITY;
    for _ in 0..ENTRY_ROUNDS {
        least_ns = least_ns.min(machine.time_entries(0, CALLS).map_err(text)?);
    }
    Ok(judge(ENTRY, least_ns, LOOK_BAR_NS, " ns"))
}

/// The host's clocks `ns` after its boot.
fn at(ns: u64) -> HostClocks {
    // 2.6 cycles a nanosecond, and `ns` is a multiple of 1000 always.
    let real = UnixTime(Nanos(1_800_000_000_000_000_000 + ns));
    HostClocks::new(Ticks(ns / 5 * 13), Nanos(ns), real)
}

/// A VM of one vCPU whose page is registered and written.
struct Vm {
    host: RefCell<GuestClock>,
    memory: PlainMemory,
}

impl Vm {
    fn new(settings: ClockSettings, msrs: &[(u32, u64)]) -> Result<Self, String> {
        let memory = PlainMemory::new(1);
        let mut host = GuestClock::new(settings, at(0)).map_err(|error| error.to_string())?;
        host.handle(HostEvent::VcpuCreated { vcpu: VCPU, tsc_offset: 0 }, at(0), &memory);
        host.handle(HostEvent::VcpuMoved { vcpu: VCPU, physical_cpu: 0 }, at(0), &memory);
        for &(msr, value) in msrs {
            host.write_msr(VCPU, msr, value, at(0), &memory).map_err(|error| error.to_string())?;
        }
        host.before_entry(VCPU, at(0), &memory);
        Ok(Self { host: RefCell::new(host), memory })
    }

    fn kvm(host_clocksource_is_tsc: bool) -> Result<Self, String> {
        let settings = ClockSettings::new(ClockProvider::Kvm, TSC);
        let settings =
            settings.changed(|new| new.host_clocksource_is_tsc = host_clocksource_is_tsc);
        Self::new(settings, &[(KVM_SYSTEM_TIME, PlainMemory::time(0).0 | 1)])
    }

    fn hyperv() -> Result<Self, String> {
        let page = PlainMemory::reference(0).0 | 1;
        Self::new(
            ClockSettings::new(ClockProvider::HyperV, TSC),
            &[(HV_GUEST_OS_ID, 1), (HV_REFERENCE_TSC, page)],
        )
    }

    fn handle(&self, event: HostEvent, now: HostClocks) {
        self.host.borrow_mut().handle(event, now, &self.memory);
    }

    fn enter(&self, now: HostClocks) {
        self.host.borrow_mut().before_entry(VCPU, now, &self.memory);
    }

    /// That the page was written as often as it should, and gives the time: an
    /// update that does not happen must not win.
    fn assert_kvm(&self, updates: u32, now: HostClocks) -> Result<(), String> {
        let page: &host::pages::TimePage = self.page(PlainMemory::time(0))?;
        let reader = TimeReader::new(page);
        let read = reader.nanos(&|| now.tsc.0).map_err(|error| error.to_string())?;
        let version = reader.info().map_err(|error| error.to_string())?.version;
        check(read, now, version, 2 + 2 * updates)
    }

    fn assert_hyperv(&self, updates: u32, now: HostClocks) -> Result<(), String> {
        let page: &ReferencePage = self.page(PlainMemory::reference(0))?;
        let reader = ReferenceReader::new(page);
        let units = reader.units_100ns(&|| now.tsc.0).map_err(|error| error.to_string())?;
        let sequence = reader.info().map_err(|error| error.to_string())?.sequence;
        check(Nanos(units * 100), now, sequence, 1 + updates)
    }

    fn page<P: pvclock::shared::Page + 'static>(
        &self,
        address: host::ClockAddress,
    ) -> Result<&P, String> {
        self.memory.page(address).map_err(|error| error.to_string())
    }
}

fn check(read: Nanos, now: HostClocks, version: u32, expected: u32) -> Result<(), String> {
    // A few ns of rounding, and 0.47 ppb of all the time since the first snapshot.
    if version != expected || now.boot.0.abs_diff(read.0) > 300 + (now.boot.0 >> 31) {
        return Err(format!("{read} at {} by version {version}, not {expected}", now.boot));
    }
    Ok(())
}
