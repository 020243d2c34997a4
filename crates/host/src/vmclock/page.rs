//! A VM's page: the host's time in the guest's TSC, and the marks of disruption.

use pvclock::vmclock::{CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus};
use pvclock::{Nanos, Ticks};

use super::host_time::{HostTime, LeapAnnouncement};
use super::line::{TimeLine, ns_up};
use crate::TscRatio;

/// Where a guest's TSC comes from: the host's, scaled, plus an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestCounter {
    /// Guest cycles for each cycle of the host's TSC.
    pub ratio: TscRatio,
    /// Guest TSC less the host's (scaled), wrapping; one for all vCPUs.
    pub offset: u64,
}

impl GuestCounter {
    /// The host's own.
    pub const HOST: Self = Self { ratio: TscRatio::ONE, offset: 0 };

    const fn guest_tsc(self, host: Ticks) -> u64 {
        self.ratio.apply(host.0).wrapping_add(self.offset)
    }
}

/// What does not change in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmClockSettings {
    /// Bytes of the region.
    pub size: u32,
    /// The device notifies its guest of each update (vmclock-abi.h,
    /// VMCLOCK_FLAG_NOTIFICATION_PRESENT).
    pub notifies: bool,
}

impl Default for VmClockSettings {
    fn default() -> Self {
        Self { size: 4_096, notifies: false }
    }
}

impl VmClockSettings {
    /// The same, of a device that notifies its guest.
    #[must_use]
    pub const fn notifying(self) -> Self {
        Self { notifies: true, ..self }
    }
}

/// A page's new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the page is to be written"]
pub struct PageUpdate {
    /// For [`VmClockWriter::write`](pvclock::vmclock::VmClockWriter::write).
    pub info: VmClockInfo,
    /// Notify the guest once it is written: its page promises a notification of each.
    pub notify: bool,
}

/// A VM's page.
///
/// ```
/// use pvclock_host::vmclock::{GuestCounter, HostTime, TimeSample, TimeSettings, HostVmClock};
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let mut time = HostTime::new(TimeSettings::new(Hertz(2_000_000_000)));
/// let (mut page, update) = HostVmClock::new(Default::default(), GuestCounter::HOST, &time, Ticks(0));
/// assert_eq!(update.info.clock_status.0, 0, "unknown");
///
/// let tai = Nanos(1_800_000_037_000_000_000);
/// time.update(Ticks(5_000), &[TimeSample::new(Ticks(5_000), tai, Nanos(250), 37)]);
/// let info = page.update(&time, Ticks(5_000)).info;
/// let utc = info.time_at(2_000_005_000)?.utc()?;
/// assert!(utc.since_1970_ns.abs_diff(1_800_000_001_000_000_000) <= 1);
/// // 500 ppm of a second, 250 ns, and rounding.
/// assert_eq!(utc.max_error, Nanos(500_256));
///
/// // Restored from a snapshot: written before a vCPU runs.
/// let restored = page.restored(GuestCounter::HOST, 77, &time, Ticks(9_000)).info;
/// assert_ne!(restored.disruption_marker, info.disruption_marker);
/// assert_eq!(restored.vm_generation, 77);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostVmClock {
    settings: VmClockSettings,
    guest: GuestCounter,
    disruption_marker: u64,
    vm_generation: u64,
}

impl HostVmClock {
    /// A new VM's page, to be written before a vCPU runs.
    pub fn new(
        settings: VmClockSettings,
        guest: GuestCounter,
        time: &HostTime,
        now: Ticks,
    ) -> (Self, PageUpdate) {
        Self::continued(settings, guest, 0, 0, time, now)
    }

    /// That of a saved VM, with the marks that it had: then [`moved`](Self::moved) or
    /// [`restored`](Self::restored).
    pub fn continued(
        settings: VmClockSettings,
        guest: GuestCounter,
        disruption_marker: u64,
        vm_generation: u64,
        time: &HostTime,
        now: Ticks,
    ) -> (Self, PageUpdate) {
        let page = Self { settings, guest, disruption_marker, vm_generation };
        let update = page.update(time, now);
        (page, update)
    }

