//! The page in which a host tells its guest the time: `host::vmclock` writes it, as an
//! agent on the host would have it do, and `pvclock` reads it.

use facts::hardware;
use host::HostClocks;
use host::vmclock::{
    GuestCounter, HostTime, HostVmClock, TimeSample, TimeSettings, VmClockSettings,
};
use pvclock::vmclock::{CounterId, Utc, VmClockInfo};
use pvclock::{Hertz, Nanos};

/// Nobody writes while nobody looks: a page that is older than this as a guest reads it is
/// written after that, ns.
const WRITTEN_EACH_NS: i64 = 16_000_000_000;

/// And before it where it is older than this, as a host writes whether its guest runs or not.
const OLDEST_NS: i64 = 128_000_000_000;

/// A host's time, and a guest's page of it.
pub(crate) struct SimulatedVmClock {
    time: HostTime,
    page: HostVmClock,
    info: VmClockInfo,
    /// What the host says its own clock is right within.
    error: Nanos,
    written_ns: i64,
    tai_offset_s: Option<i32>,
}

impl SimulatedVmClock {
    pub(crate) fn new(
        (hz, error): (u64, Nanos),
        guest: GuestCounter,
        (now, at_ns): (HostClocks, i64),
    ) -> Self {
        let time = HostTime::new(TimeSettings::new(Hertz(hz)));
        let (page, first) = HostVmClock::new(VmClockSettings::default(), guest, &time, now.tsc);
        let (info, written_ns, tai_offset_s) = (first.info, at_ns, None);
        let mut new = Self { time, page, info, error, written_ns, tai_offset_s };
        new.write(now, at_ns);
        new
    }

    /// The host asks its clock and writes the page.
    fn write(&mut self, now: HostClocks, at_ns: i64) {
        self.ask(now, at_ns);
        self.info = self.page.update(&self.time, now.tsc).info;
    }

    fn ask(&mut self, now: HostClocks, at_ns: i64) {
        let tai_offset_s = now.tai_offset_s.unwrap_or(0);
        let tai_ns = now.real.0.0.saturating_add_signed(i64::from(tai_offset_s) * 1_000_000_000);
        let sample = TimeSample::new(now.tsc, Nanos(tai_ns), self.error, tai_offset_s);
        self.time.update(now.tsc, &[sample]);
        (self.written_ns, self.tai_offset_s) = (at_ns, now.tai_offset_s);
    }

    /// The guest's TSC was disrupted, maybe by another host with this TSC: the page is
    /// written before it runs; with a new generation where it is a copy of itself.
    pub(crate) fn disrupted(
        &mut self,
        hz: u64,
        guest: GuestCounter,
        is_copy: bool,
        (now, at_ns): (HostClocks, i64),
    ) {
        self.time = HostTime::new(TimeSettings::new(Hertz(hz)));
        self.ask(now, at_ns);
        let (marker, generation) = self.page.marks();
        // No other copy is in this world.
        let update = if is_copy {
            self.page.restored(guest, generation.wrapping_add(marker + 1), &self.time, now.tsc)
        } else {
            self.page.moved(guest, &self.time, now.tsc)
        };
        self.info = update.info;
    }

    /// UTC by the page at a count of the guest's TSC, if the host vouches for it.
    pub(crate) fn read(&mut self, tsc: u64, (now, at_ns): (HostClocks, i64)) -> Option<Utc> {
        let age_ns = at_ns - self.written_ns;
        if age_ns > OLDEST_NS || now.tai_offset_s != self.tai_offset_s {
            self.write(now, at_ns);
        }
        // The same where this is simulated on a machine whose counter no page names.
        let info = VmClockInfo { counter_id: CounterId::X86_TSC, ..self.info };
        let time = info.time_at(tsc).ok().map(|mut time| {
            time.info.counter_id = CounterId::NATIVE;
            time
        });
        if age_ns > WRITTEN_EACH_NS {
            self.write(now, at_ns);
        }
        time?.utc().ok()
    }

    /// What a probe finds in it.
    pub(crate) fn snapshot(&self) -> hardware::VmClock {
        hardware::VmClock {
            device: "/dev/vmclock0".to_owned(),
            disruption_marker: self.info.disruption_marker,
            vm_generation: Some(self.info.vm_generation),
            clock_status: self.info.clock_status.0,
        }
    }
}
