//! What a page of the provider tells at one moment, read in the guest's memory from outside,
//! against the host's own clocks: its offset, where the guest's clocks show its rate alone.

use host::msr::{HV_REFERENCE_TSC, KVM_SYSTEM_TIME, KVM_WALL_CLOCK};
use host::pages::{ReferencePage, TimePage, WallClockPage};
use host::{GuestAddress, GuestMemory, HostClocks, Kind};
use pvclock::Ticks;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::{Flags, TimeReader, WallClockReader};
use vmm::Machine;
use vmm::host_clock::{self, HostReading};

use super::expected::PAGE_PPM;
use super::host_line::signed;
use crate::bench::Provider;

/// A register's bit 0: the page is there.
const ENABLED: u64 = 1;
const UNIT_NS: u64 = 100;

/// The host's clocks before a machine was created, and after.
pub(super) type Created = [HostClocks; 2];

/// A page's time less the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageOffset {
    pub(super) offset_ns: f64,
    /// Of reading both, of when the machine was created where the page counts from then on,
    /// of what the host's time of day was steered by since, and of a rate in whole kHz.
    pub(super) bound_ns: f64,
    /// kvm-clock's TSC_STABLE, without which Linux reads it by a system call; Hyper-V's page
    /// is there or not.
    pub(super) is_stable: bool,
}

/// Of a provider with a page; an error says which register or page cannot be read.
pub(super) fn offset(
    machine: &Machine,
    provider: Provider,
    created: Created,
) -> Option<Result<PageOffset, String>> {
    if provider.name() == Kind::Kvm.name() {
        Some(of_kvm_clock(machine, created))
    } else if provider.name() == Kind::HyperV.name() {
        Some(of_hyperv(machine, created))
    } else {
        None
    }
}

fn of_kvm_clock(machine: &Machine, created: Created) -> Result<PageOffset, String> {
    let register = |vcpu, msr| machine.clock_msr(vcpu, msr).map_err(|error| error.to_string());
    // A kernel that suspended may have given the first one back.
    for vcpu in 0..machine.vcpus() {
        let time = register(vcpu, KVM_SYSTEM_TIME)?;
        if time & ENABLED != 0 {
            let wall = register(vcpu, KVM_WALL_CLOCK)?;
            let tsc_offset = machine.tsc_offset(vcpu).map_err(|error| error.to_string())?;
            let at = host_clock::read_with_width();
            return told_by_kvm_clock(
                machine.ram(),
                (time & !ENABLED, wall),
                tsc_offset,
                at,
                created,
            );
        }
    }
    Err("no vCPU has registered a clock page".to_owned())
}

/// Time of day: the wall clock's at its zero, and what it counts since.
fn told_by_kvm_clock(
    ram: &impl GuestMemory,
    (time, wall): (u64, u64),
    tsc_offset: u64,
    at: HostReading,
    created: Created,
) -> Result<PageOffset, String> {
    let time: &TimePage = ram.page(GuestAddress(time)).map_err(|error| error.to_string())?;
    let wall: &WallClockPage = ram.page(GuestAddress(wall)).map_err(|error| error.to_string())?;
    let (time, wall) = (TimeReader::new(time), WallClockReader::new(wall).read());
    let tsc = Ticks(at.clocks.tsc.0.wrapping_add(tsc_offset));
    let (info, told) = (time.info(), time.nanos_at(tsc));
    let wall = wall.map_err(|error| error.to_string())?;
    let told = wall.plus(told.map_err(|error| error.to_string())?);
    let info = info.map_err(|error| error.to_string())?;
    // Each span by itself: what is near 2^60 is no exact float.
    let [since, now] = [created[0], at.clocks];
    let real_ns = signed(now.real.0.0, since.real.0.0);
    let steered_ns = (real_ns - signed(now.boot.0, since.boot.0)).abs();
    Ok(PageOffset {
        offset_ns: signed(told.0, at.clocks.real.0.0),
        bound_ns: reading_ns(&at, created) + steered_ns,
        is_stable: info.flags.contains(Flags::TSC_STABLE),
    })
}

fn of_hyperv(machine: &Machine, created: Created) -> Result<PageOffset, String> {
    let register = machine.clock_msr(0, HV_REFERENCE_TSC).map_err(|error| error.to_string())?;
    if register & ENABLED == 0 {
        return Err("the guest has not enabled the reference TSC page".to_owned());
    }
    let tsc_offset = machine.tsc_offset(0).map_err(|error| error.to_string())?;
    let at = host_clock::read_with_width();
    told_by_hyperv(machine.ram(), register & !0xfff, tsc_offset, at, created)
}

/// Time since the machine was created: half of what that took is not known.
fn told_by_hyperv(
    ram: &impl GuestMemory,
    page: u64,
    tsc_offset: u64,
    at: HostReading,
    created: Created,
) -> Result<PageOffset, String> {
    let page: &ReferencePage = ram.page(GuestAddress(page)).map_err(|error| error.to_string())?;
    let tsc = at.clocks.tsc.0.wrapping_add(tsc_offset);
    let units = ReferenceReader::new(page).units_100ns(&move || tsc);
    let told_ns = units.map_err(|error| error.to_string())? * UNIT_NS;
    let half_ns = signed(created[1].boot.0, created[0].boot.0) / 2.0;
    let passed_ns = signed(at.clocks.boot.0, created[0].boot.0) - half_ns;
    Ok(PageOffset {
        offset_ns: told_ns as f64 - passed_ns,
        bound_ns: reading_ns(&at, created) + half_ns + UNIT_NS as f64,
        is_stable: true,
    })
}

