//! The report of `bench --list`: the document of `--format json`.

use facts::Fact;
use facts::Facts;
use facts::clocksource::{KNOWN_SOURCES, KnownSource, ReadPlace, known_source, order_of_cost};
use facts::cpu::Xen;
use instruments::measurements::{CallCost, Measurements, ReadPath, TRAPPED_RDTSC_NS};
use schemars::JsonSchema;
use serde::Serialize;

use super::absent;

/// The kernel's clock sources, cheapest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ClocksReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// The source in use.
    pub(crate) current: Fact<String>,
    /// Sources one may switch to, in the kernel's order.
    pub(crate) available: Fact<Vec<String>>,
    /// Each source.
    pub(crate) sources: Vec<Source>,
}

/// One clock source.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Source {
    /// Its name.
    pub(crate) name: String,
    /// One may switch to it.
    pub(crate) available: bool,
    /// It is in use.
    pub(crate) current: bool,
    /// Why it is not available.
    pub(crate) why_not_available: Option<String>,
    /// Its rating, by which the kernel chooses; null where unknown.
    pub(crate) rating: Option<Rating>,
    /// The step by which it advances; null where unknown.
    pub(crate) resolution: Option<Resolution>,
    /// What serves a program's clock read under it.
    pub(crate) read_path: SourceRead,
    /// What `clock_gettime(CLOCK_MONOTONIC)` costs under it.
    pub(crate) cost: SourceCost,
}

/// A rating: from `lowest` to `highest`, equal where it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Rating {
    /// At least this.
    pub(crate) lowest: u32,
    /// At most this.
    pub(crate) highest: u32,
    /// How it is known.
    pub(crate) from: String,
}

/// A resolution: from `finest_ns` to `coarsest_ns`, equal where it is known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Resolution {
    /// At least this, ns.
    pub(crate) finest_ns: f64,
    /// At most this, ns.
    pub(crate) coarsest_ns: f64,
    /// How it is known.
    pub(crate) from: String,
}

/// Where a clock read is served, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SourceRead {
    /// Where.
    pub(crate) place: ReadPlace,
    /// What is read: `RDTSC`, `I/O port`; null for an unknown source.
    pub(crate) read: Option<String>,
    /// Each read exits to the hypervisor, which emulates RDTSC.
    pub(crate) tsc_exits: bool,
    /// How it is known.
    pub(crate) from: String,
    /// Trial calls, and how many of them entered the kernel; null unless
    /// counted.
    pub(crate) counted: Option<TrialCalls>,
}

/// Trial calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TrialCalls {
    /// Calls made.
    pub(crate) calls: u64,
    /// Of them, those that entered the kernel.
    pub(crate) entered: u64,
}

/// A cost, or why it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SourceCost {
    /// Measured.
    Measured(CallCost),
    /// Not measured.
    NotMeasured {
        /// Why.
        why: String,
    },
}

impl ClocksReport {
    /// The report from `facts` and, for a live machine, `measured`; with `all`,
    /// also on sources that this machine does not offer.
    pub(super) fn new(facts: &Facts, measured: Option<&Measurements>, all: bool) -> Self {
        let sources = &facts.clocksources;
        let available = sources.available.value().cloned().unwrap_or_default();
        let current = sources.current.value().cloned();
        let others = KNOWN_SOURCES.iter().filter(|_| all).map(|known| known.name.to_owned());
        let mut names: Vec<String> = Vec::new();
        for name in available.iter().chain(&current).cloned().chain(others) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort_by_key(|name| order_of_cost(name));
        let sources = names
            .into_iter()
            .map(|name| {
                let is_current = current.as_ref() == Some(&name);
                source(name, &available, is_current, facts, measured)
            })
            .collect();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            current: facts.clocksources.current.clone(),
            available: facts.clocksources.available.clone(),
            sources,
        }
    }
}

fn source(
    name: String,
    available: &[String],
    current: bool,
    facts: &Facts,
    measured: Option<&Measurements>,
) -> Source {
    let known = known_source(&name);
    let cost = cost(&name, measured);
    let counted = match &cost {
        SourceCost::Measured(cost) => Some(cost.path),
        SourceCost::NotMeasured { .. } => None,
    };
    // The kernel may leave the one in use out of its list.
    let is_available = current || available.contains(&name);
    Source {
        available: is_available,
        current,
        why_not_available: (!is_available).then(|| absent::reason(&name, facts)),
        rating: known.map(|known| rating(known, available)),
        resolution: known.map(|known| resolution(known, facts, measured)),
        read_path: SourceRead {
            tsc_exits: reads_tsc(known) && tsc_exits(facts, measured),
            ..read_path(known, facts, counted)
        },
        cost,
        name,
    }
}

/// The cost as measured while this source was in use.
fn cost(name: &str, measured: Option<&Measurements>) -> SourceCost {
    let not_measured = |why: &str| SourceCost::NotMeasured { why: why.to_owned() };
    match measured {
        None => not_measured("a capture has no clock to read"),
        Some(measured) if measured.clocksource.as_deref() != Some(name) => {
            not_measured("not in use (`parachron bench --each-source`, as root, measures all)")
        }
        Some(measured) => match (measured.costs.first(), measured.not_measured.first()) {
            (Some(cost), _) => SourceCost::Measured(cost.clone()),
            (None, Some(missed)) => not_measured(&missed.why),
            (None, None) => not_measured("no call completed in time"),
        },
    }
}

