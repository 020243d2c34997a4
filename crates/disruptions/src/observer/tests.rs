use std::time::Duration;

use facts::{Fact, Unknown};
use pvclock::kvm_clock::{Flags, TimeInfo};
use pvclock::units::Bracket;
use pvclock::{Hertz, Nanos, Scale};

use super::clocks::slews;
use super::*;
use crate::steering::Move;
use crate::{BOOTTIME, MONOTONIC, RAW, REALTIME, TSC};
use crate::{LateCause, page_fact};

const INTERVAL: Duration = Duration::from_millis(100);
const S: u64 = 1_000_000_000;
const BOOT_UNIX_NS: u64 = 1_700_000_000 * S;

fn page_info() -> TimeInfo {
    TimeInfo {
        version: 32,
        tsc_timestamp: 0,
        system_time: Nanos(0),
        scale: Scale::from_hertz(Hertz(2 * S)).unwrap(),
        flags: Flags::TSC_STABLE,
    }
}

fn calm() -> Adjtimex {
    Adjtimex {
        offset_ns: 0,
        miscast_offset_us: None,
        frequency_ppm: 0.0,
        max_error_us: 0,
        estimated_error_us: 0,
        status: Adjtimex::STA_NANO,
        tick_us: 10_000,
        tai_s: 37,
        state: 0,
        not_given: Vec::new(),
    }
}

/// A simulated machine, whose clocks are read at intervals of 20 ns.
struct Machine {
    now_ns: u64,
    realtime_offset_ns: u64,
    boottime_offset_ns: u64,
    /// CLOCK_MONOTONIC_RAW minus the time by the TSC, which runs at 2 GHz.
    raw_offset_ns: u64,
    source: Fact<String>,
    adjtimex: Adjtimex,
    page: Fact<TimeInfo>,
}

impl Machine {
    fn new() -> Self {
        Self {
            now_ns: 100 * S,
            realtime_offset_ns: BOOT_UNIX_NS,
            boottime_offset_ns: 0,
            raw_offset_ns: 0,
            source: Fact::Known("tsc".into()),
            adjtimex: calm(),
            page: Fact::Known(page_info()),
        }
    }

    fn sample(&mut self) -> Sample {
        self.now_ns += 100_000_000;
        let now = self.now_ns;
        let bracket =
            |inner: u64, unit: u64| Bracket { before: now * unit, inner, after: (now + 40) * unit };
        Sample {
            unix_ns: Some(now + self.realtime_offset_ns),
            tsc: Some(now * 2),
            realtime: Some(bracket(now + 20 + self.realtime_offset_ns, 1)),
            boottime: Some(bracket(now + 20 + self.boottime_offset_ns, 1)),
            monotonic: Some(bracket(now + 20, 1)),
            raw: Some(bracket(now + 20 + self.raw_offset_ns, 2)),
            source: self.source.clone(),
            source_step_ns: Some(2.0),
            adjtimex: Fact::Known(self.adjtimex.clone()),
            page: self.page.clone(),
            ..Sample::new(now)
        }
    }
}

/// An observer after ten samples without an event.
fn observing() -> (Machine, Observer) {
    let (mut machine, mut observer) = (Machine::new(), Observer::new(INTERVAL));
    for _ in 0..10 {
        assert_eq!(observer.observe(machine.sample()), Observed::default());
    }
    (machine, observer)
}

/// The events of the next five samples.
fn next(machine: &mut Machine, observer: &mut Observer) -> Vec<Happened> {
    (0..5).flat_map(|_| observer.observe(machine.sample()).events).collect()
}

fn only_event(lines: Vec<Happened>) -> Event {
    let [line] = &lines[..] else { panic!("{lines:?}") };
    line.event.clone()
}

#[track_caller]
fn assert_step(lines: Vec<Happened>, clocks: [&str; 2], expected_ns: f64) {
    let Event::Change(Evidence::Step { clock, against, step_ns, bound_ns }) = only_event(lines)
    else {
        panic!("no step")
    };
    assert_eq!([clock.as_str(), against.as_str()], clocks);
    assert!((step_ns - expected_ns).abs() <= bound_ns, "{step_ns} ± {bound_ns}");
    assert!(bound_ns <= 200.0, "{bound_ns}");
}