    /// Its disruption marker and VM generation, to be saved with the VM.
    pub const fn marks(&self) -> (u64, u64) {
        (self.disruption_marker, self.vm_generation)
    }

    /// The content now: after each [`HostTime::update`].
    pub fn update(&self, time: &HostTime, now: Ticks) -> PageUpdate {
        PageUpdate { info: self.info(time, now), notify: self.settings.notifies }
    }

    /// The VM was migrated, or its TSC changed: write this before a vCPU runs again.
    pub fn moved(&mut self, guest: GuestCounter, time: &HostTime, now: Ticks) -> PageUpdate {
        self.guest = guest;
        // A value that it never had, in 2^64 disruptions.
        self.disruption_marker = self.disruption_marker.wrapping_add(1);
        self.update(time, now)
    }

    /// The VM was restored from a snapshot, or is a copy: as [`moved`](Self::moved), with
    /// a new generation, which is to be random, as other copies have theirs.
    pub fn restored(
        &mut self,
        guest: GuestCounter,
        generation: u64,
        time: &HostTime,
        now: Ticks,
    ) -> PageUpdate {
        let is_new = generation != self.vm_generation;
        self.vm_generation = if is_new { generation } else { generation.wrapping_add(1) };
        self.moved(guest, time, now)
    }

    fn info(&self, time: &HostTime, now: Ticks) -> VmClockInfo {
        let mut info = VmClockInfo {
            size: self.settings.size,
            counter_id: CounterId::INVALID,
            time_type: TimeType::TAI,
            disruption_marker: self.disruption_marker,
            flags: VmClockFlags::VM_GENERATION_PRESENT,
            clock_status: VmClockStatus::UNKNOWN,
            vm_generation: self.vm_generation,
            ..VmClockInfo::ZERO
        };
        if self.settings.notifies {
            info.flags = info.flags.union(VmClockFlags::NOTIFICATION_PRESENT);
        }
        if let Some(line) = time.line_at(now) {
            self.tell_time(&mut info, line, time, now);
        }
        info
    }

    fn tell_time(&self, info: &mut VmClockInfo, line: TimeLine, time: &HostTime, now: Ticks) {
        let (raw, one) = (self.guest.ratio.raw(), TscRatio::ONE.raw());
        let Some(period) = line.period.in_cycles(raw.into(), one.into()) else { return };
        // The guest's TSC is cut to whole cycles, at the update and when it is read.
        let rounding = ns_up(period.elapsed(2)) + 1;
        info.counter_id = CounterId::NATIVE;
        info.clock_status = time.status();
        info.counter_value = self.guest.guest_tsc(now);
        (info.period, info.period_shift) = (period.length, period.shift);
        info.period_max_error = period.error;
        (info.time_sec, info.time_frac) = ((line.time >> 64) as u64, line.time as u64);
        info.time_max_error = Nanos(line.error.0.saturating_add(rounding));
        info.flags = info
            .flags
            .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
            .union(VmClockFlags::TIME_MAX_ERROR_VALID);
        // The page has UTC less TAI.
        let utc = time.utc();
        let offset = utc.and_then(|utc| i16::try_from(-i64::from(utc.tai_offset_s)).ok());
        if let (Some(utc), Some(offset)) = (utc, offset) {
            info.tai_offset_s = offset;
            info.leap_indicator = indicator(utc.leap);
            info.flags = info.flags.union(VmClockFlags::TAI_OFFSET_VALID);
        }
    }
}

const fn indicator(leap: LeapAnnouncement) -> u8 {
    match leap {
        LeapAnnouncement::None => 0,
        LeapAnnouncement::Insert => 1,
        LeapAnnouncement::Delete => 2,
        LeapAnnouncement::Inserting => 3,
        LeapAnnouncement::Inserted => 4,
        LeapAnnouncement::Deleted => 5,
    }
}
