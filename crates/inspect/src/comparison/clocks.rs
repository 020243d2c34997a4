//! The clocks to be measured, read all at once.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use facts::{Fact, Facts};
use instruments::drift::{DriftReading, Nesting, Span};
use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};
use pvclock::kvm_clock::TimeReader;
use pvclock::units::TimeReading;
use schemars::JsonSchema;
use serde::Serialize;
use sources::RtcSource;
use sources::phc::device_reader;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::comparison::{self, RtcAtEdges};
use crate::mapped_page;

/// A clock's name on the command line and in records.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ClockName {
    /// The first PTP hardware clock, /dev/ptp0.
    Phc,
    /// The battery-backed clock.
    Rtc,
    /// The CPU's counter by its nominal frequency: the TSC, on arm64 CNTVCT.
    Tsc,
    /// The kvm-clock page, read in place.
    Pvclock,
    /// CLOCK_MONOTONIC_RAW.
    Raw,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_REALTIME.
    Realtime,
}

impl ClockName {
    /// All, in the order in which they are read: slow to read first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied()
    }

    /// As typed.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Phc => "The first PTP hardware clock, /dev/ptp0",
            Self::Rtc => "The battery-backed clock",
            Self::Tsc => "The CPU's counter (arm64: CNTVCT), by its nominal frequency",
            Self::Pvclock => "The kvm-clock page, read in place",
            Self::Raw => "CLOCK_MONOTONIC_RAW",
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Realtime => "CLOCK_REALTIME",
        }
    }

    /// The clock of that name.
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Whether it counts from 1970, so that its offset from a reference that
    /// does means something.
    pub fn counts_from_1970(self) -> bool {
        matches!(self, Self::Realtime | Self::Rtc | Self::Phc)
    }
}

/// What clock `phc` is.
pub(super) const FIRST_PHC: &str = "/dev/ptp0";

/// Reads a clock, ns: what it shows at least, and at most.
pub type Reader = Box<dyn Fn() -> Option<Span>>;

/// How to read the clock of that name.
fn reader(name: ClockName, facts: &Facts) -> Result<Reader, String> {
    match name {
        ClockName::Tsc if !counter::is_readable() => {
            Err("reading the counter is forbidden to this process".into())
        }
        ClockName::Tsc => nominal_tsc(facts)
            .map(|nominal| tsc(nominal.hz))
            .ok_or("its frequency is neither in the kernel log nor in CPUID or CNTFRQ".into()),
        ClockName::Pvclock => {
            let page = into_result(mapped_page::in_place()).map(TimeReader::new)?;
            page.nanos_ordered(&CpuCounter).map_err(|error| error.to_string())?;
            Ok(Box::new(move || Some(Span::instant(page.nanos_ordered(&CpuCounter).ok()?.0))))
        }
        ClockName::Raw => system(LinuxClock::MonotonicRaw),
        ClockName::Monotonic => system(LinuxClock::Monotonic),
        ClockName::Boottime => system(LinuxClock::Boottime),
        ClockName::Realtime => system(LinuxClock::Realtime),
        ClockName::Rtc => Err("is read when its second changes".into()),
        ClockName::Phc => {
            let read = device_reader(Path::new(FIRST_PHC)).map_err(|why| why.to_string())?;
            Ok(Box::new(move || read().map(|(before, after)| Span { before, after })))
        }
    }
}

fn system(clock: LinuxClock) -> Result<Reader, String> {
    match clock.read_ns() {
        Some(_) => Ok(Box::new(move || clock.read_ns().map(Span::instant))),
        None => Err(format!("this kernel has no {}, or it shows a time before 1970", clock.name())),
    }
}

fn tsc(hz: u64) -> Reader {
    Box::new(move || {
        let ns = u128::from(CpuCounter.read_ordered()) * 1_000_000_000 / u128::from(hz);
        Some(Span::instant(u64::try_from(ns).ok()?))
    })
}

fn into_result<T>(fact: Fact<T>) -> Result<T, String> {
    match fact {
        Fact::Known(value) => Ok(value),
        Fact::Unknown(why) => Err(why.to_string()),
    }
}

