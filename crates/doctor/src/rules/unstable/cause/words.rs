//! Each cause in words, with what to do about it.

use super::Cause;
use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies::{LOOKS, add_parameter};
use crate::text;

/// The cause in half a line.
pub(super) fn in_short(cause: &Cause) -> String {
    match cause {
        Cause::NotSynchronised => "its CPUs' counters are not known to agree".into(),
        Cause::Warp => "its CPUs' counters disagree".into(),
        Cause::Halts => "it stops in deep idle states".into(),
        Cause::FollowsFrequency => "its rate follows the CPU's frequency".into(),
        Cause::NotCalibrated => "its frequency could not be found".into(),
        Cause::HostBackward => "it was set back while the machine slept".into(),
        Cause::Backward => "it went backward".into(),
        Cause::TickYardstick => "compared with timer ticks, which came late".into(),
        Cause::YardstickWrapped { .. } => "the clock it was compared with wrapped".into(),
        Cause::Overflow { .. } => "the comparison overflowed".into(),
        Cause::JumpedAhead => "it jumped ahead".into(),
        Cause::StoodStill => "it stood still or was set back".into(),
        Cause::ReadLate => "a read came late, under load".into(),
        Cause::WrongRate { ppm } => format!("it runs {} off", text::ppm(*ppm)),
        Cause::WrongOnce { ppm, after_s } => {
            format!("after {} it was {} off", text::duration_s(*after_s), text::ppm(*ppm))
        }
        Cause::Unsaid => "the log does not say why".into(),
    }
}

/// The cause explained.
pub(super) fn why(cause: &Cause) -> String {
    match cause {
        Cause::YardstickWrapped { times, wrap_ns } => format!(
            "The difference is {} of the other clock's counter, which wraps every {}: the check \
             ran seconds late. The TSC is most likely without fault.",
            Cause::turns(*times),
            text::duration_ns(*wrap_ns)
        ),
        Cause::Overflow { power } => format!(
            "The difference is 2^{power} ns almost exactly, the mark of an arithmetic overflow \
             after a check that ran late. The TSC is most likely without fault."
        ),
        Cause::WrongOnce { after_s, .. } => format!(
            "It had passed some {:.0} checks before, so its rate was right. Either one read came \
             late, which is the load's doing; or, in a guest, it was moved to a host whose TSC \
             runs at another rate.",
            after_s * 2.0
        ),
        other => without_figures(other).to_owned(),
    }
}

/// Explanations that no figure enters.
fn without_figures(cause: &Cause) -> &'static str {
    match cause {
        Cause::NotSynchronised => {
            "Without constant_tsc on several CPUs the kernel assumes that their counters drift \
             apart."
        }
        Cause::Warp => {
            "A CPU read less than another had read just before: the firmware, or the host, started \
             them with different values, or set one back."
        }
        Cause::Halts => {
            "This CPU's counter stops in deep idle states, so it cannot tell how long the CPU \
             slept."
        }
        Cause::FollowsFrequency => {
            "This CPU's counter runs faster and slower with the CPU, so it cannot measure time."
        }
        Cause::NotCalibrated => {
            "Neither CPUID nor the hypervisor tells the frequency, and no other timer was there \
             to measure it by."
        }
        Cause::HostBackward => {
            "After a suspend the firmware started the counter anew, and KVM saw it smaller than \
             before."
        }
        Cause::Backward => {
            "A 64-bit counter only gets smaller when it is set back: by a suspend, a restored \
             snapshot or a migration that did not carry it on."
        }
        Cause::TickYardstick => {
            "There was no hardware clock to compare with, so timer ticks were counted; a busy \
             host delivers them late or merges them. The TSC is most likely without fault."
        }
        Cause::JumpedAhead => {
            "In one half second the TSC gained what no wrong rate explains: the machine was \
             paused, restored or migrated, and one of the two clocks stopped meanwhile."
        }
        Cause::StoodStill => {
            "The other clock went on while the TSC did not: the machine slept, was paused or \
             restored, or the counter stops in idle states."
        }
        Cause::ReadLate => {
            "The two clocks are read one after the other; when the CPU is taken away in between, \
             by a busy host or by firmware, the pause looks like skew. The TSC is most likely \
             without fault."
        }
        Cause::WrongRate { .. } => {
            "The difference is small enough for a wrong rate, and came in the first checks: the \
             TSC's frequency was announced or calibrated wrongly, or the clock it was compared \
             with is off."
        }
        _ => "The watchdog's figures are not in the log.",
    }
}

