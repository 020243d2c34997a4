//! Each cause explained, with its remedies.

use instruments::figures;

use super::cause::Cause;
use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies::{READ_ONLY, add_parameter};
use crate::text;

/// The cause in half a line.
pub(super) fn in_short(cause: &Cause) -> String {
    match cause {
        Cause::NotSynchronised => "its CPUs' counters may disagree".into(),
        Cause::Warp => "its CPUs' counters disagree".into(),
        Cause::Halts => "it stops in deep idle states".into(),
        Cause::FollowsFrequency => "its rate follows the CPU's frequency".into(),
        Cause::NotCalibrated => "its frequency is unknown".into(),
        Cause::HostBackward => "a suspend set it back".into(),
        Cause::Backward => "it went backward".into(),
        Cause::TickReference => "its reference counted timer ticks, which came late".into(),
        Cause::ReferenceWrapped { .. } => "its reference wrapped".into(),
        Cause::Overflow { .. } => "the comparison overflowed".into(),
        Cause::JumpedAhead => "it jumped ahead".into(),
        Cause::Stopped => "it stopped or was set back".into(),
        Cause::ReadLate => "a read was late, under load".into(),
        Cause::WrongRate { ppm } => format!("its rate is {} off", figures::ppm(*ppm)),
        Cause::WrongOnce { ppm, after_s } => {
            format!("after {} it was {} off", figures::seconds(*after_s), figures::ppm(*ppm))
        }
        Cause::NotLogged => "the log does not show why".into(),
    }
}

/// The cause explained.
pub(super) fn why(cause: &Cause) -> String {
    match cause {
        Cause::ReferenceWrapped { times, wrap_ns } => format!(
            "The difference is {} of the reference's counter, which wraps every {}: the check ran \
             seconds late. The TSC is most likely not at fault.",
            text::count(*times as usize, "wrap", "wraps"),
            figures::time(*wrap_ns)
        ),
        Cause::Overflow { power } => format!(
            "The difference is almost exactly 2^{power} ns: an arithmetic overflow after a late \
             check. The TSC is most likely not at fault."
        ),
        Cause::WrongOnce { after_s, .. } => format!(
            "It passed about {:.0} checks before, so its rate was right. Either one read was late \
             because of load, or, in a guest, a migration changed its rate.",
            after_s * 2.0
        ),
        other => without_figures(other).to_owned(),
    }
}

/// Explanations without figures.
fn without_figures(cause: &Cause) -> &'static str {
    match cause {
        Cause::NotSynchronised => {
            "Without constant_tsc the kernel assumes that the counters of several CPUs diverge."
        }
        Cause::Warp => {
            "A CPU read a smaller value than another CPU just before: the firmware or the host \
             started their counters with different values, or set one back."
        }
        Cause::Halts => {
            "This CPU's counter stops in deep idle states, so the clock would lose that time."
        }
        Cause::FollowsFrequency => {
            "This CPU's counter follows the CPU's frequency, so it cannot measure time."
        }
        Cause::NotCalibrated => {
            "Neither CPUID nor the hypervisor reports the frequency, and there was no other timer \
             to measure it."
        }
        Cause::HostBackward => {
            "After a suspend the firmware restarted the counter, and KVM read a smaller value than \
             before."
        }
        Cause::Backward => {
            "A 64-bit counter goes backward only when something sets it back: a suspend, or a \
             snapshot restore or migration that did not advance it."
        }
        Cause::TickReference => {
            "Without another hardware clock the watchdog counted timer ticks; a busy host delivers \
             them late or merges them. The TSC is most likely not at fault."
        }
        Cause::JumpedAhead => {
            "No wrong rate explains what the TSC gained in half a second: the machine was paused, \
             restored or migrated, and one of the two clocks stopped meanwhile."
        }
        Cause::Stopped => {
            "The reference advanced while the TSC did not: the machine was suspended, paused or \
             restored, or the counter stops in idle states."
        }
        Cause::ReadLate => {
            "The watchdog reads the two clocks one after the other; a pause in between, by a busy \
             host or the firmware, looks like skew. The TSC is most likely not at fault."
        }
        Cause::WrongRate { .. } => {
            "The difference fits a wrong rate, and occurred in the first checks: the TSC's frequency \
             was advertised or calibrated wrongly, or the reference is wrong."
        }
        _ => "The watchdog's figures are not in the log.",
    }
}