/// Of reading the host's clocks, and of a rate in whole kHz since the machine was created.
fn reading_ns(at: &HostReading, created: Created) -> f64 {
    let ran_ns = signed(at.clocks.boot.0, created[0].boot.0);
    let ns_per_tick = ran_ns / signed(at.clocks.tsc.0, created[0].tsc.0);
    at.width as f64 / 2.0 * ns_per_tick + PAGE_PPM * ran_ns / 1e6
}

#[cfg(test)]
mod tests {
    use guest::layout;
    use pvclock::hyperv::{ReferenceScale, ReferenceWriter};
    use pvclock::kvm_clock::{TimeUpdate, TimeWriter, WallClock, WallClockWriter};
    use pvclock::units::UnixTime;
    use pvclock::{Hertz, Nanos, Scale};
    use vmm::GuestRam;

    use super::*;

    const RATE: Hertz = Hertz(2_000_000_000);
    const S: u64 = 1_000_000_000;
    /// The host booted then.
    const BOOTED_S: u64 = 1_800_000_000;
    const TSC_OFFSET: u64 = 12_345;

    fn host(ns: u64) -> HostClocks {
        let real = UnixTime(Nanos(BOOTED_S * S + ns));
        HostClocks::new(Ticks(2 * ns), Nanos(ns), real)
    }

    /// Created between 100 s and 100.004 s, read 4 s after that.
    const READ_NS: u64 = 104 * S;

    fn created() -> Created {
        [host(100 * S), host(100 * S + 4_000_000)]
    }

    fn reading() -> HostReading {
        HostReading { clocks: host(READ_NS), width: 400 }
    }

    #[test]
    fn a_page_of_kvm_clock_tells_the_hosts_time_of_day() {
        let ram = GuestRam::new(layout::MEMORY_MIN).unwrap();
        let (time, wall) = (0x3000, 0x4000);
        let seconds = (BOOTED_S + 100) as u32;
        let write = |ahead_ns: u64| {
            let page: &WallClockPage = ram.page(GuestAddress(wall)).unwrap();
            WallClockWriter::new(page).write(WallClock { seconds, nanoseconds: 7 });
            let page: &TimePage = ram.page(GuestAddress(time)).unwrap();
            TimeWriter::new(page).write(&TimeUpdate {
                tsc_timestamp: 2 * (READ_NS - S) + TSC_OFFSET,
                system_time: Nanos(3 * S - 7 + ahead_ns),
                scale: Scale::from_hertz(RATE).unwrap(),
                stable: true,
            });
            told_by_kvm_clock(&ram, (time, wall), TSC_OFFSET, reading(), created()).unwrap()
        };
        // Half of 400 cycles, and 0.25 ppm of 4 s.
        let right = PageOffset { offset_ns: 0.0, bound_ns: 1_100.0, is_stable: true };
        assert_eq!(write(0), right);
        assert_eq!(write(5_000), PageOffset { offset_ns: 5_000.0, ..right }, "steady, and wrong");
        let mut steered = reading();
        steered.clocks.real.0.0 += 300;
        let at = told_by_kvm_clock(&ram, (time, wall), TSC_OFFSET, steered, created()).unwrap();
        assert_eq!((at.offset_ns, at.bound_ns), (4_700.0, 1_400.0));
        let nowhere = told_by_kvm_clock(&ram, (u64::MAX, wall), 0, reading(), created());
        assert!(nowhere.is_err());
    }

    #[test]
    fn a_page_of_hyperv_counts_from_when_the_machine_was_created() {
        let ram = GuestRam::new(layout::MEMORY_MIN).unwrap();
        let page: &ReferencePage = ram.page(GuestAddress(0x5000)).unwrap();
        let told = || told_by_hyperv(&ram, 0x5000, TSC_OFFSET, reading(), created());
        assert!(told().is_err(), "switched off");
        let scale = ReferenceScale::from_hertz(RATE).unwrap();
        // At TSC 0 of the guest's: 2 · 100.002 s of ticks before the middle.
        let at_zero = -((100 * S + 2_000_000 + TSC_OFFSET / 2) as i64 / 100);
        ReferenceWriter::new(page).write(scale, at_zero);
        let is = told().unwrap();
        assert!(is.offset_ns.abs() <= 200.0 && is.is_stable, "{is:?}");
        assert_eq!(is.bound_ns, 2_000_000.0 + 1_100.0 + 100.0);
        ReferenceWriter::new(page).write(scale, at_zero + 50_000);
        let ahead = told().unwrap();
        assert!((ahead.offset_ns - 5e6).abs() <= 200.0 && ahead.offset_ns > ahead.bound_ns);
    }
}
