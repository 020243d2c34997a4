//! The producer of VMClock pages in a simulated world: whatever its sources do, true
//! time is within what the page claims.
//!
//! `PARACHRON_LONG=1 cargo test --release -p pvclock-host vmclock` tries a million updates.

use pvclock::units::random::SplitMix64;
use pvclock::vmclock::{CounterId, VmClockFlags, VmClockInfo, VmClockStatus};
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::TscRatio;
use pvclock_host::vmclock::{
    GuestCounter, HostTime, HostVmClock, LeapAnnouncement, TimeSample, TimeSettings,
};
use test_size::size;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// TAI at truth 0: 2026-12-20 00:00:00 UTC, twelve days before a month's end.
const EPOCH: u64 = (1_797_724_800 + 37) * SECOND;

/// Updates of all worlds: the shares that are asserted below need ten worlds.
fn updates() -> u64 {
    size(20_000, 1_000_000)
}

/// Many magnitudes: 2^from to 2^to.
fn magnitude(chance: &mut SplitMix64, from: u64, to: u64) -> u64 {
    let top = 1 << (from + chance.below(to - from));
    top + chance.below(top)
}

/// How a source behaves until it changes.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    /// Within its bound; its error moves as a slew would have it.
    Honest,
    /// Off by so many ns, and it does not say so.
    Lies(i64),
    /// Wrong about UTC only.
    LiesAboutTai,
    Silent,
}

struct World {
    chance: SplitMix64,
    truth: u64,
    tsc: u64,
    hz: u64,
    wander_ppb: u64,
    /// A leap second at the end of this day, counted from truth 0.
    leap_at: u64,
    sources: Vec<Behaviour>,
}

impl World {
    fn new(seed: u64, sources: usize) -> Self {
        let mut chance = SplitMix64::new(seed);
        let hz = 1_000_000_000 + chance.below(4_000_000_000);
        let tsc = chance.below(1 << 60);
        let leap_at = 12 * DAY;
        let sources = vec![Behaviour::Honest; sources];
        Self { chance, truth: 0, tsc, hz, wander_ppb: 1_000, leap_at, sources }
    }

    /// Time passes; the oscillator's rate is anywhere within half its wander.
    fn pass(&mut self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            let part = left.min(SECOND + self.chance.below(600 * SECOND));
            let ppb = self.chance.within(self.wander_ppb / 2);
            let cycles = u128::from(part) * u128::from(self.hz) / u128::from(SECOND);
            let off = cycles.cast_signed() * i128::from(ppb) / 1_000_000_000;
            self.tsc = self.tsc.wrapping_add((cycles.cast_signed() + off) as u64);
            self.truth += part;
            left -= part;
        }
    }

    fn tai_offset(&self) -> i32 {
        if self.truth < self.leap_at { 37 } else { 38 }
    }

    fn leap(&self) -> LeapAnnouncement {
        match self.truth.cast_signed() - self.leap_at.cast_signed() {
            -86_400_000_000_000..0 => LeapAnnouncement::Insert,
            0..1_000_000_000 => LeapAnnouncement::Inserting,
            1_000_000_000..86_400_000_000_000 => LeapAnnouncement::Inserted,
            _ => LeapAnnouncement::None,
        }
    }

    /// What is asked of the sources, one after the other; fewer than half lie.
    fn samples(&mut self) -> Vec<TimeSample> {
        let liars = (self.sources.len() - 1) / 2;
        for index in 0..self.sources.len() {
            if self.chance.one_in(12) {
                let may_lie = index < liars;
                self.sources[index] = match self.chance.below(5) {
                    0 if may_lie => {
                        let by = magnitude(&mut self.chance, 4, 60).cast_signed();
                        Behaviour::Lies(if self.chance.one_in(2) { by } else { -by })
                    }
                    1 if may_lie => Behaviour::LiesAboutTai,
                    2 => Behaviour::Silent,
                    _ => Behaviour::Honest,
                };
            }
        }
        let mut samples = Vec::new();
        for source in self.sources.clone() {
            let wait = self.chance.below(20_000_000);
            self.pass(wait);
            let max_error = magnitude(&mut self.chance, 6, 26);
            let off = self.chance.within(max_error);
            let tai = EPOCH + self.truth;
            let (ns, offset) = match source {
                Behaviour::Honest => (tai.saturating_add_signed(off), self.tai_offset()),
                Behaviour::Lies(by) => (tai.saturating_add_signed(by), self.tai_offset()),
                Behaviour::LiesAboutTai => (tai.saturating_add_signed(off), 11),
                Behaviour::Silent => continue,
            };
            let sample = TimeSample::new(Ticks(self.tsc), Nanos(ns), Nanos(max_error), offset);
            samples.push(sample.with_leap(self.leap()));
        }
        samples
    }
}

