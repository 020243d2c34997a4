//! What changed from one sample to the next, whatever it means.

use facts::hardware::PvclockPage;
use instruments::steps::page::{PageFieldChange, PageStep};
use pvclock::kvm_clock::TimeInfo;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Evidence;

/// An event and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    /// CLOCK_MONOTONIC, ns.
    pub at_monotonic_ns: u64,
    /// What.
    pub event: Event,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The kvm-clock page was updated.
    PageUpdate(ObservedPageUpdate),
    /// The kvm-clock page became readable.
    PageAppeared {
        /// What it holds.
        page: PvclockPage,
    },
    /// The kvm-clock page is no longer readable.
    PageGone {
        /// Why.
        why: String,
    },
    /// A single change, which may become the evidence of a disruption.
    Change(Evidence),
}

/// Why a sample was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LateCause {
    /// The host ran others on the CPU (steal).
    Stolen,
    /// Nothing on the machine ran, and it counts as stolen: the host ran others
    /// or, as Xen counts it, stopped the machine.
    StolenOrStopped,
    /// Other threads of this machine ran on the CPU.
    RunDelay,
    /// This process was stopped (SIGSTOP) and continued.
    ProcessStopped,
    /// The machine ran, and this process did not.
    ProcessNotRun,
    /// Nothing on the machine ran.
    MachineStopped,
    /// Not known.
    Unknown,
}

impl LateCause {
    /// The machine was stopped, as far as is known.
    pub(crate) const MAYBE_STOPPED: [Self; 2] = [Self::MachineStopped, Self::Unknown];
}

/// An update of the kvm-clock page.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ObservedPageUpdate {
    /// Updates since the last event, by the version; null where it went back.
    pub updates: Option<u32>,
    /// The page's version now.
    pub version: u32,
    /// Time by the new page minus time by the old one, at the TSC of the
    /// update, ns; null where one of them is not valid.
    pub step_ns: Option<i64>,
    /// Why there is no step.
    pub no_step: Option<String>,
    /// Time since the last observed update, s; null for the first.
    pub since_last_s: Option<f64>,
    /// Fields that differ.
    pub changed: Vec<PageFieldChange>,
}

impl ObservedPageUpdate {
    pub(crate) fn new(update: &PageStep, now: &TimeInfo, since_last_ns: Option<u64>) -> Self {
        Self {
            updates: update.updates,
            version: now.version,
            step_ns: update.step_ns.ok(),
            no_step: update.step_ns.err().map(|error| error.to_string()),
            since_last_s: since_last_ns.map(seconds),
            changed: update.changed.clone(),
        }
    }
}

/// The page's contents as a fact.
pub fn page_fact(info: &TimeInfo) -> PvclockPage {
    PvclockPage {
        version: info.version,
        tsc_timestamp: info.tsc_timestamp,
        system_time_ns: info.system_time.0,
        tsc_to_system_mul: info.scale.mul(),
        tsc_shift: info.scale.shift(),
        flags: info.flags.0,
    }
}

/// ns in s.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