/// The frequency that the TSC is taken for: by the kernel, by CPUID, or by
/// the host that fills the kvm-clock page.
fn nominal_tsc(facts: &Facts) -> Option<TscFrequency> {
    let logged = facts.kernel.tsc_hz().map(|(hz, _)| hz);
    let page = || {
        let info = TimeReader::new(*mapped_page::in_place().value()?).info().ok()?;
        Some(info.scale.to_hertz()?.0)
    };
    let of = |hz: Option<u64>, from| hz.map(|hz| TscFrequency { hz, from });
    let stated = facts.cpu.generic_timer.value().map(|timer| timer.hz);
    of(stated, TscSource::Cntfrq)
        .or_else(|| of(logged, TscSource::KernelLog))
        .or_else(|| of(facts.cpu.cpuid_tsc_hz.value().copied(), TscSource::Cpuid))
        .or_else(|| of(page(), TscSource::KvmClockPage))
        .filter(|tsc| tsc.hz > 0)
}

/// The frequency that the TSC is taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TscFrequency {
    /// The frequency, Hz.
    pub hz: u64,
    /// Where it is from.
    pub from: TscSource,
}

/// Where the TSC's frequency is from; the first that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TscSource {
    /// The kernel's log, which not every user may read.
    KernelLog,
    /// CPUID.
    Cpuid,
    /// The host, by the kvm-clock page.
    KvmClockPage,
    /// Firmware, by arm64's register CNTFRQ_EL0.
    Cntfrq,
}

impl TscSource {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelLog => "the kernel's log",
            Self::Cpuid => "CPUID",
            Self::KvmClockPage => "the kvm-clock page",
            Self::Cntfrq => "CNTFRQ_EL0",
        }
    }
}

/// A clock that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NotCompared {
    /// Which.
    pub what: ClockName,
    /// Why.
    pub why: String,
}

/// What all clocks showed at about one time, in order.
pub(super) type Stamp = Vec<Option<Span>>;

/// The clocks to be measured.
pub struct ComparedClocks {
    /// Slow to read first.
    readers: Vec<(ClockName, Reader)>,
    /// Those that cannot be read, and why.
    pub missing: Vec<NotCompared>,
    /// What the TSC is taken for, where it is one of them.
    pub tsc: Option<TscFrequency>,
    /// The RTC, where it is one of them.
    pub(super) rtc: Option<Rc<RtcAtEdges>>,
}

impl ComparedClocks {
    /// Those of `wanted`; when none is, all that are there but `reference`,
    /// which would be compared with itself.
    pub fn find(wanted: &[ClockName], reference: Option<ClockName>, facts: &Facts) -> Self {
        let (mut readers, mut missing) = (Vec::<(ClockName, Reader)>::new(), Vec::new());
        let mut rtc = None;
        for name in ClockName::all() {
            if wanted.contains(&name) || wanted.is_empty() && reference != Some(name) {
                let read = match name {
                    ClockName::Rtc => into_result(RtcSource::find()).map(|found| {
                        let found = Rc::new(RtcAtEdges::new(found));
                        let its = rtc.insert(found).clone();
                        Box::new(move || its.read()) as Reader
                    }),
                    _ => reader(name, facts),
                };
                match read {
                    Ok(reader) => readers.push((name, reader)),
                    Err(why) => missing.push(NotCompared { what: name, why }),
                }
            }
        }
        let has_tsc = readers.iter().any(|(name, _)| *name == ClockName::Tsc);
        Self { readers, missing, tsc: nominal_tsc(facts).filter(|_| has_tsc), rtc }
    }

    /// These, whatever they read.
    pub fn from_readers(readers: Vec<(ClockName, Reader)>) -> Self {
        Self { readers, missing: Vec::new(), tsc: None, rtc: None }
    }

    /// Those that a run of that length can measure: the RTC moves once a second.
    #[must_use]
    pub fn for_run(mut self, length: Duration) -> Self {
        if length < comparison::LEAST_RTC_TIME && self.rtc.take().is_some() {
            self.readers.retain(|(name, _)| *name != ClockName::Rtc);
            let least_s = comparison::LEAST_RTC_TIME.as_secs();
            let why = format!("it moves once a second: measure for {least_s} s or longer");
            self.missing.push(NotCompared { what: ClockName::Rtc, why });
        }
        self
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<ClockName> {
        self.readers.iter().map(|(name, _)| *name).collect()
    }

    /// A reader of all clocks, to be called before and after something: the
    /// slow ones are read first and, at the second call, last.
    pub(super) fn stamps(&self) -> impl Fn() -> Stamp + '_ {
        let is_second = Cell::new(false);
        move || {
            let mut stamp = vec![None; self.readers.len()];
            let each = stamp.iter_mut().zip(&self.readers);
            if is_second.replace(true) {
                each.rev().for_each(|(shown, (_, reader))| *shown = reader());
            } else {
                each.for_each(|(shown, (_, reader))| *shown = reader());
            }
            stamp
        }
    }

