//! The events of `parachron watch`: lines of `--format json`.

use std::collections::BTreeMap;

use disruptions::{Disruption, Event, Evidence, Stamped, seconds};
use facts::hardware::PvclockPage;
use facts::steering::Adjtimex;
use facts::{Fact, Sample};
use schemars::JsonSchema;
use serde::Serialize;

/// One line: an event and its time.
pub(crate) type Line = Stamped<WatchEvent>;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum WatchEvent {
    /// The watch began: the first line.
    Started(Box<WatchStart>),
    /// What happened to the machine's clocks, as far as the evidence shows.
    Disruption(Disruption),
    /// The watch ended: the last line.
    Summary(WatchSummary),
    /// A single change.
    #[serde(untagged)]
    Change(Event),
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct WatchStart {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Sampling interval, s.
    pub(crate) interval_s: f64,
    /// The CPU the clocks are read on; null where it may be any.
    pub(crate) cpu: Option<u32>,
    /// The clock source in use.
    pub(crate) clocksource: Fact<String>,
    /// The kvm-clock page.
    pub(crate) page: Fact<PvclockPage>,
    /// The age of the page's time stamp, s, where it is known; the page may
    /// have been updated since.
    pub(crate) page_age_s: Option<f64>,
    /// The kernel's clock discipline.
    pub(crate) adjtimex: Fact<Adjtimex>,
    /// Other probes, and whether they can be read.
    pub(crate) probes: Vec<ProbeStatus>,
    /// Pairs of clocks that are not compared, and why.
    pub(crate) not_compared: Vec<String>,
}

/// A probe.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProbeStatus {
    /// `VMClock`
    pub(crate) probe: String,
    /// Why it cannot be read; null where it can.
    pub(crate) error: Option<String>,
}

/// An event at `at_ns` by CLOCK_MONOTONIC; its time of day is by the sample
/// that showed it.
pub(super) fn line(at_ns: u64, event: WatchEvent, sample: &Sample) -> Line {
    let ago_ns = sample.monotonic_ns.saturating_sub(at_ns);
    let at_unix_ns = sample.unix_ns.and_then(|now_ns| now_ns.checked_sub(ago_ns));
    Line { at_unix_ns, at_monotonic_ns: at_ns, event }
}

/// The figures from the first sample to the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct WatchSummary {
    /// How long it ran, s, by CLOCK_MONOTONIC.
    pub(crate) ran_s: f64,
    /// How often each kind of disruption was reported, or each set of kinds that
    /// fitted: `pause`, `snapshot-restored|migrated`.
    pub(crate) disruptions: BTreeMap<String, u64>,
    /// Samples taken.
    pub(crate) samples: u64,
    /// The longest time between two samples, s.
    pub(crate) longest_interval_s: f64,
    /// The kvm-clock page; null where it could never be read.
    pub(crate) page: Option<PageSummary>,
    /// Steps of each pair of clocks; a pair that is not listed had none.
    pub(crate) steps: Vec<PairSteps>,
    /// Changes of the TSC's rate.
    pub(crate) rate_changes: u64,
    /// Changes of the clock source.
    pub(crate) clocksource_changes: u64,
    /// Changes of adjtimex.
    pub(crate) adjtimex_changes: u64,
    /// Entries that the journal did not accept; null without `--journal`.
    pub(crate) lost_journal_entries: Option<u64>,
    /// When the page first became readable, s after the start.
    #[serde(skip)]
    page_from_s: f64,
}

/// The updates of the kvm-clock page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PageSummary {
    /// Its version at the end.
    pub(crate) version: u32,
    /// Updates, by the version.
    pub(crate) updates: u64,
    /// Updates per hour; null for a watch of less than a minute.
    pub(crate) updates_per_hour: Option<f64>,
    /// The longest time without an update, s, to within the sampling interval.
    pub(crate) longest_gap_s: f64,
    /// That gap began before the watch or continued after it: it is longer.
    pub(crate) longest_gap_is_open: bool,
    /// The largest step of an update, ns, whichever its direction.
    pub(crate) largest_step_ns: Option<i64>,
}

/// Steps of one pair of clocks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PairSteps {
    /// The clock that stepped.
    pub(crate) clock: String,
    /// The clock it is compared with.
    pub(crate) against: String,
    /// How often.
    pub(crate) steps: u64,
    /// The largest, ns, whichever its direction.
    pub(crate) largest_ns: f64,
    /// All together, ns.
    pub(crate) sum_ns: f64,
}

/// A rate over less than this means nothing, s.
const RATE_FROM_S: f64 = 60.0;

impl WatchSummary {
    /// Counts a single change.
    pub(super) fn count(&mut self, change: &Event) {
        let page_for_s = self.ran_s - self.page_from_s;
        match change {
            Event::PageUpdate(update) => {
                let page = self.page.get_or_insert_default();
                // A version that went back is one update at least.
                page.updates += u64::from(update.updates.unwrap_or(1));
                if let Some(step) = update.step_ns
                    && page.largest_step_ns.is_none_or(|most| step.abs() > most.abs())
                {
                    page.largest_step_ns = Some(step);
                }
                page.gap(update.since_last_s.unwrap_or(page_for_s), update.since_last_s.is_none());
            }
            Event::Change(Evidence::Step { clock, against, step_ns, .. }) => {
                self.step(clock, against, *step_ns);
            }
            Event::PageAppeared { .. } if self.page.is_none() => self.page_from_s = self.ran_s,
            Event::Change(Evidence::Rate { .. }) => self.rate_changes += 1,
            Event::Change(Evidence::Clocksource { .. }) => self.clocksource_changes += 1,
            Event::Change(Evidence::Adjtimex { .. }) => self.adjtimex_changes += 1,
            _ => {}
        }
    }

    fn step(&mut self, clock: &str, against: &str, step_ns: f64) {
        let pair =
            self.steps.iter_mut().find(|steps| steps.clock == clock && steps.against == against);
        match pair {
            Some(steps) => {
                steps.steps += 1;
                steps.sum_ns += step_ns;
                if step_ns.abs() > steps.largest_ns.abs() {
                    steps.largest_ns = step_ns;
                }
            }
            None => self.steps.push(PairSteps {
                clock: clock.to_owned(),
                against: against.to_owned(),
                steps: 1,
                largest_ns: step_ns,
                sum_ns: step_ns,
            }),
        }
    }

    /// Counts a sample.
    pub(super) fn count_sample(&mut self, since_start_ns: u64, since_last_ns: u64) {
        self.samples += 1;
        self.ran_s = seconds(since_start_ns);
        self.longest_interval_s = self.longest_interval_s.max(seconds(since_last_ns));
    }

    /// Adds the page's version at the end and the time since its last update, if
    /// there was one, and the entries that the journal lost.
    pub(super) fn close(&mut self, page: Option<(u32, Option<f64>)>, lost: Option<u64>) {
        self.lost_journal_entries = lost;
        let Some((version, since_update_s)) = page else { return };
        let page = self.page.get_or_insert_default();
        page.version = version;
        let ran_s = self.ran_s - self.page_from_s;
        page.gap(since_update_s.unwrap_or(ran_s), true);
        let rate = page.updates as f64 / (ran_s / 3600.0);
        page.updates_per_hour = (ran_s >= RATE_FROM_S).then_some(rate);
    }
}

impl PageSummary {
    fn gap(&mut self, gap_s: f64, is_open: bool) {
        if gap_s > self.longest_gap_s {
            self.longest_gap_s = gap_s;
            self.longest_gap_is_open = is_open;
        }
    }
}
