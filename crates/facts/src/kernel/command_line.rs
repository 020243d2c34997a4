//! The kernel's command line.

use crate::Fact;

/// Replaces words that do not concern time, which may hold keys, addresses or
/// passwords for an installer.
pub const WITHHELD: &str = "withheld";

/// Parameters that bear on time, by their name before `=`
/// (Documentation/admin-guide/kernel-parameters.txt): clock sources, ticks,
/// power states, what steals time from a CPU, and what a system call costs.
const NAMES: &str = "
    acpi acpi_no_watchdog acpi_pm_good apic clock clocksource
    clocksource_failover disable_timer_pin_1 divider enable_timer_pin_1
    highres hlt hpet idle independent_wallclock intel_pstate amd_pstate
    isolcpus lapic lapic_timer_c2_ok lapictimer lockdown lpj maxcpus
    mem_sleep_default mitigations noacpi noapic noapictimer nohlt nohpet
    nohz nohz_full no-kvmclock no-kvmclock-vsyscall no-steal-acc
    no_timer_check nolapic nolapic_timer nopv nopvspin nosmp nosmt
    nosoftlockup nospectre_v2 notsc nowatchdog nr_cpus nmi_watchdog pci
    pmtmr preempt processor pti nopti quiet report_lost_ticks rtc skew_tick
    softlockup_panic spectre_v2 threadirqs tick trace_clock tsc tsc_sync
    tsc_early_khz vdso vdso32 vsyscall watchdog_thresh x2apic nox2apic xen
    xen_nopv xen_timer_slop
";

/// Modules and subsystems whose every parameter (`module.name`) bears on time.
const PREFIXES: &str = "
    clocksource. cpufreq. cpuidle. cpuidle_haltpoll. haltpoll. hv_utils.
    hv_vmbus. intel_idle. kvm. kvm_amd. kvm_intel. processor. ptp_kvm. rcu
    rtc_cmos. tsc. watchdog. xen.
";

/// The kept part of `/proc/cmdline`: the words that concern time, in order;
/// each run of others becomes one word, [`WITHHELD`]. What follows `--` is
/// for the first program, not for the kernel.
pub fn reduce(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ours = true;
    for word in words(text) {
        ours &= word != "--";
        let keep = if ours && concerns_time(word) { word } else { WITHHELD };
        if keep != WITHHELD || kept.last() != Some(&WITHHELD) {
            kept.push(keep);
        }
    }
    kept.join(" ") + "\n"
}

/// The words of a command line, quotes kept together as the kernel does.
pub fn parse(text: &str) -> Fact<Vec<String>> {
    Fact::Known(words(text).into_iter().map(str::to_owned).collect())
}

fn words(text: &str) -> Vec<&str> {
    let mut quoted = false;
    // The end of the line is no part of a word whose quotes stay open.
    text.trim_end()
        .split(|c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        })
        .filter(|word| !word.is_empty())
        .collect()
}

fn concerns_time(word: &str) -> bool {
    // To the kernel, dashes and underscores in names are the same.
    let plain = |name: &str| name.trim_matches('"').replace('-', "_");
    let name = plain(word.split('=').next().unwrap_or_default());
    NAMES.split_whitespace().any(|known| plain(known) == name)
        || PREFIXES.split_whitespace().any(|prefix| name.starts_with(prefix))
}
