//! One machine's clock, as it is known now.

use std::collections::BTreeMap;

/// One machine's clock. Offsets are what to add to the clock, s: positive where it is
/// behind. What is not known is `None`, and has no sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Version of the exporter.
    pub version: String,
    /// Whether the daemon replies.
    pub daemon_up: Option<bool>,
    /// Whether the daemon only reports what it would do.
    pub dry_run: Option<bool>,
    /// Whether somebody vouches for the clock now.
    pub synchronised: Option<bool>,
    /// Whether it is right by what was learnt alone.
    pub holdover: Option<bool>,
    /// The clock's offset, and how far from it the truth may be.
    pub offset_s: Option<f64>,
    /// That.
    pub offset_bound_s: Option<f64>,
    /// The clock is off by this at most.
    pub error_bound_s: Option<f64>,
    /// How long ago the best source was measured.
    pub measured_age_s: Option<f64>,
    /// What the kernel tells every program: synchronised.
    pub kernel_synchronised: Option<bool>,
    /// Its largest error.
    pub kernel_max_error_s: Option<f64>,
    /// Its frequency correction, as a ratio.
    pub frequency_correction: Option<f64>,
    /// The sources.
    pub sources: Vec<Source>,
    /// Disruptions by kind.
    pub disruptions: BTreeMap<String, u64>,
    /// How long ago the last of each kind was reported.
    pub disrupted_age_s: BTreeMap<String, f64>,
    /// Corrections by how: step, slew, makestep.
    pub corrections: BTreeMap<String, u64>,
    /// Corrections that were refused, and that failed.
    pub not_corrected: BTreeMap<String, u64>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// What reading the clock costs.
    pub read_s: Option<f64>,
    /// CPU time that the host gave to others, since boot.
    pub steal_s: Option<f64>,
    /// CPUs.
    pub cpus: Option<u32>,
    /// What it runs on. It has no sample, as it changes nothing that alerts are about.
    pub machine: MachineNames,
    /// What `doctor` found.
    pub findings: Vec<RuleFinding>,
    /// Consumers that run here, by name.
    pub consumers_here: Vec<String>,
}

/// What a machine runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineNames {
    /// The hypervisor, `none` where there is none.
    pub platform: Option<String>,
    /// The product, by the firmware.
    pub product: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
}

/// What a time daemon measured of the clock that it keeps, s: chronyd (`chronyc tracking`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DaemonTracking {
    /// What is to be added to the clock: what chronyd still has to slew.
    pub offset_s: f64,
    /// What the clock was off by at the last update.
    pub last_offset_s: f64,
    /// Root dispersion and half the root delay.
    pub bound_s: f64,
    /// Since the last update.
    pub age_s: Option<f64>,
}

impl Snapshot {
    /// Adds what another time daemon measured, and the bound that the kernel states. A
    /// parachrond that has sources and states no bound knows that the clock may be wrong, as
    /// after a pause; they do not.
    pub fn complete(
        &mut self,
        other: impl FnOnce() -> Option<DaemonTracking>,
        stated_s: Option<f64>,
    ) {
        let knows = self.daemon_up == Some(true) && !self.sources.is_empty();
        if self.error_bound_s.is_none() && !knows {
            if let Some(followed) = other() {
                self.follow(followed);
            }
            self.error_bound_s = self.error_bound_s.or(stated_s);
        }
        self.synchronised = self.synchronised.or(self.kernel_synchronised);
    }

    /// The clock is as the daemon measured it.
    fn follow(&mut self, followed: DaemonTracking) {
        let DaemonTracking { offset_s, last_offset_s, bound_s, age_s } = followed;
        self.measured_age_s = age_s;
        self.offset_s = Some(offset_s);
        self.offset_bound_s = Some(bound_s);
        // What it was off by at the last update, it may be off by before the next: a clock
        // that is slewed right again each minute shows nothing that is left.
        self.error_bound_s = Some(offset_s.abs().max(last_offset_s.abs()) + bound_s);
    }
}

/// A time source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its state: selected, combined, falseticker and so on.
    pub state: String,
    /// Its offset.
    pub offset_s: Option<f64>,
    /// The error of that is at most this.
    pub bound_s: Option<f64>,
    /// How long ago it was measured.
    pub age_s: Option<f64>,
}

/// A finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleFinding {
    /// The rule.
    pub rule: String,
    /// Its severity: error, warning, note.
    pub severity: String,
}