/// What to do about it.
pub(super) fn remedies(cause: &Cause, case: &Case<'_>) -> Vec<Remedy> {
    let guest = case.is_guest() == Some(true);
    match cause {
        Cause::TickYardstick
        | Cause::YardstickWrapped { .. }
        | Cause::Overflow { .. }
        | Cause::ReadLate => acquitted(case),
        Cause::WrongOnce { .. } if guest && is_vouched_for(case) => vec![
            Remedy::command(
                "See whether the rate has changed: the correction then has too.",
                "chronyc tracking",
            )
            .changes(LOOKS),
            Remedy::advice(
                "If it has not, tsc=nowatchdog keeps the TSC in use from the next boot on.",
            ),
        ],
        Cause::WrongOnce { .. } => acquitted(case),
        Cause::WrongRate { .. } if guest => vec![
            Remedy::advice(
                "Have the host announce the TSC's frequency (QEMU: -cpu host,+invtsc), and do not \
                 force tsc meanwhile.",
            ),
            Remedy::advice("Steer the clock by NTP: it shows which of the two clocks is right."),
        ],
        Cause::WrongRate { .. } => vec![
            Remedy::advice("Update the firmware: it may announce a wrong frequency."),
            add_parameter(case, "tsc=recalibrate")
                .changes("from the next boot on, Linux 6.3 and later: measures and warns only"),
        ],
        Cause::Backward | Cause::JumpedAhead | Cause::StoodStill | Cause::HostBackward if guest => {
            vec![Remedy::advice(
                "Leave it: the host does not carry the TSC over its pauses. Use kvm-clock or the \
                 hypervisor's own page, and have the host restore the TSC before the vCPUs run.",
            )]
        }
        Cause::Backward | Cause::JumpedAhead | Cause::StoodStill | Cause::HostBackward => {
            vec![Remedy::advice("Update the firmware, which loses the counter over a suspend.")]
        }
        Cause::Halts => vec![
            Remedy::advice("Leave it where another clock will do."),
            add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1")
                .changes("from the next boot on: the counter no longer stops; idle power rises"),
        ],
        Cause::NotCalibrated if guest => vec![Remedy::advice(
            "Have the VMM tell the frequency: kvm-clock, CPUID 0x15, or tsc_early_khz= on the \
             kernel's command line.",
        )],
        Cause::Warp if guest => vec![Remedy::advice(
            "Have the VMM start all vCPUs with one TSC offset; leave tsc unused meanwhile.",
        )],
        Cause::Warp | Cause::NotSynchronised | Cause::NotCalibrated | Cause::FollowsFrequency => {
            vec![Remedy::advice("Update the firmware; else leave it, and do not force tsc.")]
        }
        Cause::Unsaid => vec![Remedy::command(
            "Look for the figures in the whole log.",
            "sudo journalctl --dmesg --grep 'clocksource|tsc|TSC'",
        )],
    }
}

/// What to do when the TSC seems innocent: only where the CPU vouches for it.
fn acquitted(case: &Case<'_>) -> Vec<Remedy> {
    if !is_vouched_for(case) {
        return vec![Remedy::advice(match case.is_guest() {
            Some(true) => {
                "Leave it: the host does not vouch for its TSC either (QEMU: -cpu host,+invtsc)."
            }
            _ => "Leave it: the CPU does not vouch for its TSC either (constant_tsc, nonstop_tsc).",
        })];
    }
    vec![
        Remedy::command("See that the CPUs' counters agree.", "parachron bench").changes(LOOKS),
        add_parameter(case, "tsc=nowatchdog").changes(
            "from the next boot on the TSC is used unwatched (Linux 5.4 and later): nothing will \
             notice one that goes wrong",
        ),
    ]
}

fn is_vouched_for(case: &Case<'_>) -> bool {
    case.flags().is_ok_and(|flags| flags.constant_tsc && flags.nonstop_tsc)
}