/// That the truth is within the claim at this moment; its bound, if it has one.
fn check(info: &VmClockInfo, guest: u64, truth: u64, what: &str) -> Option<u64> {
    if info.counter_id == CounterId::INVALID || info.clock_status == VmClockStatus::UNRELIABLE {
        return None;
    }
    let time = info.time_at(guest).unwrap_or_else(|error| panic!("{what}: {error}"));
    let ns = time.seconds * SECOND + u64::from(time.subsecond_nanos());
    let (tai, bound) = (EPOCH + truth, time.max_error.unwrap().0);
    assert!(ns.abs_diff(tai) <= bound, "{what}: {ns} where {tai} is right, ± {bound}: {info:?}");
    Some(bound)
}

fn counter(world: &mut World) -> GuestCounter {
    let offset = world.chance.bits();
    let khz = world.hz / 1_000;
    let guest = khz / 2 + world.chance.below(khz);
    let scaled = TscRatio::new(Hertz(guest * 1_000), Hertz(khz * 1_000), 48);
    let ratio = scaled.ok().filter(|_| world.chance.one_in(2)).unwrap_or(TscRatio::ONE);
    GuestCounter { ratio, offset }
}

fn guest_tsc(guest: GuestCounter, tsc: u64) -> u64 {
    guest.ratio.apply(tsc).wrapping_add(guest.offset)
}

/// One world: so many updates; the bounds right after those with samples.
fn run(seed: u64, updates: u64) -> (Vec<u64>, [u64; 5]) {
    let sources = [1, 3, 5][seed as usize % 3];
    let mut world = World::new(seed, sources);
    let nominal = world.hz.saturating_add_signed(world.chance.within(world.hz / 4_000));
    let settings = TimeSettings::new(Hertz(nominal)).changed(|new| {
        new.sources = sources;
        new.wander_ppb = world.wander_ppb;
    });
    let mut time = HostTime::new(settings);
    let mut guest = counter(&mut world);
    let (mut page, _) = HostVmClock::new(Default::default(), guest, &time, Ticks(world.tsc));
    let (mut bounds, mut standings) = (Vec::new(), [0; 5]);
    let mut marks = page.marks();
    for update in 0..updates {
        let what = format!("world {seed}, update {update}");
        // Hours without any source, now and then.
        let holdover = world.chance.one_in(40);
        let samples = if holdover { Vec::new() } else { world.samples() };
        let status = time.update(Ticks(world.tsc), &samples);
        standings[usize::from(status.0)] += 1;
        let mut info = page.update(&time, Ticks(world.tsc)).info;
        assert_eq!((info.disruption_marker, info.vm_generation), marks, "{what}");
        if world.chance.one_in(30) {
            guest = counter(&mut world);
            let now = Ticks(world.tsc);
            let restored = world.chance.one_in(2);
            info = if restored {
                page.restored(guest, world.chance.bits(), &time, now).info
            } else {
                page.moved(guest, &time, now).info
            };
            assert_ne!(info.disruption_marker, marks.0, "{what}");
            assert_eq!(info.vm_generation != marks.1, restored, "{what}");
            marks = page.marks();
        }
        let bound = check(&info, guest_tsc(guest, world.tsc), world.truth, &what);
        if !samples.is_empty() && status == VmClockStatus::SYNCHRONISED {
            bounds.extend(bound);
        }
        if info.flags.contains(VmClockFlags::TAI_OFFSET_VALID) {
            // Sources that were asked just before the leap second say that it comes.
            let is_right = i32::from(info.tai_offset_s) == -world.tai_offset();
            assert!(is_right || info.leap_indicator == 1, "{what}: {info:?}");
        }
        // The guest reads the page for a while, without an update.
        for _ in 0..3 {
            let most = if holdover { 3_600 * SECOND } else { 30 * SECOND };
            let wait = world.chance.below(most);
            world.pass(wait);
            check(&info, guest_tsc(guest, world.tsc), world.truth, &what);
        }
    }
    (bounds, standings)
}

