//! The rules: their functions here, their words in the table rules.txt.

mod agreement;
mod alarms;
mod clocksource;
mod cost;
mod daemon_steps;
mod discipline;
mod generic_timer;
mod guest_tools;
mod hypervisors;
mod idle;
mod kvm;
mod leap;
mod log_events;
mod parameters;
mod restore;
mod rtc;
mod sources;
mod start;
mod statements;
mod steal;
mod steering;
mod stepping;
mod tsc;
mod tsc_firmware;
mod unstable;

use std::sync::LazyLock;

pub(crate) use self::statements::named;
use crate::case::Case;
use crate::finding::Harm;
use crate::rule::Check;
use crate::rule::Rule;

/// A rule's function.
pub(crate) type RuleCheck = fn(&Case<'_>) -> Check;

/// The rules' functions, by name.
#[rustfmt::skip]
pub(crate) const CHECKS: [(&str, RuleCheck); 55] = [
    ("clock-sources-readable", clocksource::check_readable),
    ("facts-agree", agreement::check),
    ("clock-order", cost::check_order),
    ("tsc-frequency", tsc::check_frequency),
    ("counter-frequency", generic_timer::check_frequency),
    ("tsc-across-cpus", tsc::check_across_cpus),
    ("slow-clocksource", clocksource::check_slow),
    ("tsc-marked-unstable", unstable::check_marked),
    ("watchdog-late", unstable::check_late),
    ("tsc-trapped", cost::check_trapped),
    ("kvm-clock-not-stable", kvm::check_not_stable),
    ("reads-enter-kernel", cost::check_enter_kernel),
    ("clock-before-build", start::check_before_build),
    ("frequency-correction", discipline::check_frequency),
    ("clock-offset", discipline::check_offset),
    ("daemon-steps", daemon_steps::check_steps),
    ("time-lost", log_events::check_time_lost),
    ("phc-time-scale", sources::check_time_scale),
    ("snapshot-restore", restore::check_snapshots),
    ("clock-steered", steering::check_steered),
    ("makestep-limited", stepping::check_limited),
    ("mixed-leap-smear", sources::check_mixed),
    ("chrony-configuration", sources::check_configuration),
    ("ntp-configuration", sources::check_others),
    ("host-clock-unused", sources::check_unused),
    ("one-daemon", steering::check_one_daemon),
    ("guest-tools", guest_tools::check_guest_tools),
    ("error-bound", discipline::check_error_bound),
    ("leap-second", leap::check_armed),
    ("kvm-clock-missing", kvm::check_missing),
    ("kvm-host-clock", kvm::check_host),
    ("tsc-not-constant", tsc::check_not_constant),
    ("virtualbox-provider", hypervisors::check_virtualbox),
    ("hyperv-clock", hypervisors::check_hyperv),
    ("software-emulation", hypervisors::check_emulated),
    ("clocksource-not-used", clocksource::check_requested),
    ("harmful-parameters", parameters::check_harmful),
    ("obsolete-parameters", parameters::check_obsolete),
    ("steal-time", steal::check_steal),
    ("stalls", steal::check_stalls),
    ("hint-of-dedicated-cpus", idle::check_dedicated),
    ("coarse-timers", idle::check_coarse_timers),
    ("guest-halt-polling", idle::check_guest_halt_polling),
    ("host-halt-polling", idle::check_host_halt_polling),
    ("expensive-exits", idle::check_expensive_exits),
    ("read-cost", cost::check_out_of_line),
    ("offset-miscast", alarms::check_miscast),
    ("offset-alarm-blind", alarms::check_blind),
    ("rtc-local-time", rtc::check_local_time),
    ("rtc-off", rtc::check_off),
    ("rtc-missing", rtc::check_missing),
    ("pauses-seen", restore::check_pauses),
    ("vmclock-status", restore::check_vmclock),
    ("tsc-firmware", tsc_firmware::check_firmware),
    ("tai-offset", leap::check_tai),
];

/// What they check; the file's heading describes the form.
const TABLE: &str = include_str!("rules.txt");

/// Every rule, in the order of the table.
pub static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| TABLE.split("\n== ").skip(1).filter_map(parse_rule).collect());

fn parse_rule(part: &'static str) -> Option<Rule> {
    let mut lines = part.lines();
    let (name, harm) = lines.next()?.split_once(" | ")?;
    let harm = match harm {
        "wrong" => Harm::MayGoWrong,
        "none" => Harm::Other,
        _ => return None,
    };
    let (_, check) = CHECKS.into_iter().find(|(known, _)| *known == name)?;
    Some(Rule { name, harm, checks: lines.next()?, source: lines.next()?, check })
}

/// The rules that a log alone can answer.
pub const OF_LOGS: [&str; 9] = [
    "tsc-marked-unstable",
    "watchdog-late",
    "kvm-host-clock",
    "daemon-steps",
    "time-lost",
    "tsc-frequency",
    "stalls",
    "pauses-seen",
    "tsc-firmware",
];
