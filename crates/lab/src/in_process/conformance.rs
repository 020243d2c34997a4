//! What can be asked of a clock without a virtual machine: that page, MSRs
//! and guest code agree, on simulated time, to the nanosecond.

use guest::discovery::Hypervisor;
use guest::layout::{MEMORY_MIN, Pages};
use guest::request::{Outcome, Request};
use guest::source::Source;
use host::msr::{
    HV_REFERENCE_TSC, HV_TIME_REF_COUNT, HV_TSC_FREQUENCY, KVM_STEAL_TIME, KVM_SYSTEM_TIME,
    KVM_WALL_CLOCK,
};
use host::{Event, GuestAddress, GuestMemory, Kind};
use pvclock::Nanos;
use pvclock::kvm_clock::{TimePage, TimeReader, WallClockPage, WallClockReader};
use vmm::MachineError;

use super::board::{BOOT, Board};
use super::guest_code::GuestCode;
use super::time::{Simulated, Time as _};
use crate::bench::Bench;
use crate::results::{Check, Findings, Verdict};
use crate::run::Found;
use crate::sample::VCPU;
use crate::settings::{LabError, Progress};

type Result<T = ()> = std::result::Result<T, MachineError>;

/// Events in turn, while the guest reads.
const ROUNDS: u64 = 1_000;
const READS_A_ROUND: u64 = 100;
const UNIT_NS: u64 = 100;

/// A guest of one provider, and what was found of it.
struct Subject<'b> {
    kind: Kind,
    board: &'b Board<Simulated>,
    guest: GuestCode<'b, Simulated>,
    checks: Vec<Check>,
}

pub(super) fn run(
    bench: &Bench<'_>,
    progress: &mut dyn Progress,
) -> std::result::Result<Found, LabError> {
    let mut checks = Vec::new();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        progress.step(kind.name(), index as f64 / Kind::ALL.len() as f64);
        let board = Board::new(bench.provider(kind), Simulated::new(bench.host_tsc))?;
        let guest = GuestCode::start(&board);
        let mut subject = Subject { kind, board: &board, guest, checks: Vec::new() };
        subject.found()?;
        match kind {
            Kind::Kvm => subject.kvm_clock()?,
            Kind::HyperV => subject.hyperv()?,
            _ => {}
        }
        subject.foreign_msrs()?;
        checks.append(&mut subject.checks);
    }
    Ok((Findings::Conformance, checks))
}