#[test]
fn a_step_of_the_time_of_day_is_reported_with_its_time() {
    let (mut machine, mut observer) = observing();
    machine.realtime_offset_ns += S;
    let lines = next(&mut machine, &mut observer);
    assert_eq!(lines[0].at_monotonic_ns, 101 * S + 100_000_000);
    assert_step(lines, [REALTIME, MONOTONIC], 1e9);
}

/// A program sets the clock, and the host restores the machine.
#[test]
fn the_host_alone_takes_a_machine_away() {
    let marked = |marker: u64, machine: &mut Machine| {
        let page = facts::hardware::VmClock {
            device: String::new(),
            disruption_marker: marker,
            vm_generation: None,
            clock_status: 0,
        };
        Sample { vmclock: Fact::Known(page), ..machine.sample() }
    };
    let (mut machine, mut observer) = observing();
    observer.observe(marked(1, &mut machine));
    machine.realtime_offset_ns += S;
    observer.observe(marked(1, &mut machine));
    assert_eq!((observer.is_gathering(), observer.away_until_ns()), (true, None));
    observer.observe(marked(2, &mut machine));
    assert_eq!(observer.away_until_ns(), Some(machine.now_ns));
    // It is classified.
    (0..5).for_each(|_| drop(observer.observe(marked(2, &mut machine))));
    assert_eq!((observer.is_gathering(), observer.away_until_ns()), (false, None));
}

#[test]
fn a_suspend_shows_in_boottime_alone() {
    let (mut machine, mut observer) = observing();
    machine.boottime_offset_ns += 3600 * S;
    assert_step(next(&mut machine, &mut observer), [BOOTTIME, MONOTONIC], 3600e9);
}

#[test]
fn a_step_of_the_raw_clock_is_reported_with_the_time_it_happened() {
    let (mut machine, mut observer) = observing();
    machine.raw_offset_ns += 5000;
    let lines = next(&mut machine, &mut observer);
    // It is certain one sample later.
    assert_eq!(lines[0].at_monotonic_ns, 101 * S + 100_000_000);
    assert_step(lines, [RAW, TSC], 5000.0);
}

/// A pause right after the start: the page gives the TSC's rate, so that it
/// need not be learnt over the pause.
#[test]
fn under_kvm_clock_a_step_before_the_second_sample_is_found() {
    let (mut machine, mut observer) = (Machine::new(), Observer::new(INTERVAL));
    machine.source = Fact::Known("kvm-clock".into());
    machine.raw_offset_ns = S;
    assert_eq!(observer.observe(machine.sample()), Observed::default());
    machine.raw_offset_ns -= 300_000_000;
    let Event::Change(Evidence::Step { step_ns, bound_ns, .. }) =
        only_event(next(&mut machine, &mut observer))
    else {
        panic!("no step")
    };
    // 1 ppm of 0.1 s to either side, and two reads.
    assert!((step_ns + 300e6).abs() <= bound_ns && bound_ns < 250.0, "{step_ns} ± {bound_ns}");
}

#[test]
fn a_step_in_the_last_sample_is_reported_at_the_end() {
    let (mut machine, mut observer) = observing();
    machine.raw_offset_ns += 5000;
    assert_eq!(observer.observe(machine.sample()), Observed::default());
    assert_step(observer.finish().events, [RAW, TSC], 5000.0);
    assert_eq!(observer.finish(), Observed::default());
}

#[test]
fn another_source_may_have_another_rate_and_offset() {
    let (mut machine, mut observer) = observing();
    machine.source = Fact::Known("kvm-clock".into());
    machine.raw_offset_ns += 700;
    let switched = Evidence::Clocksource { before: "tsc".into(), after: "kvm-clock".into() };
    assert_eq!(only_event(next(&mut machine, &mut observer)), Event::Change(switched));
    machine.source = Fact::Unknown(Unknown::not_there("/sys"));
    assert_eq!(next(&mut machine, &mut observer), []);
}

