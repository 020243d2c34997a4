//! Each cause's entry in the table of statements, with its figures.

use instruments::figures;

use super::cause::{BRACKETED_LATE_NS, UnstableCause, WatchdogForm};
use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies::{READ_ONLY, add_parameter};
use crate::rules::statements::named;
use crate::text;

/// Names in an entry, and what stands for them.
type Values = Vec<(&'static str, String)>;

/// The entry of a cause, and the figures in it.
pub(super) fn entry(cause: &UnstableCause) -> (&'static str, Values) {
    let by = |ns: Option<f64>| {
        vec![("by", ns.map_or_else(String::new, |ns| format!(" by {}", figures::time(ns))))]
    };
    match cause {
        UnstableCause::NotSynchronised => ("unstable-not-synchronized", vec![]),
        UnstableCause::Warp => ("unstable-warp", vec![]),
        UnstableCause::Halts => ("unstable-halts", vec![]),
        UnstableCause::FollowsFrequency => ("unstable-follows-frequency", vec![]),
        UnstableCause::NotCalibrated => ("unstable-not-calibrated", vec![]),
        UnstableCause::WithoutAcpi => ("unstable-without-acpi", vec![]),
        UnstableCause::HostBackward => ("unstable-host-backward", vec![]),
        UnstableCause::TickReference => ("unstable-ticks", vec![]),
        UnstableCause::ReferenceSilent => ("unstable-reference-silent", vec![]),
        UnstableCause::ReferenceStands => ("unstable-reference-stands", vec![]),
        UnstableCause::Forced => ("unstable-forced", vec![]),
        UnstableCause::ReadLate => ("unstable-read-late", vec![]),
        UnstableCause::NotLogged => ("unstable-not-logged", vec![]),
        UnstableCause::Damaged { what } => ("unstable-damaged", vec![("what", what.clone())]),
        UnstableCause::JumpedAhead { by_ns } => ("unstable-jumped-ahead", by(*by_ns)),
        UnstableCause::Stopped { by_ns, by_page: true } => ("unstable-stopped-by-page", by(*by_ns)),
        UnstableCause::Stopped { by_ns, by_page: false } => ("unstable-stopped", by(*by_ns)),
        UnstableCause::Backward { cycles } => {
            let by = cycles.map(|cycles| format!(" by {} cycles", figures::count(cycles)));
            ("unstable-backward", vec![("by", by.unwrap_or_default())])
        }
        UnstableCause::ReferenceBackward { by_ns } => {
            ("unstable-reference-backward", vec![("by", figures::time(*by_ns))])
        }
        UnstableCause::PageOff { by_ns } => ("unstable-page-off", vec![("by", signed(*by_ns))]),
        UnstableCause::PageLeapt { by_ns } => {
            ("unstable-page-leapt", vec![("by", seconds(*by_ns))])
        }
        UnstableCause::CheckLate { length_ns } => {
            ("unstable-check-late", vec![("late", seconds(*length_ns))])
        }
        UnstableCause::Unexplained { by_ns } => {
            ("unstable-unexplained", vec![("ahead", ahead(*by_ns))])
        }
        UnstableCause::OneCheck { by_ns, by_emulation } => {
            let names = ["unstable-one-check", "unstable-one-check-emulated"];
            (names[usize::from(*by_emulation)], vec![("ahead", ahead(*by_ns))])
        }
        other => entry_with_sums(other),
    }
}

/// Entries whose figures are computed from several.
fn entry_with_sums(cause: &UnstableCause) -> (&'static str, Values) {
    match cause {
        UnstableCause::ReferenceDiscarded { counted_ns, times, wrap_ns, tsc_hz } => {
            let (counted, wrap) = (figures::time(*counted_ns), figures::time(*wrap_ns));
            let fit = fit(*times, *tsc_hz);
            let values = vec![("counted", counted), ("wrap", wrap), ("fit", fit)];
            ("unstable-reference-discarded", values)
        }
        UnstableCause::ReferenceWrapped { times, wrap_ns, rest_ns } => {
            let (wrap, rest) = (figures::time(*wrap_ns), figures::time(rest_ns.abs()));
            let values = vec![("wraps", wraps(*times)), ("wrap", wrap), ("rest", rest)];
            ("unstable-reference-wrapped", values)
        }
        UnstableCause::Overflow { power, rest_ns } => {
            let values = vec![("power", power.to_string()), ("rest", signed(*rest_ns))];
            ("unstable-overflow", values)
        }
        UnstableCause::SignLost { power, by_ns } => {
            let by = figures::time(by_ns.abs());
            let rest = ("rest", signed(*by_ns));
            ("unstable-sign-lost", vec![("power", power.to_string()), rest, ("by", by)])
        }
        UnstableCause::Drifted { by_ns, after_s } => {
            let (by, after) = (figures::time(by_ns.abs()), figures::seconds(*after_s));
            let ppm = figures::ppm(by_ns / after_s / 1e3);
            ("unstable-drifted", vec![("by", by), ("after", after), ("ppm", ppm)])
        }
        UnstableCause::ReferenceWrong { by_ns, witness } => {
            let values = vec![("by", signed(*by_ns)), ("witness", witness.clone())];
            ("unstable-reference-wrong", values)
        }
        UnstableCause::WrongRate { ppm, form, is_refined } => {
            // By a second calibration, or by one check alone.
            let or = if *is_refined { "" } else { ", or its CPUs' counters differ" };
            let name = match form {
                WatchdogForm::Rewritten => "unstable-wrong-rate-rewritten",
                _ => "unstable-wrong-rate",
            };
            (name, vec![("ppm", figures::ppm(*ppm)), ("or", or.to_owned())])
        }
        UnstableCause::Jumped { by_ns, after_s, form } => {
            let name = match form {
                WatchdogForm::Apart => "unstable-jumped-apart",
                // So much two reads of a busy reference may be apart.
                WatchdogForm::Bracketed if by_ns.abs() < BRACKETED_LATE_NS => {
                    "unstable-jumped-little"
                }
                WatchdogForm::Bracketed => "unstable-jumped-bracketed",
                WatchdogForm::Rewritten => "unstable-jumped-rewritten",
            };
            let checks = format!("{:.0}", after_s * 2.0);
            let after = figures::seconds(*after_s);
            (name, vec![("after", after), ("by", signed(*by_ns)), ("checks", checks)])
        }
        UnstableCause::RateUnknown { fits } => {
            let has_wraps = fits.iter().any(|(wraps, _)| *wraps > 0);
            let names = ["unstable-rate-unknown", "unstable-rate-unknown-wraps"];
            let fits = fits.iter().map(estimate).collect::<Vec<_>>().join("; ");
            (names[usize::from(has_wraps)], vec![("fits", fits)])
        }
        _ => ("unstable-not-logged", vec![]),
    }
}

/// `1.65 s ahead of`, `277 ms behind`
fn ahead(ns: f64) -> String {
    let side = if ns < 0.0 { "behind" } else { "ahead of" };
    format!("{} {side}", figures::time(ns.abs()))
}

fn signed(ns: f64) -> String {
    figures::signed(ns, figures::time)
}

fn seconds(ns: f64) -> String {
    figures::seconds(ns / 1e9)
}

fn wraps(times: u32) -> String {
    text::count(times as usize, "wrap", "wraps")
}

fn fit(times: u32, tsc_hz: Option<f64>) -> String {
    let wraps = match times {
        0 => "With that count".to_owned(),
        n => format!("With that count and {}", wraps(n)),
    };
    match tsc_hz {
        Some(hz) => format!("{wraps} the TSC ran at {}, estimated from the two", ghz(hz)),
        None => format!("{wraps} the two agree"),
    }
}

fn estimate((times, hz): &(u32, f64)) -> String {
    match times {
        0 => ghz(*hz),
        n => format!("{} with {} of the reference's counter", ghz(*hz), wraps(*n)),
    }
}

/// An estimate has no more digits.
fn ghz(hz: f64) -> String {
    format!("{:.2} GHz", hz / 1e9)
}

// What to do about each cause, beyond the table of statements: by what the machine has.

/// The remedies; `table`: those of the cause's entry.
pub(super) fn remedies(
    cause: &UnstableCause,
    case: &Case<'_>,
    is_tsc: bool,
    table: Vec<Remedy>,
) -> Vec<Remedy> {
    let is_guest = case.is_guest() == Some(true);
    let has_own = matches!(cause, UnstableCause::Forced | UnstableCause::PageLeapt { .. });
    match cause {
        _ if !is_tsc && cause.acquits() => of_other_clock(),
        _ if !is_tsc => named("unstable-not-logged", &[]).remedies,
        _ if cause.acquits() && !has_own => not_at_fault(case),
        UnstableCause::Jumped { form: WatchdogForm::Apart, .. }
            if !is_guest || !is_guaranteed(case) =>
        {
            not_at_fault(case)
        }
        UnstableCause::WrongRate { form, .. } if *form != WatchdogForm::Rewritten && !is_guest => {
            let recalibrate = add_parameter(case, "tsc=recalibrate").changes(
                "from the next boot on (Linux 6.3 and later): the kernel measures the frequency \
                 and only warns",
            );
            [table, vec![recalibrate]].concat()
        }
        UnstableCause::Halts => {
            let shallow = add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1")
                .changes("from the next boot on: the counter no longer stops; idle power rises");
            [table, vec![shallow]].concat()
        }
        _ => table,
    }
}

/// A clock source that is not the TSC: no flags or parameters of x86.
fn of_other_clock() -> Vec<Remedy> {
    vec![
        Remedy::advice(
            "Find what delays the reference: in a virtual machine or an emulator its host, which \
             delivers timer interrupts late; give it CPU time.",
        ),
        Remedy::command(
            "Find which clock source is in use; clocksource= on the kernel's command line names \
             another.",
            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .changes(READ_ONLY),
    ]
}

/// The remedies when the TSC seems not at fault: tsc=nowatchdog only where the
/// CPU guarantees it.
pub(super) fn not_at_fault(case: &Case<'_>) -> Vec<Remedy> {
    if case.flags().is_err() {
        return vec![
            Remedy::command(
                "Check that the CPU guarantees its TSC: both flags must be listed.",
                "grep -m1 -oE 'constant_tsc|nonstop_tsc' /proc/cpuinfo",
            )
            .changes(READ_ONLY),
            Remedy::advice(
                "Add tsc=nowatchdog to the kernel's command line if both flags are listed: the \
                 kernel then keeps the TSC. If the reference is the HPET, hpet=disable removes it instead.",
            ),
        ];
    }
    if !is_guaranteed(case) {
        return vec![Remedy::advice(if case.is_guest() == Some(true) {
            "Leave tsc unused: the host does not guarantee it either (QEMU with KVM: -cpu \
             host,+invtsc, which blocks migration unless tsc-frequency= is set too)."
        } else {
            "Leave tsc unused: the CPU does not guarantee it either (constant_tsc, nonstop_tsc)."
        })];
    }
    vec![
        Remedy::command("Check that the CPUs' counters agree.", "parachron bench")
            .changes(READ_ONLY),
        add_parameter(case, "tsc=nowatchdog").changes(
            "from the next boot on the kernel uses the TSC without a watchdog (Linux 5.4 and \
             later), and does not notice if the TSC goes wrong",
        ),
    ]
}

fn is_guaranteed(case: &Case<'_>) -> bool {
    case.flags().is_ok_and(|flags| flags.constant_tsc && flags.nonstop_tsc)
}