    /// Each clock around a source's time.
    pub(super) fn within(&self, reading: &TimeReading<Stamp>) -> Vec<ClockComparison> {
        let (before, after) = reading.shown_ns;
        let reference = Span { before, after };
        let stamps = reading.before.iter().zip(&reading.after);
        let each = self.readers.iter().zip(stamps);
        each.filter_map(|((name, _), (before, after))| {
            let shown = Span { before: before.as_ref()?.before, after: after.as_ref()?.after };
            // What the kernel read itself is tighter than two stamps.
            let cross_timestamp = reading.cross_timestamp.and_then(|cross_timestamp| {
                let (before, after) = match name {
                    ClockName::Realtime => cross_timestamp.realtime_ns,
                    ClockName::Raw => cross_timestamp.raw_ns.map(|ns| (ns, ns))?,
                    _ => return None,
                };
                Some((Span { before, after }, Span::instant(cross_timestamp.shown_ns)))
            });
            let (shown, reference) = cross_timestamp.unwrap_or((shown, reference));
            let reading = DriftReading { clock: shown, reference, nesting: Nesting::ClockOutside };
            Some(ClockComparison { clock: *name, reading })
        })
        .collect()
    }

    /// Each clock between two reads of a reference: the tightest of a few.
    pub(super) fn around(&self, reference: impl Fn() -> Option<u64>) -> Vec<ClockComparison> {
        let take = |reader: &Reader| {
            let tries = (0..TRIES).filter_map(|_| {
                let before = reference()?;
                let clock = reader()?;
                let reference = Span { before, after: reference()? };
                Some(DriftReading { clock, reference, nesting: Nesting::ReferenceOutside })
            });
            tries.min_by_key(|reading| {
                reading.reference.after.saturating_sub(reading.reference.before)
            })
        };
        let each = self.readers.iter();
        each.filter_map(|(clock, reader)| {
            Some(ClockComparison { clock: *clock, reading: take(reader)? })
        })
        .collect()
    }
}

/// Comparisons to choose the tightest from: an interrupt between two reads
/// widens one, and the next is taken without.
const TRIES: u32 = 4;

/// A clock compared with a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockComparison {
    /// Which clock.
    pub clock: ClockName,
    /// Both times.
    pub reading: DriftReading,
}

#[cfg(test)]
mod tests {
    use pvclock::units::Interval;

    use super::*;

    #[test]
    fn every_clock_is_read_around_and_within_a_reference() {
        let facts = crate::read(&crate::tree::Tree::live());
        let clocks = ComparedClocks::find(&[], Some(ClockName::Raw), &facts);
        let names = clocks.names();
        assert!(names.contains(&ClockName::Monotonic) && !names.contains(&ClockName::Raw));
        assert_eq!(names.contains(&ClockName::Tsc), clocks.tsc.is_some());
        assert_eq!(names.len() + clocks.missing.len() + 1, ClockName::all().count());
        let raw = || LinuxClock::MonotonicRaw.read_ns();
        let stamp = clocks.stamps();
        let before = stamp();
        let shown_ns = (raw().unwrap(), raw().unwrap());
        let (utc_ns, after) = (Interval::around(0, 0), stamp());
        let inner =
            clocks.within(&TimeReading { before, utc_ns, shown_ns, cross_timestamp: None, after });
        let outer = clocks.around(raw);
        assert_eq!((inner.len(), outer.len()), (names.len(), names.len()));
        for one in inner.iter().chain(&outer) {
            let (low, high) = one.reading.bounds();
            assert!(low <= high, "{one:?}");
        }
    }

    #[test]
    fn a_clock_that_is_named_is_measured_though_it_is_the_reference() {
        let facts = crate::read(&crate::tree::Tree::live());
        let clocks = ComparedClocks::find(&[ClockName::Raw], Some(ClockName::Raw), &facts);
        assert_eq!(clocks.names(), [ClockName::Raw]);
    }
}
