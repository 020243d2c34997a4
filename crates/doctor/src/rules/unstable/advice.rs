//! What to do about each cause.

use super::cause::{UnstableCause, WatchdogForm};
use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies::{READ_ONLY, add_parameter};

/// Lists what the kernel logged of the watchdog and the TSC.
const WATCHDOG_LINES: &str = "sudo journalctl --dmesg --grep 'clocksource|tsc|TSC'";

/// The remedies.
pub(super) fn remedies(cause: &UnstableCause, case: &Case<'_>) -> Vec<Remedy> {
    // Only a guest has a page.
    let by_page = matches!(cause, UnstableCause::Stopped { by_page: true, .. });
    let guest = case.is_guest() == Some(true) || by_page;
    if *cause == UnstableCause::Forced {
        return vec![Remedy::advice(
            "Do nothing: reboot without the test (CONFIG_TEST_CLOCKSOURCE_WATCHDOG, the probe).",
        )];
    }
    if let UnstableCause::PageLeapt { .. } = cause {
        return vec![
            set_again(),
            Remedy::advice(
                "Update the host's kernel or VMM: it must not move kvm-clock when a vCPU is added \
             (the new vCPU wrote TSC_ADJUST). Check the time of day: `chronyc tracking`.",
            ),
        ];
    }
    if cause.acquits() {
        return not_at_fault(case);
    }
    match cause {
        UnstableCause::OneCheck { by_emulation, .. } => after_one_check(guest, *by_emulation),
        UnstableCause::WrongRate { form: WatchdogForm::Rewritten, .. }
        | UnstableCause::Jumped {
            form: WatchdogForm::Rewritten | WatchdogForm::Bracketed, ..
        } => which_is_right(guest),
        UnstableCause::Jumped { .. } if guest && is_guaranteed(case) => vec![
            Remedy::command(
                "Check whether the frequency correction changed: if it did, the TSC's rate did.",
                "chronyc tracking",
            )
            .changes(READ_ONLY),
            Remedy::advice(
                "If it did not, add tsc=nowatchdog to the kernel's command line: it keeps the TSC \
                 in use from the next boot on.",
            ),
        ],
        UnstableCause::Jumped { .. } => not_at_fault(case),
        UnstableCause::Damaged { .. } => vec![
            Remedy::command("Copy the lines from the log itself.", WATCHDOG_LINES)
                .changes(READ_ONLY),
            set_again(),
        ],
        UnstableCause::WrongRate { .. } if guest => vec![
            Remedy::advice(
                "Advertise the TSC's frequency on the host (QEMU with KVM: -cpu host,+invtsc, \
                 which blocks migration unless tsc-frequency= is set too). Until then do not force \
                 tsc.",
            ),
            Remedy::advice(
                "Discipline the clock with NTP (chrony): `chronyc tracking` shows which of the two \
                 clocks is right.",
            ),
        ],
        UnstableCause::WrongRate { .. } => vec![
            Remedy::advice("Update the firmware: it may advertise a wrong frequency."),
            add_parameter(case, "tsc=recalibrate").changes(
                "from the next boot on (Linux 6.3 and later): the kernel measures the frequency \
                 and only warns",
            ),
        ],
        _ => by_kind(cause, case, guest),
    }
}

fn by_kind(cause: &UnstableCause, case: &Case<'_>, guest: bool) -> Vec<Remedy> {
    match cause {
        UnstableCause::Backward { .. }
        | UnstableCause::JumpedAhead { .. }
        | UnstableCause::Stopped { .. }
        | UnstableCause::HostBackward
            if guest =>
        {
            vec![
                Remedy::advice(
                    "Leave tsc unused: the host does not advance it over pauses. Switch to \
                     kvm-clock or the hypervisor's page, and on the host restore the TSC before \
                     the vCPUs run.",
                ),
                set_again(),
            ]
        }
        UnstableCause::Backward { .. }
        | UnstableCause::SignLost { .. }
        | UnstableCause::JumpedAhead { .. }
        | UnstableCause::Stopped { .. }
        | UnstableCause::HostBackward => {
            vec![
                Remedy::advice(
                    "Leave tsc unused. If a suspend or a boot came just before, update the \
                     firmware, which may have written the counter; in a virtual machine ask the \
                     host's operator about a pause or a move; stop tools that write the CPU's \
                     frequency.",
                ),
                set_again(),
                compare(),
            ]
        }
        UnstableCause::Halts => vec![
            Remedy::advice("Leave tsc unused if another clock source is good enough."),
            add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1")
                .changes("from the next boot on: the counter no longer stops; idle power rises"),
        ],
        UnstableCause::NotCalibrated if guest => vec![Remedy::advice(
            "Advertise the frequency in the VMM: by kvm-clock, CPUID 0x15, or tsc_early_khz= on \
             the kernel's command line.",
        )],
        UnstableCause::NotSynchronised if guest => vec![Remedy::advice(
            "Give the guest a CPU model whose TSC has a constant rate, on the host (QEMU with KVM: \
             -cpu host,+invtsc, which blocks migration unless tsc-frequency= is set too; \
             emulation, TCG, has none). Do not force tsc.",
        )],
        UnstableCause::Warp if guest => vec![Remedy::advice(
            "Leave tsc unused, and make the VMM start all vCPUs with one TSC offset.",
        )],
        UnstableCause::FollowsFrequency if guest => vec![Remedy::advice(
            "Leave tsc unused: either the TSC of the host's CPU changes its rate, or the guest's \
             CPU model hides constant_tsc.",
        )],
        UnstableCause::Warp
        | UnstableCause::NotSynchronised
        | UnstableCause::NotCalibrated
        | UnstableCause::FollowsFrequency => {
            vec![Remedy::advice("Update the firmware; do not force tsc.")]
        }
        UnstableCause::RateUnknown { fits } => find_rate(fits),
        _ => find_figures(),
    }
}