#[test]
fn the_truth_is_within_what_the_page_claims() {
    let (mut bounds, mut standings) = (Vec::new(), [0; 5]);
    let worlds = updates().div_ceil(2_000);
    for seed in 1..=worlds {
        let (more, seen) = run(seed, updates() / worlds);
        bounds.extend(more);
        standings.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
    }
    bounds.sort_unstable();
    let [least, median, most] = [0, bounds.len() / 2, bounds.len() - 1].map(|index| bounds[index]);
    println!("standings {standings:?}; bound after an update: {least}, {median}, {most} ns");
    let [unknown, _, synchronised, free_running, unreliable] = standings;
    assert!(synchronised > updates() / 2 && free_running > 0 && unknown < updates() / 100);
    // A bound of a second would be kept easily: sources say 64 ns to 67 ms.
    assert!(median < 1_000_000, "{median} ns");
    // At a start with an honest source silent, the other may be a liar years away.
    assert!(unreliable < updates() / 1_000, "{unreliable}");
}

fn sample(tsc: u64, tai: u64, error: u64) -> TimeSample {
    TimeSample::new(Ticks(tsc), Nanos(tai), Nanos(error), 37)
}

#[test]
fn a_time_that_steps_is_unreliable_until_it_is_confirmed() {
    let mut time = HostTime::new(TimeSettings::new(Hertz(SECOND)));
    let at = |s: u64, by: u64| sample(s * SECOND, EPOCH + s * SECOND + by, 1_000);
    let now = |s: u64| Ticks(s * SECOND);
    assert_eq!(time.update(now(0), &[]), VmClockStatus::UNKNOWN);
    assert_eq!(time.update(now(1), &[at(1, 0)]), VmClockStatus::SYNCHRONISED);
    assert_eq!(time.update(now(2), &[]), VmClockStatus::FREE_RUNNING);
    // 5 s ahead: somebody was wrong, then or now.
    assert_eq!(time.update(now(3), &[at(3, 5 * SECOND)]), VmClockStatus::UNRELIABLE);
    assert_eq!(time.update(now(4), &[]), VmClockStatus::UNRELIABLE);
    assert_eq!(time.update(now(5), &[at(5, 5 * SECOND)]), VmClockStatus::SYNCHRONISED);
    let (tai, error) = time.time_at(now(6)).unwrap();
    assert!(tai.0.abs_diff(EPOCH + 11 * SECOND) <= error.0 && error.0 < 600_000, "{tai} {error}");
    // Two of two do not outvote each other: the line goes on.
    let [one, other] = [at(7, 5 * SECOND), at(7, 0)];
    assert_eq!(time.update(now(7), &[one, other]), VmClockStatus::FREE_RUNNING);
    time.forget();
    assert_eq!(time.update(now(8), &[]), VmClockStatus::UNKNOWN);
    assert_eq!(time.time_at(now(8)), None);
}

