//! How CPUs go idle and timers fire: what makes wake-ups late, by facts alone.
//! `parachron latency` measures the rest.

use facts::cpu::HypervisorKind;
use instruments::figures::{time, whole_time};

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};

/// `guest-halt-polling`
pub(crate) fn check_guest_halt_polling(case: &Case<'_>) -> Check {
    if case.kind() != Some(HypervisorKind::Kvm) {
        return Err(Skipped::DoesNotApply("does not apply: not a KVM guest".to_owned()));
    }
    let driver = case.idle_driver()?;
    let governor = case.idle_governor().unwrap_or("unknown");
    let polls_ns = case.guest_halt_poll_ns().copied().unwrap_or(0);
    if driver == "haltpoll" && governor == "haltpoll" && polls_ns > 0 {
        return Outcome::fine(format!("an idle CPU polls for up to {}", whole_time(polls_ns)));
    }
    // By default the driver loads where the host gives that hint alone: elsewhere polling
    // takes time that others could use (haltpoll_want, drivers/cpuidle/cpuidle-haltpoll.c).
    let has_hint = case.hypervisor()?.kvm_features.is_some_and(|features| features.realtime_hint);
    if driver != "haltpoll" && !has_hint {
        return Outcome::fine(
            "an idle CPU halts at once, as is usual without the host's hint of dedicated CPUs",
        );
    }
    Finding::new(Severity::Note, "An idle CPU halts at once: the host has to wake it")
        .evidence(format!("cpuidle: driver {driver}, governor {governor}"))
        .evidence(format!("guest_halt_poll_ns: {polls_ns}"))
        .explain(
            "Each halt costs an exit, and each wake-up a second trip through the host: a program \
             that waits for another loses 5 to 50 µs. Polling briefly before the halt avoids \
             both, but uses CPU time that the host's other guests could have had.",
        )
        .remedy(poll(case, [driver, governor]))
        .remedy(Remedy::command("Measure first what it would gain.", "parachron latency"))
        .alone()
}

/// The parameter is the governor's.
fn poll(case: &Case<'_>, driver_and_governor: [&str; 2]) -> Remedy {
    if case.configured("HALTPOLL_CPUIDLE") == Some(false) {
        return Remedy::advice(
            "Use a kernel built with CONFIG_HALTPOLL_CPUIDLE if programs pass work to each other.",
        );
    }
    if driver_and_governor != ["haltpoll", "haltpoll"] {
        return Remedy::advice(
            "Load the cpuidle driver haltpoll and select the governor haltpoll if programs pass work \
             to each other (parameter cpuidle_haltpoll.force=1 if the host gives no hint of \
             dedicated CPUs).",
        );
    }
    Remedy::command(
        "Let the guest poll if programs pass work to each other.",
        "echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns",
    )
    .changes("up to 200 µs of a CPU each time it goes idle, until the next boot")
}

/// Whether this is a host of KVM, as far as the rules on hosts apply.
fn is_host(case: &Case<'_>) -> Result<(), Skipped> {
    match case.kvm_host() {
        Err(why) if !case.is_logged_host() => Err(why.unless_absent("not a KVM host")),
        _ => Ok(()),
    }
}

/// `host-halt-polling`
pub(crate) fn check_host_halt_polling(case: &Case<'_>) -> Check {
    is_host(case)?;
    let &polls_ns = case.halt_poll_ns()?;
    if polls_ns > 0 {
        return Outcome::fine(format!("KVM polls for up to {}", whole_time(polls_ns)));
    }
    Finding::new(Severity::Note, "KVM gives up a halted vCPU's CPU at once")
        .evidence("/sys/module/kvm/parameters/halt_poll_ns: 0")
        .explain(
            "Each guest of this host wakes up later than it could, because its vCPU's thread has \
             to be scheduled again. This is right for a host with more vCPUs than CPUs.",
        )
        .remedy(
            Remedy::command(
                "Set KVM's default if CPUs are idle anyway.",
                "echo 200000 | sudo tee /sys/module/kvm/parameters/halt_poll_ns",
            )
            .changes("more of this host's CPU time for all its guests, until the host's next boot"),
        )
        .alone()
}

/// `coarse-timers`; `highres=off` is `harmful-parameters`'.
pub(crate) fn check_coarse_timers(case: &Case<'_>) -> Check {
    let configuration = case.configuration()?;
    if configuration.contains_key("HIGH_RES_TIMERS") {
        return Outcome::fine("the kernel has high-resolution timers");
    }
    if !configuration.contains_key("HZ") {
        let why = "the kernel's configuration is not whole: it has no CONFIG_HZ";
        return Err(Skipped::CouldNot(why.to_owned()));
    }
    let mut finding = Finding::new(Severity::Warning, "Timers fire only on ticks")
        .evidence("the kernel was built without CONFIG_HIGH_RES_TIMERS");
    if let Some(hz) = case.tick_hz() {
        finding = finding.evidence(format!("CONFIG_HZ={hz}: a tick is {} long", time(1e9 / hz)));
    }
    finding
        .explain(
            "Every sleep or timeout ends on the first tick after it is due: up to one tick (1–10 \
             ms) late.",
        )
        .remedy(Remedy::advice("Use a kernel built with CONFIG_HIGH_RES_TIMERS=y."))
        .alone()
}

