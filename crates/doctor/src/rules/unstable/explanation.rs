//! Each cause explained.

use instruments::figures;

use super::cause::{UnstableCause, WatchdogForm};
use super::limits::BRACKETED_LATE_NS;
use crate::text;

/// The cause in half a line.
pub(super) fn summary(cause: &UnstableCause) -> String {
    match cause {
        UnstableCause::NotSynchronised => "its CPUs' counters may disagree".into(),
        UnstableCause::Warp => "its CPUs' counters disagree".into(),
        UnstableCause::Halts => "it stops in deep idle states".into(),
        UnstableCause::FollowsFrequency => "its rate follows the CPU's frequency".into(),
        UnstableCause::NotCalibrated => "its frequency is unknown".into(),
        UnstableCause::HostBackward => "a suspend set it back".into(),
        UnstableCause::Backward { cycles: Some(cycles) } => {
            format!("it went backward by {} cycles", figures::count(*cycles))
        }
        UnstableCause::Backward { cycles: None } => "it went backward".into(),
        UnstableCause::TickReference => "its reference counted timer ticks, which came late".into(),
        UnstableCause::ReferenceSilent => "its reference did not answer".into(),
        UnstableCause::ReferenceStands => "its reference stood still".into(),
        UnstableCause::ReferenceBackward { .. } => "its reference went backward".into(),
        UnstableCause::ReferenceDiscarded { .. } => "the check came seconds late".into(),
        UnstableCause::ReferenceWrapped { .. } => "its reference wrapped".into(),
        UnstableCause::Overflow { .. } => "the comparison overflowed".into(),
        UnstableCause::CheckLate { length_ns } => {
            format!("the check came {} late, and the two clocks agree", seconds(*length_ns))
        }
        UnstableCause::ReferenceWrong { by_ns, .. } => {
            format!("its reference was off by {}", figures::signed(*by_ns, figures::time))
        }
        UnstableCause::PageLeapt { by_ns } => {
            format!("its reference, the host's clock page, leapt by {}", seconds(*by_ns))
        }
        UnstableCause::JumpedAhead { by_ns: Some(ns) } => {
            format!("it jumped ahead by {}", figures::time(*ns))
        }
        UnstableCause::JumpedAhead { by_ns: None } => "it jumped ahead".into(),
        UnstableCause::Stopped { by_ns: Some(ns), .. } => {
            format!("it stopped or was set back by {}", figures::time(*ns))
        }
        UnstableCause::Stopped { by_ns: None, .. } => "it stopped or was set back".into(),
        UnstableCause::Damaged { .. } => "the log's figures contradict each other".into(),
        UnstableCause::ReadLate => "a read was late, under load".into(),
        UnstableCause::WrongRate { ppm, is_refined, .. } => rate_off(*ppm, *is_refined),
        UnstableCause::SignLost { by_ns, .. } => {
            format!("it went backward by {}", figures::time(by_ns.abs()))
        }
        UnstableCause::Drifted { by_ns, after_s } => format!(
            "the two clocks agree except for a drift of {} in {}",
            figures::time(by_ns.abs()),
            figures::seconds(*after_s)
        ),
        UnstableCause::Forced => "a test of the watchdog provoked it".into(),
        UnstableCause::PageOff { by_ns } => format!(
            "its reference was off by {}: the host's clock page",
            figures::signed(*by_ns, figures::time)
        ),
        UnstableCause::Unexplained { by_ns } => {
            format!("it was {} its reference, and the log does not show why", ahead(*by_ns))
        }
        UnstableCause::OneCheck { by_ns, .. } => format!(
            "it was {} its reference, and one check cannot show which clock is wrong",
            ahead(*by_ns)
        ),
        UnstableCause::Jumped { by_ns, after_s, .. } => format!(
            "after {} it jumped by {} in one check",
            figures::seconds(*after_s),
            figures::signed(*by_ns, figures::time)
        ),
        UnstableCause::RateUnknown { .. } => "it differs from its reference".into(),
        UnstableCause::NotLogged => "the log does not show why".into(),
    }
}

/// A rate, by a second calibration or by one check alone.
fn rate_off(ppm: f64, is_refined: bool) -> String {
    let or = if is_refined { "" } else { ", or its CPUs' counters differ" };
    format!("its rate is {} off{or}", figures::ppm(ppm))
}