impl Subject<'_> {
    fn check(&mut self, name: &str, bar: &str, found: String, holds: bool) {
        let name = format!("{}: {name}", self.kind);
        self.checks.push(Check { name, bar: bar.into(), found, verdict: Verdict::of(holds) });
    }

    fn read(&mut self, source: Source) -> Result<u64> {
        Ok(self.guest.ask(Request::Read(source))?[1])
    }

    fn refuses(&mut self, request: Request) -> Result<bool> {
        match self.guest.ask(request) {
            Ok(_) => Ok(false),
            Err(MachineError::Declined { outcome: Outcome::Refused, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What the guest makes of its machine.
    fn found(&mut self) -> Result {
        let found = self.guest.discover()?;
        let expected = match self.kind {
            Kind::None | Kind::Legacy => Hypervisor::None,
            Kind::Kvm => Hypervisor::Kvm,
            Kind::HyperV => Hypervisor::HyperV,
            _ => Hypervisor::Other,
        };
        let name = "the guest finds its hypervisor";
        let said = format!("{:?}", found.hypervisor);
        self.check(name, &format!("{expected:?}"), said, found.hypervisor == expected);
        let all = [found.pm_timer, found.hpet, found.pit, found.rtc];
        let timers = format!("{} of 4", all.iter().filter(|there| **there).count());
        self.check(
            "the guest finds its timers",
            "PM timer, HPET, PIT, RTC",
            timers,
            all == [true; 4],
        );
        if self.kind.has_cpuid() {
            let told = self.board.with_host(|host, _, _| host.settings().advertised_tsc.0);
            // CPUID tells whole kHz, and a page's scale has 32 bits.
            let off = found.tsc.0.abs_diff(told);
            let said = format!("{} Hz by {:?}, {off} Hz off", found.tsc.0, found.frequency_from);
            self.check("the TSC's frequency told", "within 1 kHz", said, off <= 1000);
        }
        Ok(())
    }

    fn kvm_clock(&mut self) -> Result {
        self.time_of_page()?;
        self.wall_clock();
        self.stopped_once()?;
        self.order()?;
        self.wrong_addresses()?;
        self.switched_off()
    }

    fn page(&self) -> &TimePage {
        &self.board.ram.pages().vcpus[VCPU].time
    }

    /// The page's time beside the host's own, at one TSC.
    fn time_of_page(&mut self) -> Result {
        let mut worst = 0;
        for _ in 0..ROUNDS {
            self.board.time.pass(Nanos(1_000_003));
            let now = self.board.time.reading();
            let page = TimeReader::new(self.page()).nanos_at(now.tsc);
            let host = self.board.with_host(|host, _, _| host.time(BOOT, now));
            worst = worst.max(page.map_or(u64::MAX, |page| page.0.abs_diff(host.0)));
        }
        let found = format!("{worst} ns apart at most, {ROUNDS} times");
        self.check("page against host", "0 ns apart at the same TSC", found, worst == 0);
        Ok(())
    }

    fn wall_clock(&mut self) {
        let page: core::result::Result<&WallClockPage, _> =
            self.board.ram.page(GuestAddress(Pages::wall_clock_address()));
        let now = self.board.time.reading();
        let wall = page.ok().and_then(|page| WallClockReader::new(page).read().ok());
        let time = TimeReader::new(self.page()).nanos_at(now.tsc).ok();
        let off = wall.zip(time).map(|(wall, time)| wall.plus(time).0.abs_diff(now.real.0.0));
        let found = off.map_or("unreadable".into(), |off| format!("{off} ns off"));
        let holds = off.is_some_and(|off| off < 1_000);
        self.check("wall clock + page against time of day", "within 1 µs", found, holds);
    }

    fn stopped_once(&mut self) -> Result {
        self.board.tell(Event::Paused);
        self.board.time.pass(Nanos(5_000_000_000));
        self.board.tell(Event::Resumed);
        let times: Result<u64> =
            (0..3).map(|_| Ok(self.guest.ask(Request::TakeGuestStopped)?[0])).sum();
        let times = times?;
        let found = format!("{times} of 3 times");
        self.check("GUEST_STOPPED after a pause", "seen exactly once", found, times == 1);
        Ok(())
    }

    /// Events that draw new lines, and the guest that reads on.
    fn order(&mut self) -> Result {
        let (mut last, mut backward) = (0, 0);
        for round in 0..ROUNDS {
            let event = match round % 4 {
                0 => Event::VcpuMoved { vcpu: BOOT, physical_cpu: round as u32 },
                1 => Event::HostResumed,
                2 => Event::HostClocksource { is_tsc: round % 8 == 2 },
                _ => Event::Resumed,
            };
            if event == Event::Resumed {
                // Else there is nothing to resume.
                self.board.tell(Event::Paused);
            }
            self.board.tell(event);
            for _ in 0..READS_A_ROUND {
                let time = self.read(Source::KvmClock)?;
                backward += u64::from(time < last);
                last = time;
            }
        }
        let found = format!("{backward} backward of {}", ROUNDS * READS_A_ROUND);
        let bar = "no reading is before the last";
        self.check("order through updates", bar, found, backward == 0);
        Ok(())
    }

    fn wrong_addresses(&mut self) -> Result {
        let wrong = [
            (KVM_SYSTEM_TIME, (Pages::time_address(0) + 2) | 1),
            (KVM_SYSTEM_TIME, (MEMORY_MIN - 16) | 1),
            (KVM_SYSTEM_TIME, (!0 << 5) | 1),
            (KVM_WALL_CLOCK, MEMORY_MIN - 8),
            (KVM_STEAL_TIME, (Pages::steal_address(0) + 32) | 1),
            (KVM_STEAL_TIME, MEMORY_MIN | 1),
        ];
        self.all_refused("unaligned or foreign addresses", &wrong)
    }

    fn all_refused(&mut self, name: &str, writes: &[(u32, u64)]) -> Result {
        let mut refused = 0;
        for &(msr, value) in writes {
            refused += usize::from(self.refuses(Request::WriteMsr { msr, value })?);
        }
        let found = format!("{refused} of {}", writes.len());
        self.check(name, "refused with #GP", found, refused == writes.len());
        Ok(())
    }

    fn switched_off(&mut self) -> Result {
        self.guest.ask(Request::WriteMsr { msr: KVM_SYSTEM_TIME, value: 0 })?;
        let before = TimeReader::new(self.page()).info();
        self.board.tell(Event::ClockSet { clock: Nanos(7) });
        self.board.tell(Event::HostResumed);
        let after = TimeReader::new(self.page()).info();
        let found = if before == after { "the same bytes" } else { "other bytes" };
        self.check("page switched off", "never written again", found.into(), before == after);
        Ok(())
    }

    fn hyperv(&mut self) -> Result {
        let mut worst = 0;
        for _ in 0..ROUNDS {
            self.board.time.pass(Nanos(1_000_003));
            let page = self.read(Source::HyperVPage)?;
            let counter = self.read(Source::HyperVCounter)?;
            let again = self.read(Source::HyperVPage)?;
            let beyond = page.saturating_sub(counter).max(counter.saturating_sub(again));
            worst = worst.max(beyond);
        }
        let found = format!("{worst} ns beyond at most, {ROUNDS} times");
        let bar = "between two readings of the page, ± 100 ns";
        self.check("counter against page", bar, found, worst <= UNIT_NS);
        let told = self.board.with_host(|host, _, _| host.settings().advertised_tsc.0);
        let [read, ..] = self.guest.ask(Request::ReadMsr { msr: HV_TSC_FREQUENCY })?;
        let bar = format!("{told} Hz");
        self.check("frequency MSR", &bar, format!("{read} Hz"), read == told);
        let wrong = [
            (HV_REFERENCE_TSC, MEMORY_MIN | 1),
            (HV_REFERENCE_TSC, 1 << 52 | 1),
            (HV_TIME_REF_COUNT, 1),
        ];
        self.all_refused("foreign addresses, and a write to the counter", &wrong)?;
        self.guest.ask(Request::WriteMsr { msr: HV_REFERENCE_TSC, value: 0 })?;
        let first = self.read(Source::HyperVCounter)?;
        self.board.time.pass(Nanos(1_000_000));
        let gone = self.read(Source::HyperVCounter)?.saturating_sub(first);
        let holds = (1_000_000..1_100_000).contains(&gone);
        let found = format!("{gone} ns in 1 ms and an exit");
        self.check("page switched off", "the counter goes on", found, holds);
        Ok(())
    }

    /// What the provider lacks.
    fn foreign_msrs(&mut self) -> Result {
        let foreign: &[u32] = match self.kind {
            Kind::Kvm => &[HV_TIME_REF_COUNT, HV_REFERENCE_TSC, HV_TSC_FREQUENCY],
            Kind::HyperV => &[KVM_WALL_CLOCK, KVM_SYSTEM_TIME, KVM_STEAL_TIME],
            _ => &[KVM_WALL_CLOCK, KVM_SYSTEM_TIME, HV_TIME_REF_COUNT, HV_REFERENCE_TSC],
        };
        let mut refused = 0;
        for &msr in foreign {
            refused += usize::from(self.refuses(Request::ReadMsr { msr })?);
            refused += usize::from(self.refuses(Request::WriteMsr { msr, value: 0 })?);
        }
        let found = format!("{refused} of {} accesses", foreign.len() * 2);
        self.check(
            "MSRs of other providers",
            "refused with #GP",
            found,
            refused == foreign.len() * 2,
        );
        Ok(())
    }
}
