use std::sync::OnceLock;

use host::HostClocks;
use pvclock::units::UnixTime;
use pvclock::vmclock::{CounterId, VmClockStatus};

use super::*;

const RATE: Hertz = Hertz(2_000_000_000);

#[test]
fn a_reading_is_taken_for_the_truth_within_its_width() {
    let real = 1_800_000_000_000_000_000;
    let reading = |tai_offset_s| HostReading {
        clocks: HostClocks::new(Ticks(9_000), Nanos(7), UnixTime(Nanos(real)))
            .changed(|new| new.tai_offset_s = tai_offset_s),
        width: 40,
    };
    let taken = sample(&reading(None), RATE).unwrap();
    // Half of 40 cycles of 2 GHz, and rounding.
    assert_eq!((taken.tai, taken.max_error), (Nanos(real + 37_000_000_000), Nanos(11)));
    let own = sample(&reading(Some(38)), RATE).unwrap();
    assert_eq!(own.tai_offset_s, 38, "the kernel's own");
    let early =
        HostReading { clocks: HostClocks::new(Ticks(9), Nanos(7), UnixTime(Nanos(5))), width: 4 };
    let early =
        HostReading { clocks: early.clocks.changed(|new| new.tai_offset_s = Some(-1)), ..early };
    assert_eq!(sample(&early, RATE), None);
}

/// Of this host's TSC, to some ppm.
fn this_rate() -> Hertz {
    static RATE: OnceLock<Hertz> = OnceLock::new();
    *RATE.get_or_init(|| {
        let first = host_clock::read();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let last = host_clock::read();
        let ns = u128::from(last.boot.0 - first.boot.0);
        Hertz((u128::from(last.tsc.0 - first.tsc.0) * 1_000_000_000 / ns) as u64)
    })
}

struct World {
    ram: GuestRam,
    device: MachineVmClock,
}

impl World {
    fn new(restoring: Option<Restoring>) -> Self {
        let ram = GuestRam::new(guest::layout::MEMORY_MIN).unwrap();
        // A saved machine's memory has the page.
        let old = VmClockInfo { size: 4096, ..VmClockInfo::ZERO };
        ram.write(ADDRESS, &old.to_bytes()).unwrap();
        let device = MachineVmClock::start(this_rate(), vec![500, 500], restoring, &ram).unwrap();
        Self { ram, device }
    }

    fn info(&self) -> VmClockInfo {
        read(&self.ram).unwrap()
    }

    /// The host's time in the page, for a guest whose TSC is ahead by so much.
    fn assert_right(&self, tsc_offset: u64) -> VmClockInfo {
        let (info, now) = (self.info(), host_clock::read_with_width());
        let utc = info.time_at(now.clocks.tsc.0.wrapping_add(tsc_offset)).unwrap().utc().unwrap();
        let off = utc.since_1970_ns.abs_diff(now.clocks.real.0.0.cast_signed());
        let reading_ns = now.width * 1_000_000_000 / this_rate().0;
        assert!(off <= utc.max_error.0 + reading_ns, "{off} ns of {utc:?}");
        info
    }
}

#[test]
fn the_page_tells_the_time_until_its_counter_does_not_count() {
    let mut world = World::new(None);
    let first = world.assert_right(500);
    assert_eq!((first.clock_status, first.tai_offset_s), (VmClockStatus::SYNCHRONISED, -37));
    world.device.tick(&world.ram);
    assert_eq!(world.assert_right(500).disruption_marker, first.disruption_marker);

    world.device.tsc_set(VcpuId(1), 700, &world.ram);
    let apart = world.info();
    assert_eq!(
        (apart.counter_id, apart.clock_status),
        (CounterId::INVALID, VmClockStatus::UNKNOWN)
    );
    assert_ne!(apart.disruption_marker, first.disruption_marker);
    world.device.tsc_set(VcpuId(0), 700, &world.ram);
    let together = world.assert_right(700);
    assert_ne!(together.disruption_marker, apart.disruption_marker);
    world.device.tsc_set(VcpuId(0), 700, &world.ram);
    world.device.tsc_set(VcpuId(9), 1, &world.ram);
    assert_eq!(world.info().disruption_marker, together.disruption_marker, "nothing changed");

    world.device.host_has_tsc(false, &world.ram);
    world.device.tick(&world.ram);
    assert_eq!(world.info().counter_id, CounterId::INVALID);
    world.device.host_has_tsc(true, &world.ram);
    world.assert_right(700);
}

#[test]
fn a_restored_page_is_marked_and_right_at_once() {
    let restoring = Restoring { marks: (41, 7), generation: 9 };
    let info = World::new(Some(restoring)).assert_right(500);
    assert_eq!((info.disruption_marker, info.vm_generation), (42, 9));
    let same = Restoring { marks: (41, 9), generation: 9 };
    assert_ne!(World::new(Some(same)).info().vm_generation, 9, "never the one it had");
}

#[test]
fn a_guest_that_writes_to_its_page_harms_itself_alone() {
    let mut world = World::new(None);
    for junk in [0xff, 0, 0x55] {
        world.ram.write(ADDRESS, &[junk; 4096]).unwrap();
        world.device.tick(&world.ram);
        assert_eq!(read(&world.ram), None, "no magic");
    }
    let page = VmClockInfo { size: 4096, seq_count: 7, ..VmClockInfo::ZERO };
    world.ram.write(ADDRESS, &page.to_bytes()).unwrap();
    world.device.tick(&world.ram);
    world.assert_right(500);
}