/// The cause explained.
pub(super) fn explain(cause: &UnstableCause) -> String {
    match cause {
        UnstableCause::ReferenceWrapped { times, wrap_ns, rest_ns } => format!(
            "The difference is {} of the reference's counter, which wraps every {}, to within {}: \
             the check ran seconds late. {MOST_LIKELY}",
            text::count(*times as usize, "wrap", "wraps"),
            figures::time(*wrap_ns),
            figures::time(rest_ns.abs())
        ),
        UnstableCause::ReferenceDiscarded { counted_ns, times, wrap_ns, tsc_hz } => format!(
            "The reference counted {}, over half of its range of {}. The kernel treats such a \
             count as a step back and uses 0 instead, so a check that is seconds late looks like \
             skew. {}. {MOST_LIKELY}",
            figures::time(*counted_ns),
            figures::time(*wrap_ns),
            fit(*times, *tsc_hz)
        ),
        UnstableCause::ReferenceBackward { by_ns } => format!(
            "The reference was {} behind its last reading, while the TSC counted its usual half \
             second. {MOST_LIKELY}",
            figures::time(*by_ns)
        ),
        UnstableCause::Overflow { power, rest_ns } => format!(
            "The difference is 2^{power} ns and {}: an arithmetic overflow after a late check, \
             without which the clocks agree. {MOST_LIKELY}",
            figures::signed(*rest_ns, figures::time)
        ),
        UnstableCause::SignLost { power, by_ns } => format!(
            "The difference is 2^{power} ns and {}: the kernel took a negative interval as an \
             unsigned one. The TSC was smaller than at the check before.",
            figures::signed(*by_ns, figures::time)
        ),
        UnstableCause::Drifted { by_ns, after_s } => format!(
            "The difference just exceeds the kernel's limit of 62.5 ms after {}: a drift of {}, \
             and no jump. {MOST_LIKELY}",
            figures::seconds(*after_s),
            figures::ppm(by_ns / after_s / 1e3)
        ),
        UnstableCause::WrongRate { form: WatchdogForm::Rewritten, .. } => format!(
            "{DROPS_LATE} It occurred in the first checks: the TSC's frequency was advertised or \
             calibrated wrongly, or the reference runs wrongly (some chip sets' HPETs do)."
        ),
        UnstableCause::CheckLate { length_ns } => format!(
            "By their counters the two clocks agree over {}. The check ran that late: the kernel's \
             margin is for half a second, and beyond some minutes its conversion to nanoseconds \
             overflows. {MOST_LIKELY}",
            seconds(*length_ns)
        ),
        UnstableCause::ReferenceWrong { by_ns, witness } => format!(
            "{witness} agrees with the TSC and not with the reference, which was {} off. The TSC \
             is not at fault.",
            figures::signed(*by_ns, figures::time)
        ),
        UnstableCause::PageLeapt { by_ns } => format!(
            "The TSC counted its usual half second, and the host's page {} more, just after a \
             CPU was added: the host recomputed the page. The TSC is most likely not at fault; \
             the time of day leapt with the page if that is the clock source.",
            seconds(*by_ns)
        ),
        UnstableCause::Damaged { what } => format!(
            "The kernel cannot have printed these lines: {what}. They were probably copied by \
             hand, so no cause is derived from them."
        ),
        UnstableCause::Jumped { form, after_s, by_ns } => explain_jump(*form, *after_s, *by_ns),
        UnstableCause::RateUnknown { fits } => explain_fits(fits),
        other => without_figures(other).to_owned(),
    }
}

/// `1.65 s ahead of`, `277 ms behind`
fn ahead(ns: f64) -> String {
    let side = if ns < 0.0 { "behind" } else { "ahead of" };
    format!("{} {side}", figures::time(ns.abs()))
}

/// Counters without the TSC's rate.
fn explain_fits(fits: &[(u32, f64)]) -> String {
    format!(
        "The log gives both counters, but not the TSC's rate. If the reference is right, the \
             TSC ran at {}, estimated from the two. Compare that with its true rate, which is \
             not in the log: if they agree, the check was late or the reference wrapped, and \
             the TSC is not at fault. If not, one of the two clocks stopped or jumped.",
        fits.iter().map(estimate).collect::<Vec<_>>().join("; ")
    )
}

/// A difference in one check after many that passed.
fn explain_jump(form: WatchdogForm, after_s: f64, by_ns: f64) -> String {
    let passed = format!("The TSC passed about {:.0} checks before", after_s * 2.0);
    match form {
        WatchdogForm::Apart => format!(
            "{passed}, so its rate was right until then. Either one read was late because of load, \
             or, in a guest, a migration changed its rate."
        ),
        // So much two reads of a busy reference may be apart.
        WatchdogForm::Bracketed if by_ns.abs() < BRACKETED_LATE_NS => format!(
            "{passed}. Either the reads were late, which this kernel notices only beyond \
             0.1 ms or so, or one of the two clocks jumped or changed its rate (a \
             migration, the firmware, the reference itself)."
        ),
        WatchdogForm::Bracketed => format!(
            "{passed}. This kernel reads the TSC between two reads of the reference, so a \
             late read cannot explain such a difference: one of the two clocks jumped or \
                     changed its rate (a migration, the firmware, the reference itself)."
        ),
        WatchdogForm::Rewritten => format!(
            "{DROPS_LATE} {passed}, so one of them changed its rate or jumped: a migration, \
             a pause, the firmware, or the reference itself."
        ),
    }
}

fn seconds(ns: f64) -> String {
    figures::seconds(ns / 1e9)
}

