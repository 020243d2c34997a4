//! A simulated machine: its host's counters, its kernel's clocks and its
//! files, as samples show them.

mod faults;
mod source;

use std::time::Duration;

use disruptions::{Disruption, Event, Evidence, Happened, Observed, Observer};
use facts::Sample;
use facts::hardware::VmClock;
use facts::kernel;
use facts::running::{Activity, Stolen, ThreadTimes};
use facts::steering::Adjtimex;
use facts::{Fact, Unknown};
use pvclock::kvm_clock::{Flags, TimeInfo};
use pvclock::units::Bracket;
use pvclock::{Hertz, Nanos, Scale};

pub(crate) use faults::{AsleepTsc, Running};
pub(crate) use source::Source;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const DAY: u64 = 86_400 * S;

/// The default of `parachron watch`.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

/// Switches and interrupts a second, of a machine at work and of one that has nothing to do
/// but to take its samples.
const PACE: u64 = 400;
const IDLE_PACE: u64 = 8;

pub(crate) struct Machine {
    pub(crate) source: Source,
    /// Time outside, ns.
    now_ns: u64,
    tsc: u64,
    tsc_hz: u64,
    hpet_ns: u64,
    page: Option<TimeInfo>,
    /// What the source showed when it was last read, ns.
    source_ns: u64,
    raw_ns: u64,
    monotonic_ns: f64,
    slept_ns: u64,
    unix_offset_ns: u64,
    adjtimex: Adjtimex,
    /// The CPU that the observer runs on.
    cpu: u32,
    log_is_readable: bool,
    vmclock: Option<VmClock>,
    has_rtc: bool,
    /// The RTC minus the time outside, s.
    rtc_off_s: i64,
    rtc_at_ns: u64,
    pace: u64,
    activity_at_ns: u64,
    activity: Activity,
    thread: ThreadTimes,
    log: String,
    was_set: bool,
    new_generation: bool,
    was_stopped: bool,
}

impl Machine {
    /// Booted 100 s ago; the time of day is `into_day_ns`.
    pub(crate) fn new(source: Source, has_rtc: bool, into_day_ns: u64) -> Self {
        let up_ns = 100 * S;
        Self {
            source,
            now_ns: 20_000 * DAY + into_day_ns,
            tsc: up_ns * 2,
            tsc_hz: 2 * S,
            hpet_ns: up_ns,
            page: Some(TimeInfo {
                version: 32,
                tsc_timestamp: 0,
                system_time: Nanos(0),
                scale: Scale::from_hertz(Hertz(2 * S)).unwrap(),
                flags: Flags::TSC_STABLE,
            }),
            source_ns: up_ns,
            raw_ns: up_ns,
            monotonic_ns: up_ns as f64,
            slept_ns: 0,
            unix_offset_ns: 20_000 * DAY + into_day_ns - up_ns,
            adjtimex: calm(),
            cpu: 0,
            log_is_readable: true,
            vmclock: Some(VmClock {
                device: "/dev/vmclock0".into(),
                disruption_marker: 1,
                vm_generation: Some(1),
                clock_status: 2,
            }),
            has_rtc,
            rtc_off_s: 0,
            rtc_at_ns: 0,
            pace: PACE,
            activity_at_ns: 0,
            activity: Activity {
                stolen: (0..2).map(|cpu| Stolen { cpu, stolen_ns: 0 }).collect(),
                ..Activity::default()
            },
            thread: ThreadTimes::default(),
            log: String::new(),
            was_set: false,
            new_generation: false,
            was_stopped: false,
        }
    }

    /// Without a page, as on a kernel that never used kvm-clock.
    pub(crate) fn without_page(mut self) -> Self {
        self.page = None;
        self
    }

    /// On a host without a master clock: no page says `TSC_STABLE`.
    pub(crate) fn without_master_clock(mut self) -> Self {
        if let Some(page) = &mut self.page {
            page.flags = Flags(0);
        }
        self
    }

    /// A VMClock that counts no restored snapshots, as QEMU's.
    pub(crate) fn without_generation(mut self) -> Self {
        if let Some(vmclock) = &mut self.vmclock {
            vmclock.vm_generation = None;
        }
        self
    }

    /// The kernel's log needs root.
    pub(crate) fn without_log(mut self) -> Self {
        self.log_is_readable = false;
        self
    }

    /// How far the time of day is behind the time outside, ns.
    pub(crate) fn behind_ns(&self) -> i128 {
        i128::from(self.now_ns) - i128::from(self.unix_ns())
    }

