//! What to do about each cause, beyond the table of statements: by what the machine has.

use super::cause::{UnstableCause, WatchdogForm};
use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies::{READ_ONLY, add_parameter};
use crate::rules::statements::named;

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