const MOST_LIKELY: &str = "The TSC is most likely not at fault.";

/// What a verdict of the watchdog since Linux 7.1 means.
const DROPS_LATE: &str = "This kernel (7.1 or later) reads the TSC and the reference within 50 µs \
     and drops late checks, so the two clocks did run apart.";

fn fit(times: u32, tsc_hz: Option<f64>) -> String {
    let wraps = match times {
        0 => "With that count".to_owned(),
        n => format!("With that count and {}", text::count(n as usize, "wrap", "wraps")),
    };
    match tsc_hz {
        Some(hz) => format!("{wraps} the TSC ran at {}, estimated from the two", ghz(hz)),
        None => format!("{wraps} the two agree"),
    }
}

fn estimate((times, hz): &(u32, f64)) -> String {
    match times {
        0 => ghz(*hz),
        n => {
            let wraps = text::count(*n as usize, "wrap", "wraps");
            format!("{} with {wraps} of the reference's counter", ghz(*hz))
        }
    }
}

/// An estimate has no more digits.
fn ghz(hz: f64) -> String {
    format!("{:.2} GHz", hz / 1e9)
}

/// Explanations without figures.
fn without_figures(cause: &UnstableCause) -> &'static str {
    match cause {
        UnstableCause::NotSynchronised => {
            "Without constant_tsc the kernel assumes that the counters of several CPUs diverge."
        }
        UnstableCause::Warp => {
            "A CPU read a smaller value than another CPU just before: the firmware or the host \
             started their counters with different values, or set one back."
        }
        UnstableCause::Halts => {
            "This CPU's counter stops in deep idle states, so the clock would lose that time."
        }
        UnstableCause::FollowsFrequency => {
            "This CPU's counter follows the CPU's frequency, so it cannot measure time."
        }
        UnstableCause::NotCalibrated => {
            "Neither CPUID nor the hypervisor reports the frequency, and there was no other timer \
             to measure it with."
        }
        UnstableCause::HostBackward => {
            "After a suspend the firmware restarted the counter, and KVM read a smaller value than \
             before."
        }
        UnstableCause::Backward { .. } => {
            "A 64-bit counter goes backward only if something sets it back: a suspend, a snapshot \
             restore or a migration that did not advance it. Or one CPU's counter is behind \
             another's."
        }
        UnstableCause::TickReference => {
            "Without another hardware clock the watchdog counted timer ticks, which a busy host \
             delivers late or merges. The TSC is most likely not at fault."
        }
        UnstableCause::ReferenceSilent => {
            "The reference returned all ones, which a bus returns if the device does not answer: \
             the kernel read no time. The TSC is most likely not at fault."
        }
        UnstableCause::ReferenceStands => {
            "The reference returned the same value twice: it is not advancing. The TSC is most \
             likely not at fault."
        }
        UnstableCause::JumpedAhead { .. } => {
            "A wrong rate cannot explain how much the TSC gained in half a second: the machine was \
             paused, restored or migrated and the TSC or its reference stopped meanwhile, or \
             something wrote to the TSC."
        }
        UnstableCause::Stopped { by_page: true, .. } => {
            "The host's page counted on while the TSC did not: the host slept, or paused, restored \
             or moved this machine, and did not advance its TSC. Or the host moved the page."
        }
        UnstableCause::Stopped { .. } => {
            "The reference advanced while the TSC did not: the machine was suspended, paused or \
             restored, the counter stops in idle states, or the reference jumped. The lines do \
             not show which."
        }
        UnstableCause::ReadLate => {
            "The watchdog reads the two clocks one after the other; a pause between the two reads, \
             caused by a busy host or the firmware, looks like skew. The TSC is most likely not at \
             fault."
        }
        UnstableCause::WrongRate { .. } => {
            "The difference fits a wrong rate and occurred in the first checks: the TSC's \
             frequency was advertised or calibrated wrongly, or the reference is wrong."
        }
        other => undecided(other),
    }
}

/// Figures that do not decide.
fn undecided(cause: &UnstableCause) -> &'static str {
    match cause {
        UnstableCause::Forced => {
            "A test of the kernel, or a probe in the reference's read, causes such errors on \
             purpose. The figures show nothing about this machine's clocks."
        }
        UnstableCause::Unexplained { .. } => {
            "One difference without counters does not show its cause: a wrong rate, a jump, a \
             pause or migration, and a check or a read that was late all look alike."
        }
        UnstableCause::PageOff { .. } => {
            "The hypervisor computes its clock page from this same TSC, so only the page's \
             conversion can differ. The TSC is most likely not at fault."
        }
        UnstableCause::OneCheck { .. } => {
            "A wrong rate, a jump, CPUs whose counters differ, a wrong reference and a late read of \
             an emulated one look alike in one check. A second boot shows more: a wrong rate \
             returns as the same ppm."
        }
        _ => "The watchdog's figures are not in the log.",
    }
}
