//! What the figures of all clocks together show beyond each of them.

use std::fmt;

use facts::Fact;
use instruments::drift::{DriftStep, Refused};
use instruments::figures::time;
use pvclock::units::{Interval, agreement};
use sources::phc::{Apparent, PhcScale};

use super::clocks::ClockName;
use super::reference::{ReferenceReport, is_less_tai, phc_device};
use super::session::PairReport;

/// A finding in addition to the figures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// All clocks stepped at once by the same: the reference did.
    ReferenceStepped {
        /// Its name.
        reference: String,
        /// How many clocks stepped.
        clocks: usize,
        /// The reference's step, ns.
        by_ns: f64,
        /// When, s since the start.
        at_s: f64,
    },
    /// A clock stepped, and it may not have been it.
    ClockStepped {
        /// The clock.
        clock: ClockName,
        /// Its step, ns.
        by_ns: f64,
        /// When, s since the start.
        at_s: f64,
        /// Where nothing shows which of both stepped: the reference.
        or_reference: Option<String>,
    },
    /// A reference showed the same time throughout.
    StoodStill(StoodStill),
    /// Readings that bounded nothing.
    LeftOut {
        /// The clock.
        clock: ClockName,
        /// The reference's name.
        reference: String,
        /// How many.
        readings: u64,
        /// Why the last of them.
        why: Refused,
    },
    /// So many references contradict each other without a majority.
    Contradiction(usize),
    /// References that the others outvote.
    Outvoted(Vec<String>),
    /// A PTP hardware clock as a reference seems to count something else than it
    /// is taken for.
    ReferenceScale {
        /// Its name.
        reference: String,
        /// How far it is from CLOCK_REALTIME, ns.
        off_ns: f64,
        /// What it seems to count.
        seems: Seems,
    },
    /// The RTC's frequency is known too poorly to tell a good RTC from a bad one:
    /// its seconds are seldom, and a run of seconds has few.
    TooShort {
        /// What it was compared with.
        reference: String,
        /// How long, s.
        over_s: f64,
        /// Half of its frequency's interval, ppm.
        within_ppm: f64,
        /// How long a run it takes, in whole minutes.
        needed_min: u64,
    },
    /// The PTP hardware clock that is measured seems to count TAI.
    ClockScale {
        /// What it was compared with.
        reference: String,
        /// How far it is ahead, ns.
        off_ns: f64,
    },
}

/// A reference that showed the same time throughout.
#[derive(Debug, Clone, PartialEq)]
pub struct StoodStill {
    /// Its name.
    pub reference: String,
    /// A clock that did advance.
    pub clock: ClockName,
    /// By how much, ns.
    pub advanced_ns: f64,
}

impl fmt::Display for StoodStill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, clock, advanced_ns } = self;
        write!(f, "{reference} stood still while {clock} advanced by {}", time(*advanced_ns))
    }
}

/// What a PTP hardware clock seems to count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seems {
    /// TAI, and it was taken for UTC; or CLOCK_REALTIME is wrong.
    Tai,
    /// TAI, and nobody specified what it counts.
    UnspecifiedTai {
        /// The device.
        device: String,
        /// How to specify it.
        scale: PhcScale,
    },
    /// UTC, and it was taken for TAI; or CLOCK_REALTIME is wrong.
    Utc,
    /// It is behind by TAI - UTC for no known reason.
    BehindUtc,
}

/// Steps of two clocks this close in time, s, are of one event.
const TOGETHER_S: f64 = 2.0;

/// What the measurement cannot be relied on for: references that stepped while
/// they were one, clocks that were set back, and steps of one clock against
/// one reference, which do not show whose they were. A reference that others
/// outvote disturbs nothing.
pub(super) fn disturbances(references: &[ReferenceReport], pairs: &[PairReport]) -> Vec<Note> {
    let outvoted =
        |name: &str| references.iter().any(|one| one.name == name && one.agrees == Some(false));
    let mut names: Vec<&str> = Vec::new();
    for pair in pairs {
        if !names.contains(&pair.reference.as_str()) && !outvoted(&pair.reference) {
            names.push(&pair.reference);
        }
    }
    let mut notes = Vec::new();
    // A clock that was set back was so against each reference: one note is enough.
    let mut noted: Vec<ClockName> = Vec::new();
    for name in names {
        let of_it: Vec<&PairReport> = pairs.iter().filter(|pair| pair.reference == name).collect();
        let common = common_steps(&of_it);
        notes.extend(common.iter().map(|step| Note::ReferenceStepped {
            reference: name.to_owned(),
            clocks: of_it.len(),
            by_ns: -step.ns,
            at_s: step.at_s,
        }));
        for pair in &of_it {
            let its_own = |step: &&DriftStep| !common.iter().any(|other| is_alike(step, other));
            let went_back = |step: &&DriftStep| step.ns + step.bound_ns < 0.0;
            // Without another clock against this reference, or this clock
            // against another, either may have stepped.
            let is_unsure =
                |step: &&DriftStep| of_it.len() == 1 && !stepped_elsewhere(pair, step, pairs);
            let mut steps = pair.drift.steps.iter().filter(its_own);
            let step = steps.find(|step| went_back(step) || is_unsure(step));
            if let Some(step) = step.filter(|_| !noted.contains(&pair.clock)) {
                noted.push(pair.clock);
                notes.push(Note::ClockStepped {
                    clock: pair.clock,
                    by_ns: step.ns,
                    at_s: step.at_s,
                    or_reference: is_unsure(&step).then(|| name.to_owned()),
                });
            }
        }
    }
    notes
}

/// More than most RTCs' crystals are off by, ppm.
const POOR_RTC_PPM: f64 = 100.0;

