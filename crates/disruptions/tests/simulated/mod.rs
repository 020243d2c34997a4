//! A simulated machine: its host's counters, its kernel's clocks, and what
//! its files say, as one look after the other shows them.

mod befalls;

use std::time::Duration;

use disruptions::{Disruption, Observer};
use facts::Sample;
use facts::hardware::VmClock;
use facts::kernel::log;
use facts::running::{Activity, Stolen, ThreadTimes};
use facts::steering::Adjtimex;
use facts::{Fact, Unknown};
use pvclock::kvm_clock::{Flags, TimeInfo};
use pvclock::{Hertz, Nanos, Scale};
use units::Bracket;

pub(crate) use befalls::Held;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const DAY: u64 = 86_400 * S;

/// The default of `parachron watch`.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

/// A bracket's width, ns: half before the inner reading, half after.
const WIDTH_NS: u64 = 40;

/// Switches and interrupts a second.
const PACE: u64 = 400;

/// The kernel's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Tsc,
    KvmClock,
    /// A timer that the host emulates.
    Hpet,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::KvmClock => "kvm-clock",
            Self::Hpet => "hpet",
        }
    }
}

pub(crate) struct Machine {
    pub(crate) source: Source,
    /// Time outside, ns.
    now_ns: u64,
    tsc: u64,
    tsc_hz: u64,
    hpet_ns: u64,
    page: Option<TimeInfo>,
    /// What each source had shown when it was last read, ns.
    source_ns: u64,
    raw_ns: u64,
    monotonic_ns: f64,
    slept_ns: u64,
    unix_offset_ns: u64,
    adjtimex: Adjtimex,
    vmclock: Option<VmClock>,
    has_rtc: bool,
    /// The RTC less the time outside, s.
    rtc_off_s: i64,
    rtc_at_ns: u64,
    activity_at_ns: u64,
    activity: Activity,
    thread: ThreadTimes,
    log: String,
    was_set: bool,
    new_generation: bool,
    was_stopped: bool,
}

impl Machine {
    /// Booted `up_ns` ago, and `into_day_ns` after midnight it is now.
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
            vmclock: Some(VmClock {
                device: "/dev/vmclock0".into(),
                disruption_marker: 1,
                vm_generation: Some(1),
                clock_status: 2,
            }),
            has_rtc,
            rtc_off_s: 0,
            rtc_at_ns: 0,
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

    /// Without a page to read, as on a kernel that never took kvm-clock.
    pub(crate) fn without_page(mut self) -> Self {
        self.page = None;
        self
    }

    /// The machine runs.
    pub(crate) fn run(&mut self, ns: u64) {
        self.passes(ns, true, true, true);
        self.activity.context_switches += ns * PACE / S;
    }

    /// Time passes outside; inside, only the counters that are told to go on.
    fn passes(&mut self, ns: u64, tsc: bool, host: bool, hpet: bool) {
        self.now_ns += ns;
        if tsc {
            let told = self.page_ns();
            self.tsc += (u128::from(ns) * u128::from(self.tsc_hz) / u128::from(S)) as u64;
            if !host {
                self.rewrite_page(told);
            }
        } else if host {
            let told = self.page_ns().map(|told| told + ns);
            self.rewrite_page(told);
        }
        if hpet {
            self.hpet_ns += ns;
        }
        self.keep_time();
    }