#[test]
fn in_holdover_the_bound_grows_until_it_is_useless_and_utc_ends_with_the_month() {
    let mut time = HostTime::new(TimeSettings::new(Hertz(SECOND)).changed(|new| {
        new.tsc_error_ppb = 1_000;
    }));
    let (page, _) = HostVmClock::new(Default::default(), GuestCounter::HOST, &time, Ticks(0));
    time.update(Ticks(0), &[sample(0, EPOCH, 100)]);
    let mut info = |days: u64| {
        time.update(Ticks(days * DAY), &[]);
        page.update(&time, Ticks(days * DAY)).info
    };
    let valid = |info: &VmClockInfo| info.flags.contains(VmClockFlags::TAI_OFFSET_VALID);
    let (last, next, far) = (info(11), info(13), info(30));
    assert!(valid(&last) && last.clock_status == VmClockStatus::FREE_RUNNING);
    assert!(!valid(&next), "a leap second may have come");
    assert_eq!(next.clock_status, VmClockStatus::UNRELIABLE, "1 ppm of 13 days are 1.1 s");
    assert_eq!(far.clock_status, VmClockStatus::UNRELIABLE);
}

#[test]
fn leap_seconds_are_announced_as_the_sources_agree() {
    let settings = TimeSettings::new(Hertz(SECOND)).changed(|new| new.sources = 3);
    let mut time = HostTime::new(settings);
    let (page, _) = HostVmClock::new(Default::default(), GuestCounter::HOST, &time, Ticks(0));
    let states = [
        LeapAnnouncement::Insert,
        LeapAnnouncement::Inserting,
        LeapAnnouncement::Inserted,
        LeapAnnouncement::Delete,
        LeapAnnouncement::Deleted,
    ];
    for (second, (leap, indicator)) in states.into_iter().zip([1, 3, 4, 2, 5]).enumerate() {
        let second = second as u64 * SECOND;
        let one = sample(second, EPOCH + second, 100);
        time.update(Ticks(second), &[one.with_leap(leap), one.with_leap(leap), one]);
        assert_eq!(page.update(&time, Ticks(second)).info.leap_indicator, indicator);
    }
    // They disagree, and no two of three say the same.
    let one = sample(6 * SECOND, EPOCH + 6 * SECOND, 100);
    let all =
        [one, one.with_leap(LeapAnnouncement::Insert), one.with_leap(LeapAnnouncement::Delete)];
    time.update(Ticks(6 * SECOND), &all);
    let info = page.update(&time, Ticks(6 * SECOND)).info;
    assert!(!info.flags.contains(VmClockFlags::TAI_OFFSET_VALID));
    assert_eq!(info.clock_status, VmClockStatus::SYNCHRONISED, "TAI is known");
}

/// vmclock-abi.h: a device with the flag notifies each time that seq_count becomes even,
/// so that poll(2) on /dev/vmclock0 sees every update.
#[test]
fn a_guest_is_notified_of_every_update_or_of_none() {
    let mut time = HostTime::new(TimeSettings::new(Hertz(SECOND)));
    for notifies in [true, false] {
        let quiet = pvclock_host::vmclock::VmClockSettings::default();
        let settings = if notifies { quiet.notifying() } else { quiet };
        let (mut page, first) = HostVmClock::new(settings, GuestCounter::HOST, &time, Ticks(0));
        time.update(Ticks(0), &[sample(0, EPOCH, 100)]);
        let (_, generation) = page.marks();
        let updates = [
            first,
            page.update(&time, Ticks(0)),
            page.update(&time, Ticks(9)),
            page.moved(GuestCounter::HOST, &time, Ticks(10)),
            page.restored(GuestCounter::HOST, generation, &time, Ticks(11)),
        ];
        for update in updates {
            let is_promised = update.info.flags.contains(VmClockFlags::NOTIFICATION_PRESENT);
            assert_eq!((is_promised, update.notify), (notifies, notifies), "{update:?}");
        }
    }
}

#[test]
fn a_restored_page_has_another_marker_and_another_generation() {
    let mut time = HostTime::new(TimeSettings::new(Hertz(SECOND)));
    time.update(Ticks(0), &[sample(0, EPOCH, 100)]);
    let (mut page, _) = HostVmClock::new(Default::default(), GuestCounter::HOST, &time, Ticks(0));
    let (marker, generation) = page.marks();
    let restored = page.restored(GuestCounter::HOST, generation, &time, Ticks(11));
    assert_eq!(restored.info.vm_generation, generation + 1, "a new one, whatever was given");
    assert_eq!(restored.info.disruption_marker, marker + 1);
}