/// The remedies.
pub(super) fn remedies(cause: &Cause, case: &Case<'_>) -> Vec<Remedy> {
    let guest = case.is_guest() == Some(true);
    match cause {
        Cause::TickReference
        | Cause::ReferenceWrapped { .. }
        | Cause::Overflow { .. }
        | Cause::ReadLate => not_at_fault(case),
        Cause::WrongOnce { .. } if guest && is_guaranteed(case) => vec![
            Remedy::command(
                "Check whether the frequency correction changed: then the rate did.",
                "chronyc tracking",
            )
            .changes(READ_ONLY),
            Remedy::advice(
                "If it did not, tsc=nowatchdog keeps the TSC in use from the next boot on.",
            ),
        ],
        Cause::WrongOnce { .. } => not_at_fault(case),
        Cause::WrongRate { .. } if guest => vec![
            Remedy::advice(
                "On the host: advertise the TSC's frequency (QEMU: -cpu host,+invtsc). Do not force \
                 tsc meanwhile.",
            ),
            Remedy::advice(
                "Discipline the clock by NTP: it shows which of the two clocks is right.",
            ),
        ],
        Cause::WrongRate { .. } => vec![
            Remedy::advice("Update the firmware: it may advertise a wrong frequency."),
            add_parameter(case, "tsc=recalibrate")
                .changes("from the next boot on (Linux 6.3 and later): it measures and warns only"),
        ],
        Cause::Backward | Cause::JumpedAhead | Cause::Stopped | Cause::HostBackward if guest => {
            vec![Remedy::advice(
                "Leave tsc unused: the host does not advance it over pauses. Use kvm-clock or the \
                 hypervisor's page, and on the host restore the TSC before the vCPUs run.",
            )]
        }
        Cause::Backward | Cause::JumpedAhead | Cause::Stopped | Cause::HostBackward => {
            vec![Remedy::advice("Update the firmware: it loses the counter at a suspend.")]
        }
        Cause::Halts => vec![
            Remedy::advice("Leave tsc unused where another clock source is good enough."),
            add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1")
                .changes("from the next boot on: the counter no longer stops; idle power rises"),
        ],
        Cause::NotCalibrated if guest => vec![Remedy::advice(
            "Advertise the frequency in the VMM: kvm-clock, CPUID 0x15, or tsc_early_khz= on the \
             kernel's command line.",
        )],
        Cause::Warp if guest => vec![Remedy::advice(
            "Leave tsc unused, and make the VMM start all vCPUs with one TSC offset.",
        )],
        Cause::Warp | Cause::NotSynchronised | Cause::NotCalibrated | Cause::FollowsFrequency => {
            vec![Remedy::advice("Update the firmware; do not force tsc.")]
        }
        Cause::NotLogged => vec![Remedy::command(
            "Find the figures in the full log.",
            "sudo journalctl --dmesg --grep 'clocksource|tsc|TSC'",
        )],
    }
}

/// The remedies when the TSC seems not at fault: tsc=nowatchdog only where the
/// CPU guarantees it.
fn not_at_fault(case: &Case<'_>) -> Vec<Remedy> {
    if !is_guaranteed(case) {
        return vec![Remedy::advice(if case.is_guest() == Some(true) {
            "Leave tsc unused: the host does not guarantee it either (QEMU: -cpu host,+invtsc)."
        } else {
            "Leave tsc unused: the CPU does not guarantee it either (constant_tsc, nonstop_tsc)."
        })];
    }
    vec![
        Remedy::command("Check that the CPUs' counters agree.", "parachron bench")
            .changes(READ_ONLY),
        add_parameter(case, "tsc=nowatchdog").changes(
            "from the next boot on the kernel uses the TSC without a watchdog (Linux 5.4 and \
             later), and does not notice one that goes wrong",
        ),
    ]
}

fn is_guaranteed(case: &Case<'_>) -> bool {
    case.flags().is_ok_and(|flags| flags.constant_tsc && flags.nonstop_tsc)
}