    /// Without VMClock, as most machines are.
    pub(crate) fn without_vmclock(mut self) -> Self {
        self.vmclock = None;
        self
    }

    /// With nothing to do.
    pub(crate) fn idle(mut self) -> Self {
        self.pace = IDLE_PACE;
        self
    }

    /// The machine runs.
    pub(crate) fn run(&mut self, ns: u64) {
        self.passes(ns, true, true, true);
        self.activity.context_switches += ns * self.pace / S;
    }

    /// Time passes outside; inside, only the chosen counters run.
    fn passes(&mut self, ns: u64, tsc: bool, host: bool, hpet: bool) {
        self.now_ns += ns;
        if tsc {
            let shown = self.page_ns();
            self.tsc += (u128::from(ns) * u128::from(self.tsc_hz) / u128::from(S)) as u64;
            if !host {
                self.rewrite_page(shown);
            }
        } else if host {
            let shown = self.page_ns().map(|shown| shown + ns);
            self.rewrite_page(shown);
        }
        if hpet {
            self.hpet_ns += ns;
        }
        self.keep_time();
    }

    /// The host updates its page.
    fn rewrite_page(&mut self, shown_ns: Option<u64>) {
        let tsc = self.tsc;
        if let (Some(page), Some(shown_ns)) = (&mut self.page, shown_ns) {
            page.version += 2;
            page.tsc_timestamp = tsc;
            page.system_time = Nanos(shown_ns);
        }
    }

    /// The time by the page.
    fn page_ns(&self) -> Option<u64> {
        let page = self.page?;
        let Hertz(hz) = page.scale.to_hertz()?;
        let cycles = i128::from(self.tsc) - i128::from(page.tsc_timestamp);
        u64::try_from(i128::from(page.system_time.0) + cycles * i128::from(S) / i128::from(hz)).ok()
    }

    fn read_source(&self) -> u64 {
        let step_ns = self.source.step_ns();
        let ns = match self.source {
            // The kernel uses the frequency it measured at boot.
            Source::Tsc => self.tsc / 2,
            Source::KvmClock => self.page_ns().unwrap_or(0),
            // The host's clock, as the page has it.
            Source::Timer | Source::Xen => self.page_ns().unwrap_or(self.tsc / 2),
            Source::Hpet | Source::AcpiPm | Source::RefinedJiffies => self.hpet_ns,
        };
        ns / step_ns * step_ns
    }

    /// The kernel's own clocks follow its source, and never go backward.
    fn keep_time(&mut self) {
        let now = self.read_source();
        let advance = now.saturating_sub(self.source_ns);
        self.source_ns = now.max(self.source_ns);
        self.raw_ns += advance;
        let rate = self.adjtimex.tick_us as f64 / 1e4 + self.adjtimex.frequency_ppm * 1e-6;
        self.monotonic_ns += advance as f64 * rate;
    }

    fn take_source(&mut self, source: Source) {
        self.source = source;
        self.source_ns = self.read_source();
    }

    fn rtc_s(&self) -> u64 {
        (self.now_ns / S).saturating_add_signed(self.rtc_off_s)
    }

    fn unix_ns(&self) -> u64 {
        self.monotonic_ns as u64 + self.unix_offset_ns
    }

    /// One clock between two readings of another, while time passes.
    fn between(&mut self, outer: fn(&Self) -> u64, inner: fn(&Self) -> u64) -> Bracket {
        let read_ns = self.source.read_ns();
        let before = outer(self);
        self.run(read_ns);
        let inner = inner(self);
        self.run(read_ns);
        Bracket { before, inner, after: outer(self) }
    }

    fn rtc(&self, boottime_ns: u64) -> Bracket {
        Bracket { before: boottime_ns, inner: self.rtc_s(), after: boottime_ns }
    }