/// The RTC, where the run was too short for it. Its interval is what the bounds
/// of its seconds allow, which narrows as the run gets longer: ± 300 ppm of 20 s
/// are ± 100 ppm of a minute.
pub(super) fn too_short(pairs: &[PairReport]) -> impl Iterator<Item = Note> + use<'_> {
    pairs.iter().filter(|pair| pair.clock == ClockName::Rtc).filter_map(|pair| {
        let (low, high) = pair.drift.frequency?.interval_ppm?;
        let (over_s, within_ppm) = (pair.drift.span_s, (high - low) / 2.0);
        let needed_min = (over_s * within_ppm / POOR_RTC_PPM / 60.0).ceil().max(2.0) as u64;
        let reference = pair.reference.clone();
        let note = Note::TooShort { reference, over_s, within_ppm, needed_min };
        (within_ppm > POOR_RTC_PPM).then_some(note)
    })
}

/// Whether this clock stepped so against another reference too: then it was
/// the clock.
fn stepped_elsewhere(pair: &PairReport, step: &DriftStep, pairs: &[PairReport]) -> bool {
    let mut others =
        pairs.iter().filter(|other| other.clock == pair.clock && other.reference != pair.reference);
    others.any(|other| other.drift.steps.iter().any(|its| is_alike(step, its)))
}

fn is_alike(one: &DriftStep, other: &DriftStep) -> bool {
    (one.at_s - other.at_s).abs() < TOGETHER_S
        && (one.ns - other.ns).abs() <= one.bound_ns + other.bound_ns
}

/// Where all clocks step at once, by the same, it was the reference that did.
fn common_steps(pairs: &[&PairReport]) -> Vec<DriftStep> {
    let [first, others @ ..] = pairs else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let in_all = |step: &&DriftStep| {
        others.iter().all(|pair| pair.drift.steps.iter().any(|other| is_alike(step, other)))
    };
    first.drift.steps.iter().filter(in_all).copied().collect()
}

/// Marks which references agree about CLOCK_REALTIME, and takes the verdicts
/// from those that are outvoted: a clock need not keep to a wrong time. A
/// note where they differ.
pub(super) fn judge_references(
    references: &mut [ReferenceReport],
    pairs: &mut [PairReport],
) -> Option<Note> {
    let mut voters: Vec<(&mut ReferenceReport, Interval<f64>)> = Vec::new();
    for reference in references {
        let realtime = pairs.iter().find(|pair| {
            pair.clock == ClockName::Realtime
                && pair.offset_is_error
                && pair.reference == reference.name
        });
        if let Some(pair) = realtime {
            let interval = offset_interval(reference, pair);
            voters.push((reference, interval));
        }
    }
    if voters.len() < 2 {
        return None;
    }
    let mut ends: Vec<_> = voters.iter().flat_map(|(_, bounds)| bounds.ends()).collect();
    let Some(agreed) = agreement(&mut ends, voters.len() / 2 + 1) else {
        return Some(Note::Contradiction(voters.len()));
    };
    let mut outvoted = Vec::new();
    for (reference, bounds) in voters {
        let agrees = bounds.contains(agreed.at);
        reference.agrees = Some(agrees);
        if !agrees {
            outvoted.push(reference.name.clone());
        }
    }
    for pair in pairs.iter_mut().filter(|pair| outvoted.contains(&pair.reference)) {
        (pair.frequency_verdict, pair.offset_verdict) = (None, None);
    }
    (!outvoted.is_empty()).then_some(Note::Outvoted(outvoted))
}

/// Where CLOCK_REALTIME's offset from the true time lies by a reference: within
/// what the delay leaves open, and its own root distance.
fn offset_interval(reference: &ReferenceReport, pair: &PairReport) -> Interval<f64> {
    let offset = pair.drift.offset;
    let root_distance_ns = reference.status.root_distance_ns.unwrap_or(0) as f64;
    let wide = offset.bound_ns.max(pair.drift.median_delay_ns / 2.0) + root_distance_ns;
    Interval::plus_minus(offset.ns, wide)
}

/// A note for each; `tai_s` is TAI - UTC as the kernel was set, s, 0 where it
/// was not.
pub(super) fn scale_notes(pairs: &[PairReport], tai_s: &Fact<i32>) -> Vec<Note> {
    pairs.iter().filter_map(|pair| scale_note(pair, tai_s)).collect()
}

fn scale_note(pair: &PairReport, tai_s: &Fact<i32>) -> Option<Note> {
    let ahead_ns = pair.drift.offset.ns as i64;
    let (reference, off_ns) = (pair.reference.clone(), pair.drift.offset.ns.abs());
    match (pair.clock, phc_device(&reference)) {
        (ClockName::Realtime, Some(device)) => {
            let seems = match Apparent::from_lead(ahead_ns.saturating_neg(), tai_s) {
                Apparent::Tai if pair.offset_is_error => Seems::Tai,
                Apparent::Tai => {
                    Seems::UnspecifiedTai { device: device.to_owned(), scale: PhcScale::tai(tai_s) }
                }
                Apparent::LessThanUtc if is_less_tai(&reference) => Seems::Utc,
                Apparent::LessThanUtc => Seems::BehindUtc,
                Apparent::Utc | Apparent::Neither => return None,
            };
            Some(Note::ReferenceScale { reference, off_ns, seems })
        }
        (ClockName::Phc, _) if pair.offset_is_error => {
            let counts_tai = Apparent::from_lead(ahead_ns, tai_s) == Apparent::Tai;
            counts_tai.then_some(Note::ClockScale { reference, off_ns })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
