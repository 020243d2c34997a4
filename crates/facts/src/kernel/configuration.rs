//! The kernel's configuration, as far as it concerns time.

use std::collections::BTreeMap;

use crate::{Fact, Unknown};

/// Options that decide which clocks a kernel has and how it uses them.
const OPTIONS: &str = "
    CLOCKSOURCE_VALIDATE_LAST_CYCLE CLOCKSOURCE_WATCHDOG
    CLOCKSOURCE_WATCHDOG_MAX_SKEW_US CPU_IDLE CPU_IDLE_GOV_HALTPOLL
    HALTPOLL_CPUIDLE HIGH_RES_TIMERS HPET HPET_TIMER HYPERV HYPERV_TIMER
    HYPERV_UTILS HYPERVISOR_GUEST HZ HZ_PERIODIC IA32_EMULATION KVM
    KVM_CLOCK KVM_GUEST NO_HZ NO_HZ_COMMON NO_HZ_FULL NO_HZ_IDLE PARAVIRT
    PARAVIRT_CLOCK PARAVIRT_SPINLOCKS PARAVIRT_TIME_ACCOUNTING PARAVIRT_XXL
    PREEMPT PREEMPT_DYNAMIC PREEMPT_RT PTP_1588_CLOCK PTP_1588_CLOCK_KVM
    PTP_1588_CLOCK_VMCLOCK PTP_1588_CLOCK_VMW RTC_CLASS RTC_DRV_CMOS
    RTC_HCTOSYS RTC_SYSTOHC VIRT_CPU_ACCOUNTING_GEN VMGENID X86_PM_TIMER
    X86_TSC XEN XEN_PV
";

/// The kept part of a configuration: options that concern time and are set.
pub fn reduce(text: &str) -> String {
    let mut kept = String::new();
    for (name, value) in options(text) {
        kept.push_str(&format!("CONFIG_{name}={value}\n"));
    }
    kept
}

/// The options that are set.
pub fn parse(text: &str) -> Fact<BTreeMap<String, String>> {
    let options: BTreeMap<_, _> =
        options(text).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if options.is_empty() {
        let expected = "options of a kernel, such as `CONFIG_HZ=250`";
        return Fact::Unknown(Unknown::malformed("parachron/kernel-config", expected, text));
    }
    Fact::Known(options)
}

fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("CONFIG_")?.split_once('=')?;
        OPTIONS.split_whitespace().any(|option| option == name).then_some((name, value))
    })
}
