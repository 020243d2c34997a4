//! Publishes this machine's time for its guests, as a VMClock page in a file
//! (docs/protocols/host-time-file.md): a VMM writes its guests' pages by it.

use std::path::Path;

use disruptions::{Disruption, Kind};
use facts::Sample;
use host::vmclock::{
    GuestCounter, HostTime, HostVmClock, LeapAnnouncement, TimeSample, TimeSettings,
    VmClockSettings,
};
use keeper::event::{KeeperEvent, NotUsed};
use linux::adjtimex::{self, KernelDiscipline};
use linux::clock::LinuxClock;
use linux::vmclock::PublishedVmClock;
use pvclock::units::Bracket;
use pvclock::vmclock::{VmClockFlags, VmClockInfo};
use pvclock::{Hertz, Nanos, Ticks};

use crate::clockbound::counted::{DisruptionCount, middle, within_tsc};
use crate::settings::Settings;

/// The file; none where nothing is published, or no more.
#[derive(Debug, Default)]
pub(crate) struct HostTimeFile(Option<PublishedHostTime>);

#[derive(Debug)]
struct PublishedHostTime {
    file: PublishedVmClock,
    /// What guests that have mapped it may have seen.
    marks: (u64, u64),
    tsc: DisruptionCount,
    /// Once the TSC's rate is known.
    time: Option<(HostTime, HostVmClock)>,
}

impl HostTimeFile {
    /// What the settings want; or nothing, and why.
    pub(crate) fn new(settings: &Settings, not_used: &mut Vec<NotUsed>) -> Self {
        let Some(path) = settings.host_time.as_ref().filter(|_| !settings.dry_run) else {
            return Self::default();
        };
        match PublishedHostTime::open(path) {
            Ok(published) => Self(Some(published)),
            Err(why) => {
                not_used.push(NotUsed { source: name(path), why: why.to_string() });
                Self::default()
            }
        }
    }

    /// Whether nothing is published.
    pub(crate) fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Takes a sample of the clocks.
    pub(crate) fn note_sample(&mut self, sample: &Sample) {
        self.0.iter_mut().for_each(|published| published.tsc.note_sample(sample));
    }

    /// Publishes the time as it is known now. An event where it ends because it cannot
    /// be.
    pub(crate) fn publish(&mut self, settings: &Settings) -> Option<KeeperEvent> {
        let published = self.0.as_mut()?;
        let rate = published.tsc.rate();
        let tai = within_tsc(LinuxClock::Tai);
        let why = published.update(tai, rate, adjtimex::read().ok().as_ref()).err()?.to_string();
        self.0 = None;
        let source = settings.host_time.as_deref().map_or_else(String::new, name);
        Some(KeeperEvent::SourceUnreachable { source, why })
    }

    /// What happened to this machine's TSC happened to its guests' as well.
    pub(crate) fn note_disruptions(&mut self, disruptions: &[Disruption]) {
        let disturbs = |kind| {
            matches!(
                kind,
                Kind::Suspend
                    | Kind::Pause
                    | Kind::SnapshotRestored
                    | Kind::Migrated
                    | Kind::CounterDisrupted
            )
        };
        if disruptions.iter().any(|one| one.kinds.iter().any(disturbs)) {
            self.0.iter_mut().for_each(PublishedHostTime::disturbed);
        }
    }
}

/// A page with these marks, without the time.
fn timeless((marker, generation): (u64, u64)) -> VmClockInfo {
    let nothing = HostTime::new(TimeSettings::new(Hertz(1)));
    let (settings, host) = (VmClockSettings::default(), GuestCounter::HOST);
    without_generation(
        HostVmClock::continued(settings, host, marker, generation, &nothing, Ticks(0)).1.info,
    )
}

/// The host is no virtual machine of its own making: guests have their VMM's generation.
fn without_generation(info: VmClockInfo) -> VmClockInfo {
    let flags = info.flags.0 & !VmClockFlags::VM_GENERATION_PRESENT.0;
    VmClockInfo { flags: VmClockFlags(flags), ..info }
}

fn name(path: &Path) -> String {
    format!("host time {}", path.display())
}

impl PublishedHostTime {
    fn open(path: &Path) -> std::io::Result<Self> {
        let (file, found) = PublishedVmClock::open(path, &timeless((0, 0)))?;
        let marks = (found.disruption_marker, found.vm_generation);
        let mut published = Self { file, marks, tsc: DisruptionCount::default(), time: None };
        // Nobody knows what happened since the last one wrote it.
        published.disturbed();
        Ok(published)
    }

    /// No time that was told holds any more, nor is the TSC's rate known.
    fn disturbed(&mut self) {
        (self.tsc, self.time) = (DisruptionCount::default(), None);
        self.marks.0 = self.marks.0.wrapping_add(1);
        // If it fails, so does the update that follows, and is reported.
        let _ = self.file.write(&timeless(self.marks));
    }

    /// `tai` is CLOCK_TAI within the TSC.
    fn update(
        &mut self,
        tai: Option<Bracket>,
        rate: Option<Hertz>,
        discipline: Option<&KernelDiscipline>,
    ) -> std::io::Result<()> {
        let (Some(tai), Some(rate)) = (tai, rate) else {
            // The kernel does not count the TSC any more: nor is the time told by it.
            if self.time.is_some() {
                self.disturbed();
            }
            return Ok(());
        };
        let now = Ticks(middle(&tai));
        if self.time.is_none() {
            let time = HostTime::new(TimeSettings::new(rate));
            let (settings, host) = (VmClockSettings::default(), GuestCounter::HOST);
            let (marker, generation) = self.marks;
            let (clock, _) = HostVmClock::continued(settings, host, marker, generation, &time, now);
            self.time = Some((time, clock));
        }
        let Some((time, clock)) = &mut self.time else { return Ok(()) };
        time.update(now, discipline.and_then(|it| sample(&tai, rate, it)).as_slice());
        self.file.write(&without_generation(clock.update(time, now).info))
    }
}