/// Counters without the TSC's rate.
fn find_rate(fits: &[(u32, f64)]) -> Vec<Remedy> {
    vec![
        compare(),
        Remedy::advice(if fits.iter().any(|(wraps, _)| *wraps > 0) {
            "If a rate above is right, the check was late: add tsc=nowatchdog to the kernel's \
             command line."
        } else {
            "Add hpet=disable to the kernel's command line if the reference is an HPET that \
                 stops in deep idle (Coffee Lake) and the rate above is wrong."
        }),
        set_again(),
        Remedy::command(
            "Find the TSC's true rate in the log of the boot.",
            "sudo journalctl --dmesg --grep 'tsc: (Detected|Refined)'",
        )
        .changes(READ_ONLY),
    ]
}

/// A verdict without figures that show its cause.
fn find_figures() -> Vec<Remedy> {
    vec![
        Remedy::command("Find the figures in the full log.", WATCHDOG_LINES).changes(READ_ONLY),
        compare(),
        set_again(),
    ]
}

/// The time of day after a pause.
fn set_again() -> Remedy {
    Remedy::command(
        "Set the clock if the machine was paused, suspended or moved; its time daemon does so \
         only if it may step.",
        "sudo chronyc makestep",
    )
    .changes("the time of day, at once")
}

/// Which clock is right.
fn compare() -> Remedy {
    Remedy::command(
        "Compare the clock with NTP for an hour before you change it.",
        "chronyc tracking",
    )
    .changes(READ_ONLY)
}

/// A clock source that is not the TSC: no flags or parameters of x86.
pub(super) fn of_other_clock(cause: &UnstableCause) -> Vec<Remedy> {
    if !cause.acquits() {
        return find_figures();
    }
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

/// Another boot shows what one check does not.
fn after_one_check(guest: bool, by_emulation: bool) -> Vec<Remedy> {
    let mut remedies = vec![Remedy::advice(
        "Reboot and compare: if the same ppm returns, the rate is wrong. Then add \
         tsc=recalibrate to the kernel's command line (Linux 6.3 and later).",
    )];
    remedies.extend(which_is_right(guest));
    if by_emulation {
        remedies.pop();
        remedies.push(Remedy::advice(
            "If the ppm differs after the reboot, a late read was the cause: remove the emulated \
             HPET (QEMU: -machine hpet=off), or add tsc=nowatchdog to the kernel's command line.",
        ));
    }
    remedies
}

/// The remedies where the two clocks did run apart: no parameter that silences
/// the watchdog.
fn which_is_right(guest: bool) -> Vec<Remedy> {
    let fix = if guest {
        "Leave tsc unused until the host keeps it right: for migration it needs TSC scaling or \
         hosts of one frequency. Do not silence the watchdog (tsc=nowatchdog, tsc=reliable)."
    } else {
        "Update the firmware, and leave tsc unused until it is certain that the reference is \
         wrong. Do not silence the watchdog (tsc=nowatchdog, tsc=reliable) until then."
    };
    vec![
        Remedy::command(
            "Use NTP to find out which of the two clocks is right: run under each clock source in \
             turn and compare the frequency correction.",
            "chronyc tracking",
        )
        .changes(READ_ONLY),
        Remedy::advice(fix),
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
                "Add tsc=nowatchdog to the kernel's command line if both are: the kernel then \
                 keeps the TSC. If the reference is the HPET, hpet=disable removes it instead.",
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
