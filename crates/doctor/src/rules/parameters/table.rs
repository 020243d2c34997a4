//! The kernel parameters about time, with what each does in today's kernels:
//! Documentation/admin-guide/kernel-parameters.txt, and where that has no
//! entry, the code that reads them.

use facts::cpu::HypervisorKind;

use crate::case::Case;
use crate::case::trust::stops_unless_flagged;
use crate::finding::Severity;
use crate::rules::unstable::condemned;

/// Parameters that do the same.
pub(super) struct Parameter {
    /// Their names, `name=value` for one value alone.
    pub(super) words: &'static [&'static str],
    /// What they do today.
    pub(super) today: &'static str,
    /// Whether that does harm.
    pub(super) effect: ParameterEffect,
}

/// Whether a parameter does harm today.
pub(super) enum ParameterEffect {
    /// No current kernel has it, or another name replaces it.
    Obsolete,
    /// It does no harm.
    Harmless,
    /// It does harm on machines like these.
    HarmfulIf(fn(&Case<'_>) -> bool, Severity),
}

use ParameterEffect::{HarmfulIf, Harmless, Obsolete};
use Severity::{Error, Note, Warning};

const fn row(
    words: &'static [&'static str],
    effect: ParameterEffect,
    today: &'static str,
) -> Parameter {
    Parameter { words, today, effect }
}

/// Whether the CPU's flags guarantee its TSC, where they are known.
fn cpu_guarantees(case: &Case<'_>) -> Option<bool> {
    let flags = case.flags().ok()?;
    Some(flags.constant_tsc && (flags.nonstop_tsc || !stops_unless_flagged(case)))
}

/// Neither the CPU nor the kernel reports anything against the TSC.
fn tsc_is_good(case: &Case<'_>) -> bool {
    cpu_guarantees(case) == Some(true) && !condemned(case)
}

/// The parameter trusts a TSC that the CPU or the kernel does not.
fn tsc_is_doubtful(case: &Case<'_>) -> bool {
    cpu_guarantees(case) == Some(false) || condemned(case)
}

fn is_guest(case: &Case<'_>) -> bool {
    case.is_guest() == Some(true)
}

/// On KVM the rule `kvm-clock-missing` reports it.
fn is_guest_but_not_of_kvm(case: &Case<'_>) -> bool {
    is_guest(case) && case.kind() != Some(HypervisorKind::Kvm)
}

fn on_kvm_clock(case: &Case<'_>) -> bool {
    case.current() == Ok("kvm-clock")
}

fn never_stops(case: &Case<'_>) -> bool {
    case.flags().is_ok_and(|flags| flags.nonstop_tsc)
}

fn always(_: &Case<'_>) -> bool {
    true
}

/// All of them; the first row that matches a word counts.
pub(super) const PARAMETERS: &[Parameter] = &[
    // arch/x86/kernel/tsc.c
    row(
        &["notsc"],
        HarmfulIf(tsc_is_good, Warning),
        "The parameter marks the TSC unstable at boot; tsc=unstable has replaced it. On this CPU \
         the TSC is a good clock, and the cheapest.",
    ),
    row(
        &["tsc=unstable"],
        HarmfulIf(tsc_is_good, Warning),
        "The parameter keeps the kernel from using the TSC as its clock. On this CPU the TSC is a \
         good clock, and the cheapest.",
    ),
    row(
        &["tsc=reliable"],
        HarmfulIf(tsc_is_doubtful, Warning),
        "The parameter disables all checks of the TSC, at boot and later: the kernel does not \
         notice if the TSC goes wrong. Safe only if the CPU guarantees it (constant_tsc, \
         nonstop_tsc).",
    ),
    row(
        &["tsc=nowatchdog"],
        HarmfulIf(tsc_is_doubtful, Warning),
        "The parameter disables the watchdog of the TSC: the kernel does not notice if the TSC \
         goes wrong after boot. Safe only if the CPU guarantees it (constant_tsc, nonstop_tsc).",
    ),
    row(
        &["tsc=recalibrate"],
        Harmless,
        "compares the advertised TSC frequency with another timer and warns if it is off.",
    ),
    row(&["tsc"], Harmless, "no harm to the clock."),
    row(&["tsc_early_khz"], Harmless, "sets the TSC's frequency instead of measuring it at boot."),
    // kernel/time/clocksource.c
    row(
        &["clocksource"],
        Harmless,
        "selects the clock source; the rule clocksource-not-used checks it.",
    ),
    row(
        &["clock"],
        Obsolete,
        "The parameter still works, with a warning at boot; its name today is clocksource=. \
         clock=pmtmr means clocksource=acpi_pm, a slow source.",
    ),
    // Not in any mainline kernel: Red Hat Enterprise Linux 6 alone had it.
    row(
        &["clocksource_failover"],
        Obsolete,
        "Only the kernel of Red Hat Enterprise Linux 6 had it. Today's kernels ignore it: they \
         choose the next best source without it.",
    ),
    // arch/x86/kernel/kvmclock.c
    row(
        &["no-kvmclock"],
        Harmless,
        "disables kvm-clock; the rule kvm-clock-missing reports the consequences under KVM.",
    ),
    row(
        &["no-kvmclock-vsyscall"],
        HarmfulIf(on_kvm_clock, Error),
        "The parameter keeps programs from reading kvm-clock themselves: each read is a system \
         call.",
    ),
    row(
        &["nopv"],
        HarmfulIf(is_guest_but_not_of_kvm, Warning),
        "The parameter disables all paravirtual interfaces, the clock included.",
    ),
    row(&["no-steal-acc"], Harmless, "the scheduler does not account for stolen time."),
    // arch/x86/entry/vdso/vma.c
    row(
        &["vdso=0"],
        HarmfulIf(always, Error),
        "The parameter keeps programs from reading any clock themselves: each read is a system \
         call.",
    ),
    // kernel/time/tick-sched.c, hrtimer.c
    row(
        &["nohz=off"],
        HarmfulIf(is_guest, Note),
        "Timer ticks wake every idle vCPU up to 1000 times a second, which costs the host CPU \
         time. Old guests needed it, as their clock counted ticks; today's clocks do not count \
         ticks.",
    ),
    row(&["nohz"], Harmless, "ticks stop on idle CPUs, which is the default."),
    row(&["nohz_full"], Harmless, "ticks stop on busy CPUs too; the clock does not need them."),
    row(
        &["highres=off"],
        HarmfulIf(always, Warning),
        "Timers and sleeps are rounded up to the next tick, 1–10 ms. The clock itself is not \
         affected.",
    ),
    // Not in any mainline kernel: Red Hat Enterprise Linux 5 alone had it.
    row(
        &["divider"],
        Obsolete,
        "Only the kernel of Red Hat Enterprise Linux 5 had it, to divide its 1000 ticks a second. \
         Today's kernels ignore it: idle CPUs have no tick (NO_HZ).",
    ),
    // arch/x86/xen of the kernels before paravirt-ops
    row(
        &["xen.independent_wallclock", "independent_wallclock"],
        Obsolete,
        "Only Xen's own kernels up to 2.6.18 had it. With today's kernels each guest keeps its own \
         time of day and needs NTP.",
    ),
    // drivers/acpi/processor_idle.c, drivers/idle/intel_idle.c
    row(
        &["processor.max_cstate", "intel_idle.max_cstate"],
        Harmless,
        "keeps CPUs out of deep idle states: needed if the TSC stops there, otherwise only for \
         latency, at the cost of power.",
    ),
    row(
        &["idle=poll"],
        HarmfulIf(is_guest, Note),
        "Idle vCPUs spin instead of yielding: the host sees them as always busy, so it takes CPU \
         time from them, which shows as steal. The clock gains nothing.",
    ),
    row(
        &["idle=halt"],
        HarmfulIf(never_stops, Note),
        "CPUs never enter deep idle states. This TSC does not stop there, so the clock gains \
         nothing.",
    ),
    // init/calibrate.c
    row(
        &["lpj"],
        HarmfulIf(is_guest, Note),
        "lpj= hard-codes the kernel's delay loops; the clock is unaffected. After migration to \
         another CPU the delays are too short or too long. Without lpj= they are calibrated from \
         the TSC.",
    ),
    // arch/x86/kernel/apic/apic.c
    row(
        &["nolapic_timer", "noapictimer"],
        HarmfulIf(always, Warning),
        "One PIT or HPET runs the timers of all CPUs: timers fire late, and in a guest each takes \
         an exit.",
    ),
    row(
        &["lapic=notscdeadline"],
        Harmless,
        "timers count down instead of waiting for a TSC value.",
    ),
    // arch/x86/kernel/hpet.c
    row(
        &["hpet=disable", "nohpet"],
        Harmless,
        "no HPET: the watchdog uses acpi_pm as its reference instead.",
    ),
    // drivers/clocksource/acpi_pm.c
    row(
        &["acpi_pm_good"],
        Harmless,
        "the kernel reads the ACPI timer once instead of three times.",
    ),
    row(&["no_timer_check"], Harmless, "the kernel does not test the timer interrupt at boot."),
];