impl Drop for PublishedHostTime {
    /// Nobody follows the time from now on.
    fn drop(&mut self) {
        let _ = self.update(within_tsc(LinuxClock::Tai), self.tsc.rate(), None);
    }
}

/// What the kernel's clock says, where its daemon states how far it may be off, and
/// how many leap seconds there were.
fn sample(tai: &Bracket, rate: Hertz, discipline: &KernelDiscipline) -> Option<TimeSample> {
    let stated_ns = discipline.stated_error_ns().filter(|_| discipline.tai_s != 0)?;
    let half_ns = u128::from(tai.width()?) * 500_000_000 / u128::from(rate.0.max(1)) + 1;
    let error_ns = stated_ns.checked_add(u64::try_from(half_ns).ok()?)?;
    let at = Ticks(middle(tai));
    let leap = LeapAnnouncement::of_adjtimex(discipline.state);
    let sample = TimeSample::new(at, Nanos(tai.inner), Nanos(error_ns), discipline.tai_s);
    Some(sample.with_leap(leap))
}

#[cfg(test)]
mod tests {
    use linux::vmclock::MappedVmClock;
    use pvclock::vmclock::{CounterId, VmClockStatus};

    use super::*;

    const KEPT: KernelDiscipline = KernelDiscipline {
        state: libc::TIME_OK,
        offset: 0,
        frequency: 0,
        max_error_us: 40,
        estimated_error_us: 10,
        status: libc::STA_PLL,
        tick_us: 10_000,
        tai_s: 37,
    };
    const RATE: Hertz = Hertz(2_000_000_000);
    const BEGIN_NS: u64 = 1_800_000_037_000_000_000;

    /// CLOCK_TAI, so long after the beginning, of a TSC of 2 GHz.
    fn tai(after_ns: u64) -> Option<Bracket> {
        let tsc = 9_000 + 2 * after_ns;
        Some(Bracket { before: tsc - 100, inner: BEGIN_NS + after_ns, after: tsc + 100 })
    }

    #[test]
    fn a_vmm_reads_the_time_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host-time");
        let mut published = PublishedHostTime::open(&path).unwrap();
        let vmm = MappedVmClock::open(&path).unwrap();
        let read = || vmm.reader().unwrap().info().unwrap();
        assert_eq!(read().counter_id, CounterId::INVALID);
        published.update(tai(0), None, Some(&KEPT)).unwrap();
        assert_eq!(read().clock_status, VmClockStatus::UNKNOWN, "the rate is not known");
        for second in 0..10 {
            published.update(tai(second * 1_000_000_000), Some(RATE), Some(&KEPT)).unwrap();
        }
        let (info, at_ns) = (read(), 9_500_000_000);
        assert_eq!(info.clock_status, VmClockStatus::SYNCHRONISED);
        let utc = info.time_at(9_000 + 2 * at_ns).unwrap().utc().unwrap();
        let truth_ns = (BEGIN_NS + at_ns - 37_000_000_000).cast_signed();
        assert!(utc.since_1970_ns.abs_diff(truth_ns) <= utc.max_error.0, "{utc:?}");
        // 40 µs, half of the reading, and half a second at 500 ppm at the most.
        assert!(utc.max_error.0 < 300_000, "{utc:?}");

        assert_eq!(info.counter_id, CounterId::NATIVE);
        assert_eq!(info.flags.0 & VmClockFlags::VM_GENERATION_PRESENT.0, 0);

        // The kernel gave the TSC up.
        published.update(tai(9_600_000_000), None, Some(&KEPT)).unwrap();
        let given_up = read();
        assert_eq!(
            (given_up.counter_id, given_up.clock_status),
            (CounterId::INVALID, VmClockStatus::UNKNOWN)
        );
        published.disturbed();
        assert_eq!(read().clock_status, VmClockStatus::UNKNOWN);
        assert_ne!(read().disruption_marker, info.disruption_marker);
        published.update(tai(0), Some(RATE), Some(&KEPT)).unwrap();
        published.update(tai(1_000_000_000), Some(RATE), None).unwrap();
        assert_eq!(read().clock_status, VmClockStatus::FREE_RUNNING);
        drop(published);
        let _next = PublishedHostTime::open(&path).unwrap();
        assert_eq!(read().clock_status, VmClockStatus::UNKNOWN);
    }

    #[test]
    fn a_clock_that_nobody_vouches_for_has_no_time() {
        let of = |discipline: &KernelDiscipline| sample(&tai(0).unwrap(), RATE, discipline);
        assert_eq!(of(&KEPT).unwrap().max_error, Nanos(40_051));
        assert_eq!(of(&KernelDiscipline { state: libc::TIME_ERROR, ..KEPT }), None);
        assert_eq!(of(&KernelDiscipline { max_error_us: 16_000_000, ..KEPT }), None);
        assert_eq!(of(&KernelDiscipline { tai_s: 0, ..KEPT }), None);
        let due = KernelDiscipline { state: libc::TIME_INS, ..KEPT };
        assert_eq!(of(&due).unwrap().leap, LeapAnnouncement::Insert);
    }
}