/// `expensive-exits`
pub(crate) fn check_expensive_exits(case: &Case<'_>) -> Check {
    is_host(case)?;
    let text = case.l1tf()?;
    // `conditional cache flushes` are few; `cache flushes`, in Red Hat's 3.10 `L1D
    // cache flushes`, are one an entry.
    if !text.contains("cache flushes") || text.contains("conditional") {
        return Outcome::fine(format!("L1TF: {text}"));
    }
    Finding::new(Severity::Note, "Every VM entry flushes the L1 data cache")
        .evidence(format!("vulnerabilities/l1tf: {text}"))
        .explain(
            "Every exit of its guests costs some microseconds more than elsewhere, and with it \
             every timer, wake-up and interrupt that exits.",
        )
        .remedy(Remedy::advice(
            "Set kvm-intel.vmentry_l1d_flush=cond (the default, a conditional flush), which is \
             cheaper, if you trust the guests. It is a decision about security: read \
             Documentation/admin-guide/hw-vuln/l1tf.rst first.",
        ))
        .alone()
}

/// `hint-of-dedicated-cpus`
pub(crate) fn check_dedicated(case: &Case<'_>) -> Check {
    let features = case.hypervisor()?.kvm_features;
    if !features.is_some_and(|features| features.realtime_hint) {
        return Err(Skipped::DoesNotApply(
            "does not apply: the host gives no hint of dedicated CPUs".to_owned(),
        ));
    }
    let &since_boot = case.steal_since_boot()?;
    let now = case.measured().ok().and_then(|measured| measured.stolen);
    let share = now.map_or(since_boot, |now| now.share);
    // A share since boot holds what was before the guest was tuned.
    if share < 0.02 {
        return Outcome::fine(format!(
            "dedicated according to the host's hint, {:.1} % stolen",
            share * 100.0
        ));
    }
    Finding::new(Severity::Warning, "The host promises dedicated CPUs, and takes them away")
        .evidence("CPUID 0x40000001 EDX: KVM_HINTS_REALTIME")
        .evidence(format!("/proc/stat: steal {:.1} % of all CPU time", share * 100.0))
        .explain(
            "Because of that hint the kernel leaves out what helps on shared CPUs: paravirtual \
             spinlocks and TLB flushes. A lock whose holder is not running then keeps its waiters \
             spinning.",
        )
        .remedy(Remedy::advice(
            "Dedicate the CPUs on the host, or start the guest without the hint (QEMU: \
             kvm-hint-dedicated=off).",
        ))
        .alone()
}

#[cfg(test)]
mod tests {
    use crate::testing::{
        could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, kvm_features,
        unreadable,
    };
    use facts::{Fact, Unknown};

    #[test]
    fn a_guest_that_halts_at_once_is_told() {
        let mut facts = healthy_kvm_guest();
        assert_eq!(fine(&facts, None, "guest-halt-polling"), "an idle CPU polls for up to 200 µs");
        facts.idle.guest_halt_poll_ns = Fact::Known(0);
        let text = finding_text(&facts, None, "guest-halt-polling");
        assert!(text.starts_with("Note: An idle CPU halts at once"), "{text}");
        facts.idle.driver = Fact::Known("none".into());
        assert!(fine(&facts, None, "guest-halt-polling").contains("without the host's hint"));
        dedicated(&mut facts);
        let text = finding_text(&facts, None, "guest-halt-polling");
        assert!(text.contains("driver none, governor haltpoll"), "{text}");
        fine(&healthy_bare_metal(), None, "guest-halt-polling");
    }

    fn dedicated(facts: &mut facts::Facts) {
        if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
            let features = kvm_features(0x0100_7efb);
            hypervisor.kvm_features =
                Some(facts::cpu::KvmFeatures { realtime_hint: true, ..features });
        }
    }

    #[test]
    fn a_host_that_does_not_poll_is_told() {
        let mut facts = healthy_bare_metal();
        assert_eq!(fine(&facts, None, "host-halt-polling"), "KVM polls for up to 200 µs");
        facts.idle.halt_poll_ns = Fact::Known(0);
        assert!(finding_text(&facts, None, "host-halt-polling").contains("halt_poll_ns: 0"));
        fine(&unreadable(), None, "host-halt-polling");
        host_unknown(&mut facts);
        could_not(&facts, None, "host-halt-polling");
    }

    fn host_unknown(facts: &mut facts::Facts) {
        facts.kvm_host = Fact::Unknown(Unknown::NeedsRoot { what: "/dev/kvm".into() });
    }

    #[test]
    fn timers_at_ticks_have_their_reason() {
        let mut facts = healthy_kvm_guest();
        fine(&facts, None, "coarse-timers");
        let Fact::Known(options) = &mut facts.kernel.configuration else { panic!() };
        options.insert("HZ".into(), "250".into());
        options.remove("HIGH_RES_TIMERS");
        let text = finding_text(&facts, None, "coarse-timers");
        assert!(text.contains("CONFIG_HZ=250: a tick is 4.00 ms long"), "{text}");
        could_not(&unreadable(), None, "coarse-timers");
    }

    #[test]
    fn a_flush_at_each_entry_counts_on_a_host_only() {
        let flushes = "Mitigation: PTE Inversion; VMX: cache flushes, SMT vulnerable";
        let mut host = healthy_bare_metal();
        host.idle.l1tf = Fact::Known(flushes.replace("cache", "conditional cache"));
        fine(&host, None, "expensive-exits");
        host.idle.l1tf = Fact::Known(flushes.into());
        assert!(finding_text(&host, None, "expensive-exits").contains("flushes the L1 data cache"));
    }

    #[test]
    fn a_hint_that_the_host_breaks_is_a_warning() {
        let mut facts = healthy_kvm_guest();
        fine(&facts, None, "hint-of-dedicated-cpus");
        dedicated(&mut facts);
        fine(&facts, None, "hint-of-dedicated-cpus");
        facts.load.steal_since_boot = Fact::Known(0.04);
        let text = finding_text(&facts, None, "hint-of-dedicated-cpus");
        assert!(text.contains("KVM_HINTS_REALTIME") && text.contains("4.0 %"), "{text}");
    }
}