#[test]
fn an_update_of_the_page_is_reported_with_its_step() {
    let (mut machine, mut observer) = observing();
    let now_ns = machine.now_ns;
    machine.page = Fact::Known(TimeInfo {
        version: 34,
        tsc_timestamp: now_ns * 2,
        system_time: Nanos(now_ns + 12),
        ..page_info()
    });
    let Event::PageUpdate(update) = only_event(next(&mut machine, &mut observer)) else { panic!() };
    assert_eq!((update.version, update.updates), (34, Some(1)));
    // 2 GHz is a scale without rounding.
    assert_eq!((update.step_ns, update.since_last_s), (Some(12), None));
    let fields: Vec<_> = update.changed.iter().map(|change| change.field).collect();
    assert_eq!(fields, ["version", "tsc_timestamp", "system_time"]);
    // The same pair of times again, as under KVM's master clock.
    machine.now_ns += S;
    let again = machine.page.value().map(|page| TimeInfo { version: 38, ..*page }).unwrap();
    machine.page = Fact::Known(again);
    let Event::PageUpdate(update) = only_event(next(&mut machine, &mut observer)) else { panic!() };
    assert_eq!(
        (update.updates, update.step_ns, update.since_last_s),
        (Some(2), Some(0), Some(1.5))
    );
    assert_eq!(observer.page(), Some((38, Some(machine.now_ns - 400_000_000))));
}

#[test]
fn a_sample_after_other_work_is_not_late() {
    let (mut machine, mut observer) = observing();
    machine.now_ns += 3 * S;
    observer.was_busy(Duration::from_secs(2));
    observer.was_busy(Duration::from_secs(1));
    assert_eq!(next(&mut machine, &mut observer), []);
    // It excuses one sample, and no more than its own time.
    machine.now_ns += 3 * S;
    let lines = next(&mut machine, &mut observer);
    assert!(matches!(only_event(lines), Event::Change(Evidence::Late { .. })));
    machine.now_ns += 3 * S;
    observer.was_busy(Duration::from_secs(1));
    let lines = next(&mut machine, &mut observer);
    assert!(matches!(only_event(lines), Event::Change(Evidence::Late { .. })));
}

#[test]
fn a_page_that_appears_and_disappears_is_reported() {
    let (mut machine, mut observer) = observing();
    machine.page = Fact::Unknown(Unknown::not_applicable("no page"));
    let gone = only_event(next(&mut machine, &mut observer));
    assert_eq!(gone, Event::PageGone { why: "does not apply: no page".into() });
    machine.page = Fact::Known(page_info());
    let there = only_event(next(&mut machine, &mut observer));
    assert_eq!(there, Event::PageAppeared { page: page_fact(&page_info()) });
}

#[test]
fn a_slew_is_a_change_of_adjtimex_and_no_step() {
    let (mut machine, mut observer) = observing();
    machine.adjtimex.frequency_ppm = -3.5;
    let changed = only_event(next(&mut machine, &mut observer));
    let change = Move::Frequency { before_ppm: 0.0, after_ppm: -3.5 };
    assert_eq!(changed, Event::Change(Evidence::Adjtimex { change }));
}

#[test]
fn the_rates_a_slew_allows_are_wide_enough_and_no_wider() {
    let allowed = |before: &Adjtimex, after: &Adjtimex, ppm: f64| {
        let at = |ns: u64, fast: f64| Bracket {
            before: ns,
            inner: (ns as f64 * (1.0 + fast * 1e-6)) as u64,
            after: ns,
        };
        slews(before, after).residual(at(0, 0.0), at(S, ppm), 1.0).contains(0.0)
    };
    let calm = calm();
    assert!(allowed(&calm, &calm, 499.0) && !allowed(&calm, &calm, 510.0));
    // chronyd's fastest slew, by the tick.
    let slewing = Adjtimex { tick_us: 10_833, ..calm.clone() };
    assert!(allowed(&calm, &slewing, 83_000.0) && !allowed(&slewing, &slewing, 0.0));
    // The kernel's loop with an offset of 400 ms before it, of 300 ms after.
    let offset = Adjtimex { offset_ns: 300_000_000, ..calm.clone() };
    assert!(allowed(&offset, &offset, 100_000.0) && !allowed(&offset, &offset, 101_000.0));
}

#[test]
fn a_late_sample_is_reported() {
    let (mut machine, mut observer) = observing();
    machine.now_ns += 5 * S;
    let lines = next(&mut machine, &mut observer);
    let late = Evidence::Late { gap_s: 5.1, planned_s: 0.1, cause: LateCause::Unknown };
    assert_eq!(only_event(lines), Event::Change(late));
}

#[test]
fn a_machine_without_any_fact_is_observed_without_events() {
    let mut observer = Observer::new(INTERVAL);
    for n in 0..10 {
        assert_eq!(observer.observe(Sample::new(n * 100_000_000)), Observed::default());
    }
    assert_eq!(observer.finish(), Observed::default());
}
