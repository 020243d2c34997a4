//! What a whole watch saw.

use std::collections::BTreeMap;

use disruptions::{Event, Kind};
use schemars::JsonSchema;
use serde::Serialize;

use super::event::{Line, Said, seconds};

/// What was seen from the first look to the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// How long was watched, s.
    pub(crate) watched_s: f64,
    /// How often each kind of disruption was told; a kind that is not listed
    /// was not.
    pub(crate) disruptions: BTreeMap<Kind, u64>,
    /// Looks taken.
    pub(crate) looks: u64,
    /// The longest time between two looks, s.
    pub(crate) longest_unwatched_s: f64,
    /// The kvm-clock page; null where it could never be read.
    pub(crate) page: Option<PageSummary>,
    /// Steps of each pair of clocks; a pair that is not listed had none.
    pub(crate) steps: Vec<Steps>,
    /// Changes of the TSC's rate.
    pub(crate) rate_changes: u64,
    /// Changes of the clock source.
    pub(crate) source_changes: u64,
    /// Looks at which adjtimex had moved.
    pub(crate) adjtimex_moves: u64,
    /// Entries that the journal did not take; null where none were meant for
    /// it.
    pub(crate) not_in_journal: Option<u64>,
    /// When the page was there first, s after the start.
    #[serde(skip)]
    page_from_s: f64,
}

/// What became of the kvm-clock page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PageSummary {
    /// Its version at the end.
    pub(crate) version: u32,
    /// Updates seen, by the version.
    pub(crate) updates: u64,
    /// The same an hour; null for a watch of less than a minute.
    pub(crate) updates_per_hour: Option<f64>,
    /// The longest time without an update, s, to within the interval of looks.
    pub(crate) longest_gap_s: f64,
    /// That gap began before the watch or went on after it: it is longer.
    pub(crate) longest_gap_is_open: bool,
    /// The largest step of an update, ns, whichever its direction.
    pub(crate) largest_step_ns: Option<i64>,
}

/// Steps of one pair of clocks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Steps {
    /// The one that stepped.
    pub(crate) clock: String,
    /// The one it is compared with.
    pub(crate) against: String,
    /// How often.
    pub(crate) steps: u64,
    /// The largest, ns, whichever its direction.
    pub(crate) largest_ns: f64,
    /// All together, ns.
    pub(crate) sum_ns: f64,
}

/// A rate from less than this tells nobody anything, s.
const RATE_FROM_S: f64 = 60.0;

impl Summary {
    /// Counts a line.
    pub(super) fn count(&mut self, line: &Line) {
        let page_for_s = self.watched_s - self.page_from_s;
        match &line.event {
            Said::Disruption(told) => *self.disruptions.entry(told.kind).or_default() += 1,
            Said::Moved(Event::PageUpdate(update)) => {
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
            Said::Moved(Event::Step { clock, against, step_ns, .. }) => {
                self.step(clock, against, *step_ns)
            }
            Said::Moved(Event::PageThere { .. }) if self.page.is_none() => {
                self.page_from_s = self.watched_s
            }
            Said::Moved(Event::Rate { .. }) => self.rate_changes += 1,
            Said::Moved(Event::Source { .. }) => self.source_changes += 1,
            Said::Moved(Event::Adjtimex { .. }) => self.adjtimex_moves += 1,
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
            None => self.steps.push(Steps {
                clock: clock.to_owned(),
                against: against.to_owned(),
                steps: 1,
                largest_ns: step_ns,
                sum_ns: step_ns,
            }),
        }
    }

    /// Counts a look, the last but for those to come.
    pub(super) fn look(&mut self, since_start_ns: u64, since_last_ns: u64) {
        self.looks += 1;
        self.watched_s = seconds(since_start_ns);
        self.longest_unwatched_s = self.longest_unwatched_s.max(seconds(since_last_ns));
    }

    /// Closes the account: the page's version at the end, and the time since
    /// its last update, if there was one.
    pub(super) fn close(&mut self, page: Option<(u32, Option<f64>)>) {
        let Some((version, since_update_s)) = page else { return };
        let page = self.page.get_or_insert_default();
        page.version = version;
        let watched_s = self.watched_s - self.page_from_s;
        page.gap(since_update_s.unwrap_or(watched_s), true);
        let rate = page.updates as f64 / (watched_s / 3600.0);
        page.updates_per_hour = (watched_s >= RATE_FROM_S).then_some(rate);
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