/// A rating, narrowed by the kernel's order: it lists sources best first, and
/// tsc always has 300.
fn rating(known: &KnownSource, available: &[String]) -> Rating {
    let (lowest, highest) = known.ratings;
    let rating = |lowest, highest, from: &str| Rating { lowest, highest, from: from.to_owned() };
    let at = |name: &str| available.iter().position(|source| source == name);
    match (at(known.name), at("tsc")) {
        _ if lowest == highest => rating(lowest, highest, "equal in all kernels"),
        (Some(own), Some(tsc)) if own > tsc => {
            rating(lowest, highest.min(299), "listed after tsc, which has 300")
        }
        (Some(own), Some(tsc)) if own < tsc => {
            // No kernel had kvm-clock between the two.
            let lowest = if known.name == "kvm-clock" { highest } else { lowest.max(301) };
            rating(lowest, highest, "listed before tsc, which has 300")
        }
        _ => rating(lowest, highest, "depends on the kernel"),
    }
}

fn resolution(known: &KnownSource, facts: &Facts, measured: Option<&Measurements>) -> Resolution {
    let exact = |ns, from: String| Resolution { finest_ns: ns, coarsest_ns: ns, from };
    let found = match known.name {
        "tsc" | "tsc-early" => {
            tsc_hz(facts).or_else(|| measured_hz(measured?)).map(|(hz, from)| exact(1e9 / hz, from))
        }
        "hpet" => facts
            .kernel
            .hpet_period_ns()
            .map(|ns| exact(ns, "the kernel's log, max_idle_ns of its clocksource line".into())),
        "jiffies" | "refined-jiffies" => {
            facts.kernel.tick_hz().map(|hz| exact(1e9 / hz, format!("CONFIG_HZ={hz}")))
        }
        _ => None,
    };
    found.unwrap_or_else(|| {
        let (finest_ns, coarsest_ns) = known.resolution_ns;
        Resolution { finest_ns, coarsest_ns, from: known.resolution_from.to_owned() }
    })
}

/// The TSC's frequency that the kernel assumes, and how it is known.
fn tsc_hz(facts: &Facts) -> Option<(f64, String)> {
    let logged = facts.kernel.tsc_hz();
    let logged = logged.map(|(hz, line)| (hz, format!("the kernel's log: {}", line.text)));
    let stated = facts.cpu.cpuid_tsc_hz.value().filter(|hz| **hz > 0);
    let found = logged.or(stated.map(|hz| (*hz, "CPUID".to_owned())));
    found.map(|(hz, from)| (hz as f64, from))
}

/// The measured frequency, where the log is not readable.
fn measured_hz(measured: &Measurements) -> Option<(f64, String)> {
    let rate = measured.tsc_rate?;
    let mhz = rate.hz / 1e6;
    let from =
        format!("measured: {mhz:.3} MHz ± {:.2} ppm in {:.1} s", rate.bound_ppm, rate.over_s);
    Some((rate.hz, from))
}

fn read_path(known: Option<&KnownSource>, facts: &Facts, counted: Option<ReadPath>) -> SourceRead {
    let read = known.map(|known| known.read.to_owned());
    if let Some(ReadPath::Counted { calls, entered }) = counted {
        let place = match entered {
            0 => ReadPlace::UserSpace,
            entered if entered == calls => ReadPlace::Kernel,
            _ => ReadPlace::Depends,
        };
        let from = "counted".to_owned();
        let counted = Some(TrialCalls { calls, entered });
        return SourceRead { place, read, tsc_exits: false, from, counted };
    }
    let (place, from) = match known {
        _ if without_vdso(facts) => (ReadPlace::Kernel, "kernel command line: vdso=0"),
        Some(known) if known.name == "timer" => {
            (ReadPlace::Kernel, "User-mode Linux serves each call itself")
        }
        None => (ReadPlace::Unknown, "a source unknown to this version"),
        Some(known) if known.name == "kvm-clock" => kvm_clock_place(facts),
        Some(known) if known.place == ReadPlace::Depends => (known.place, "depends on the kernel"),
        Some(known) => (known.place, "the kernel's source code"),
    };
    SourceRead { place, read, tsc_exits: false, from: from.to_owned(), counted: None }
}

/// Whether the kernel was told to give programs no vDSO.
fn without_vdso(facts: &Facts) -> bool {
    facts.kernel.command_line.is_known_and(|words| words.iter().any(|word| word == "vdso=0"))
}

/// Sources that are read with RDTSC.
fn reads_tsc(known: Option<&KnownSource>) -> bool {
    known.is_some_and(|known| known.read.contains("RDTSC") || known.read.contains("CNTVCT"))
}

/// Whether RDTSC exits to the hypervisor: measured, or as Xen reports it.
fn tsc_exits(facts: &Facts, measured: Option<&Measurements>) -> bool {
    let by_xen = || {
        let hypervisor = facts.cpu.hypervisor.value();
        hypervisor.and_then(|found| found.xen).is_some_and(Xen::emulates_tsc)
    };
    let rdtsc = measured.and_then(|all| all.counter_cost());
    rdtsc.map_or_else(by_xen, |cost| cost.ns.min > TRAPPED_RDTSC_NS)
}

/// The vDSO reads the page only where the host sets TSC_STABLE.
fn kvm_clock_place(facts: &Facts) -> (ReadPlace, &'static str) {
    const TSC_STABLE: u8 = 1;
    let features = facts.cpu.hypervisor.value().and_then(|hypervisor| hypervisor.kvm_features);
    match (facts.pvclock_page.value(), features) {
        (Some(page), _) if page.flags & TSC_STABLE != 0 => {
            (ReadPlace::UserSpace, "the page's flag TSC_STABLE is set")
        }
        (Some(_), _) => (ReadPlace::Kernel, "the page's flag TSC_STABLE is not set"),
        (None, Some(features)) if !features.clocksource_stable => {
            (ReadPlace::Kernel, "the host does not offer CLOCKSOURCE_STABLE")
        }
        (None, _) => (ReadPlace::Depends, "user space if the page's flag TSC_STABLE is set"),
    }
}