    /// What a sample shows now.
    pub(crate) fn sample(&mut self, all: bool) -> Sample {
        let clocks = [
            self.between(|truth| truth.monotonic_ns as u64, Self::unix_ns),
            self.between(
                |truth| truth.monotonic_ns as u64,
                |truth| truth.monotonic_ns as u64 + truth.slept_ns,
            ),
            self.between(|truth| truth.raw_ns, |truth| truth.monotonic_ns as u64),
            self.between(|truth| truth.tsc, |truth| truth.raw_ns),
        ];
        let [realtime, boottime_now, monotonic_by_raw, raw] = clocks.map(Some);
        let monotonic = self.monotonic_ns as u64;
        self.thread.turns += 1;
        self.thread.ran_ns += 60_000;
        self.thread.waited_ns += 30_000;
        let known = |there: bool, why: &str| there.then_some(()).ok_or(Unknown::not_there(why));
        let rtc_due = all || monotonic - self.rtc_at_ns >= 700 * MS;
        let activity_due = all || monotonic - self.activity_at_ns >= 900 * MS;
        let boottime = monotonic + self.slept_ns;
        if rtc_due {
            self.rtc_at_ns = monotonic;
        }
        if activity_due {
            self.activity_at_ns = monotonic;
        }
        Sample {
            unix_ns: Some(self.unix_ns()),
            tsc: Some(self.tsc),
            cpu: Some(self.cpu),
            realtime,
            boottime: boottime_now,
            monotonic: monotonic_by_raw,
            raw,
            source: Fact::Known(self.source.name().into()),
            source_step_ns: self.source.known_step_ns(),
            adjtimex: Fact::Known(self.adjtimex.clone()),
            page: known(self.page.is_some(), "page").map(|()| self.page.unwrap()).into(),
            vmclock: known(self.vmclock.is_some(), "vmclock")
                .map(|()| self.vmclock.clone().unwrap())
                .into(),
            rtc: known(self.has_rtc, "rtc").map(|()| rtc_due.then(|| self.rtc(boottime))).into(),
            activity: Fact::Known(activity_due.then(|| self.activity.clone())),
            thread: Fact::Known(self.thread),
            log: if self.log_is_readable {
                kernel::parse_log(&std::mem::take(&mut self.log))
            } else {
                Fact::Unknown(Unknown::not_there("/dev/kmsg"))
            },
            was_set: Fact::Known(std::mem::take(&mut self.was_set)),
            new_generation: Fact::Known(std::mem::take(&mut self.new_generation)),
            was_stopped: std::mem::take(&mut self.was_stopped),
            ..Sample::new(monotonic)
        }
    }
}

fn calm() -> Adjtimex {
    Adjtimex {
        offset_ns: 0,
        miscast_offset_us: None,
        frequency_ppm: -3.25,
        max_error_us: 100,
        estimated_error_us: 10,
        status: Adjtimex::STA_NANO,
        tick_us: 10_000,
        tai_s: 37,
        state: 0,
        not_given: Vec::new(),
    }
}

/// A machine and its observer.
pub(crate) struct Watch {
    pub(crate) machine: Machine,
    pub(crate) observer: Observer,
    /// What was reported, and CLOCK_MONOTONIC at that sample, ns.
    pub(crate) reported: Vec<(u64, Disruption)>,
    /// Single steps of a clock.
    pub(crate) steps: usize,
}

impl Watch {
    pub(crate) fn begin(mut machine: Machine) -> Self {
        let mut observer = Observer::new(INTERVAL);
        observer.observe(machine.sample(true));
        Self { machine, observer, reported: Vec::new(), steps: 0 }
    }

    /// Samples for this long, by the machine's own time.
    pub(crate) fn watch(&mut self, ns: u64) {
        let end = self.machine.monotonic_ns as u64 + ns;
        while (self.machine.monotonic_ns as u64) < end {
            let wait = self.observer.next_sample_in().as_nanos() as u64;
            self.machine.run(wait + 70_000);
            self.sample();
        }
    }

    /// `fault` happens after `part` of the time to the next sample, which is
    /// taken when it is due by the machine's own time.
    pub(crate) fn inject(&mut self, part: f64, fault: impl FnOnce(&mut Machine)) {
        let wait = self.observer.next_sample_in().as_nanos() as u64;
        let due_ns = self.machine.monotonic_ns as u64 + wait;
        self.machine.run((wait as f64 * part) as u64);
        fault(&mut self.machine);
        let left = due_ns.saturating_sub(self.machine.monotonic_ns as u64);
        self.machine.run(left + 70_000);
        self.sample();
    }

    fn sample(&mut self) {
        let sample = self.machine.sample(self.observer.is_gathering());
        let now_ns = sample.monotonic_ns;
        let Observed { events, disruptions } = self.observer.observe(sample);
        let is_step = |happened: &&Happened| {
            matches!(happened.event, Event::Change(Evidence::Step { .. } | Evidence::Rate { .. }))
        };
        self.steps += events.iter().filter(is_step).count();
        self.reported.extend(disruptions.into_iter().map(|disruption| (now_ns, disruption)));
    }
}

impl Watch {
    /// CLOCK_MONOTONIC of the last sample, ns.
    pub(crate) fn sampled_ns(&self) -> u64 {
        self.machine.monotonic_ns as u64
    }
}