    /// The host says anew what time it is.
    fn rewrite_page(&mut self, told_ns: Option<u64>) {
        let tsc = self.tsc;
        if let (Some(page), Some(told_ns)) = (&mut self.page, told_ns) {
            page.version += 2;
            page.tsc_timestamp = tsc;
            page.system_time = Nanos(told_ns);
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
        match self.source {
            // The kernel goes by the frequency it measured at boot.
            Source::Tsc => self.tsc / 2,
            Source::KvmClock => self.page_ns().unwrap_or(0),
            Source::Hpet => self.hpet_ns,
        }
    }

    /// The kernel's own clocks follow its source, and never go back.
    fn keep_time(&mut self) {
        let now = self.read_source();
        let went = now.saturating_sub(self.source_ns);
        self.source_ns = now.max(self.source_ns);
        self.raw_ns += went;
        let rate = self.adjtimex.tick_us as f64 / 1e4 + self.adjtimex.frequency_ppm * 1e-6;
        self.monotonic_ns += went as f64 * rate;
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

    /// What a look sees now.
    pub(crate) fn look(&mut self, hurry: bool) -> Sample {
        let monotonic = self.monotonic_ns as u64;
        let around = |outer: u64, unit: u64, inner: u64| Bracket {
            before: outer - WIDTH_NS / 2 * unit,
            inner,
            after: outer + WIDTH_NS / 2 * unit,
        };
        self.thread.turns += 1;
        self.thread.ran_ns += 60_000;
        self.thread.waited_ns += 30_000;
        let known = |there: bool, why: &str| match there {
            true => Ok(()),
            false => Err(Unknown::not_there(why)),
        };
        let rtc_due = hurry || monotonic - self.rtc_at_ns >= 700 * MS;
        let activity_due = hurry || monotonic - self.activity_at_ns >= 900 * MS;
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
            realtime: Some(around(monotonic, 1, self.unix_ns())),
            boottime: Some(around(monotonic, 1, boottime)),
            monotonic: Some(around(self.raw_ns, 1, monotonic)),
            raw: Some(around(self.tsc, 2, self.raw_ns)),
            source: Fact::Known(self.source.name().into()),
            source_step_ns: Some(if self.source == Source::Hpet { 100.0 } else { 2.0 }),
            adjtimex: Fact::Known(self.adjtimex.clone()),
            page: known(self.page.is_some(), "page").map(|()| self.page.unwrap()).into(),
            vmclock: known(self.vmclock.is_some(), "vmclock")
                .map(|()| self.vmclock.clone().unwrap())
                .into(),
            rtc: known(self.has_rtc, "rtc")
                .map(|()| rtc_due.then(|| around(boottime, 1, self.rtc_s())))
                .into(),
            activity: Fact::Known(activity_due.then(|| self.activity.clone())),
            thread: Fact::Known(self.thread),
            log: log::parse(&std::mem::take(&mut self.log)),
            was_set: Fact::Known(std::mem::take(&mut self.was_set)),
            new_generation: Fact::Known(std::mem::take(&mut self.new_generation)),
            was_stopped: std::mem::take(&mut self.was_stopped),
            ..Sample::at(monotonic)
        }
    }
}

fn calm() -> Adjtimex {
    Adjtimex {
        offset_ns: 0,
        frequency_ppm: -3.25,
        max_error_us: 100,
        estimated_error_us: 10,
        status: Adjtimex::STA_NANO,
        tick_us: 10_000,
        tai_s: 37,
        state: 0,
    }
}

/// A machine and who watches it.
pub(crate) struct Watch {
    pub(crate) machine: Machine,
    pub(crate) observer: Observer,
    /// What was told, and CLOCK_MONOTONIC when it was, ns.
    pub(crate) told: Vec<(u64, Disruption)>,
}

impl Watch {
    pub(crate) fn begin(mut machine: Machine) -> Self {
        let mut observer = Observer::new(INTERVAL);
        observer.observe(machine.look(true));
        Self { machine, observer, told: Vec::new() }
    }

    /// Looks for this long, by the machine's own time.
    pub(crate) fn watch(&mut self, ns: u64) {
        let end = self.machine.monotonic_ns as u64 + ns;
        while (self.machine.monotonic_ns as u64) < end {
            let wait = self.observer.next_sample_in().as_nanos() as u64;
            self.machine.run(wait + 70_000);
            self.look();
        }
    }

    /// `befall` happens after `part` of the time to the next look, which then
    /// comes when it is due by the machine's own time.
    pub(crate) fn befall(&mut self, part: f64, befall: impl FnOnce(&mut Machine)) {
        let wait = self.observer.next_sample_in().as_nanos() as u64;
        let due_ns = self.machine.monotonic_ns as u64 + wait;
        self.machine.run((wait as f64 * part) as u64);
        befall(&mut self.machine);
        let left = due_ns.saturating_sub(self.machine.monotonic_ns as u64);
        self.machine.run(left + 70_000);
        self.look();
    }

    fn look(&mut self) {
        let look = self.machine.look(self.observer.is_gathering());
        let now_ns = look.monotonic_ns;
        let told = self.observer.observe(look).disruptions;
        self.told.extend(told.into_iter().map(|disruption| (now_ns, disruption)));
    }
}

impl Watch {
    /// CLOCK_MONOTONIC of the last look, ns.
    pub(crate) fn shown_ns(&self) -> u64 {
        self.machine.monotonic_ns as u64
    }
}
