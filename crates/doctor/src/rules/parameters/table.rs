//! The kernel parameters about time, with what each does in today's kernels:
//! Documentation/admin-guide/kernel-parameters.txt, and where that is silent,
//! the code that reads them.

use facts::cpu::HypervisorKind;

use super::tsc_at_fault;
use crate::case::Case;
use crate::case::trust::stops_unless_said;
use crate::finding::Severity;

/// One parameter, or one value of it.
pub(super) struct Parameter {
    /// Its name.
    pub(super) name: &'static str,
    /// The value meant; any, if none is given.
    pub(super) value: Option<&'static str>,
    /// What it does today.
    pub(super) today: &'static str,
    /// Whether that is wanted.
    pub(super) standing: Standing,
}

/// How a parameter stands today.
pub(super) enum Standing {
    /// No current kernel has it, or it should be written otherwise.
    Obsolete,
    /// It does no harm.
    Harmless,
    /// It does harm on machines like these.
    HarmfulIf(fn(&Case<'_>) -> bool, Severity),
}

use Severity::{Error, Note, Warning};
use Standing::{HarmfulIf, Harmless, Obsolete};

const fn row(
    name: &'static str,
    value: Option<&'static str>,
    standing: Standing,
    today: &'static str,
) -> Parameter {
    Parameter { name, value, today, standing }
}

/// Whether the CPU vouches for its TSC, where that can be told.
fn cpu_vouches(case: &Case<'_>) -> Option<bool> {
    let flags = case.flags().ok()?;
    Some(flags.constant_tsc && (flags.nonstop_tsc || !stops_unless_said(case)))
}

/// The CPU itself says nothing against its TSC, and the kernel neither.
fn tsc_is_good(case: &Case<'_>) -> bool {
    cpu_vouches(case) == Some(true) && !tsc_at_fault(case)
}

/// Someone has vouched for a TSC that the CPU or the kernel finds wanting.
fn tsc_is_doubtful(case: &Case<'_>) -> bool {
    cpu_vouches(case) == Some(false) || tsc_at_fault(case)
}

fn is_guest(case: &Case<'_>) -> bool {
    case.is_guest() == Some(true)
}

/// On KVM the rule `kvm-clock-missing` tells of it.
fn is_guest_beside_kvm(case: &Case<'_>) -> bool {
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

/// All of them; the first row that fits a word is meant.
pub(super) const PARAMETERS: &[Parameter] = &[
    // arch/x86/kernel/tsc.c
    row(
        "notsc",
        None,
        HarmfulIf(tsc_is_good, Warning),
        "It marks the TSC unstable from the start, as tsc=unstable does, which has replaced it. \
         On this CPU the TSC is a good clock, and the cheapest.",
    ),
    row(
        "tsc",
        Some("unstable"),
        HarmfulIf(tsc_is_good, Warning),
        "It keeps the kernel from using the TSC as its clock. On this CPU the TSC is a good clock, \
         and the cheapest.",
    ),
    row(
        "tsc",
        Some("reliable"),
        HarmfulIf(tsc_is_doubtful, Warning),
        "It switches off all checks of the TSC, at boot and later: one that goes wrong is not \
         noticed. Right only where the CPU vouches for it (constant_tsc, nonstop_tsc).",
    ),
    row(
        "tsc",
        Some("nowatchdog"),
        HarmfulIf(tsc_is_doubtful, Warning),
        "It switches off the watchdog over the TSC: one that goes wrong after boot is not \
         noticed. Right only where the CPU vouches for it (constant_tsc, nonstop_tsc).",
    ),
    row(
        "tsc",
        Some("recalibrate"),
        Harmless,
        "measures the announced TSC frequency against another timer and warns if it is off.",
    ),
    row("tsc", None, Harmless, "no harm to the clock."),
    row(
        "tsc_early_khz",
        None,
        Harmless,
        "gives the TSC's frequency, in place of a measurement at boot.",
    ),
    // kernel/time/clocksource.c
    row("clocksource", None, Harmless, "names the clock source; a rule of its own checks it."),
    row(
        "clock",
        None,
        Obsolete,
        "It still works, with a warning at boot, and is written clocksource= today; clock=pmtmr \
         means clocksource=acpi_pm, a slow source.",
    ),
    // Not in any mainline kernel: Red Hat Enterprise Linux 6 alone had it.
    row(
        "clocksource_failover",
        None,
        Obsolete,
        "Only the kernel of Red Hat Enterprise Linux 6 knew it. Today's kernels ignore it: they \
         choose the next best source by themselves.",
    ),
    // arch/x86/kernel/kvmclock.c
    row(
        "no-kvmclock",
        None,
        Harmless,
        "takes kvm-clock away; a rule of its own tells what that means under KVM.",
    ),
    row(
        "no-kvmclock-vsyscall",
        None,
        HarmfulIf(on_kvm_clock, Error),
        "It keeps programs from reading kvm-clock themselves: each reading is a system call.",
    ),
    row(
        "nopv",
        None,
        HarmfulIf(is_guest_beside_kvm, Warning),
        "It switches off all that a guest agrees with its hypervisor, the clock included.",
    ),
    row("no-steal-acc", None, Harmless, "the scheduler does not allow for stolen time."),
    // arch/x86/entry/vdso/vma.c
    row(
        "vdso",
        Some("0"),
        HarmfulIf(always, Error),
        "It keeps programs from reading any clock themselves: each reading is a system call.",
    ),
    // kernel/time/tick-sched.c, hrtimer.c
    row(
        "nohz",
        Some("off"),
        HarmfulIf(is_guest, Note),
        "Every vCPU is woken up to 1000 times a second even when idle, which costs the host CPU \
         time. It was an old remedy for guests whose clock counted ticks; today's clock does not.",
    ),
    row("nohz", None, Harmless, "ticks stop on idle CPUs, as they do without it."),
    row("nohz_full", None, Harmless, "ticks stop on busy CPUs too; the clock does not need them."),
    row(
        "highres",
        Some("off"),
        HarmfulIf(always, Warning),
        "Timers and sleeps are rounded up to the next tick, 1–10 ms. The clock itself is not \
         concerned.",
    ),
    // Not in any mainline kernel: Red Hat Enterprise Linux 5 alone had it.
    row(
        "divider",
        None,
        Obsolete,
        "Only the kernel of Red Hat Enterprise Linux 5 knew it, to divide its 1000 ticks a second. \
         Today's kernels ignore it: idle CPUs have no tick (NO_HZ).",
    ),
    // arch/x86/xen of the kernels before paravirt-ops
    row(
        "xen.independent_wallclock",
        None,
        Obsolete,
        "It belonged to Xen's own kernels up to 2.6.18. With today's kernels each guest keeps its \
         own time of day anyway, and should be steered by NTP.",
    ),
    row(
        "independent_wallclock",
        None,
        Obsolete,
        "It belonged to Xen's own kernels up to 2.6.18. With today's kernels each guest keeps its \
         own time of day anyway, and should be steered by NTP.",
    ),
    // drivers/acpi/processor_idle.c, drivers/idle/intel_idle.c
    row(
        "processor.max_cstate",
        None,
        Harmless,
        "keeps CPUs from deep sleep: needed where the TSC stops in it, else only for latency, \
         at the cost of power.",
    ),
    row(
        "intel_idle.max_cstate",
        None,
        Harmless,
        "keeps CPUs from deep sleep: needed where the TSC stops in it, else only for latency, \
         at the cost of power.",
    ),
    row(
        "idle",
        Some("poll"),
        HarmfulIf(is_guest, Note),
        "Idle vCPUs spin instead of yielding: the host sees them busy all the time and takes time \
         from them, which shows as steal. The clock gains nothing by it.",
    ),
    row(
        "idle",
        Some("halt"),
        HarmfulIf(never_stops, Note),
        "CPUs never sleep deeply. This TSC does not stop in deep sleep, so the clock gains \
         nothing by it.",
    ),
    // init/calibrate.c
    row(
        "lpj",
        None,
        HarmfulIf(is_guest, Note),
        "It fixes the length of the kernel's delay loops, not the clock. After a migration to \
         another CPU the loops are too short or too long; without it they follow the TSC.",
    ),
    // arch/x86/kernel/apic/apic.c
    row(
        "nolapic_timer",
        None,
        HarmfulIf(always, Warning),
        "Timers are run by the PIT or HPET for all CPUs in common: late, and in a guest with an \
         exit for each.",
    ),
    row(
        "noapictimer",
        None,
        HarmfulIf(always, Warning),
        "Timers are run by the PIT or HPET for all CPUs in common: late, and in a guest with an \
         exit for each.",
    ),
    row("lapic", Some("notscdeadline"), Harmless, "timers are set by counting, not by TSC value."),
    // arch/x86/kernel/hpet.c
    row("hpet", Some("disable"), Harmless, "no HPET: the watchdog then compares with acpi_pm."),
    row("nohpet", None, Harmless, "no HPET: the watchdog then compares with acpi_pm."),
    // drivers/clocksource/acpi_pm.c
    row("acpi_pm_good", None, Harmless, "the ACPI timer is read once instead of three times."),
    row("no_timer_check", None, Harmless, "the timer interrupt is not tested at boot."),
];
