//! The table of rules.

mod agreement;
mod alarms;
mod clocksource;
mod cost;
mod daemon_steps;
mod discipline;
mod generic_timer;
mod guest_tools;
mod hypervisors;
mod idle;
mod kvm;
mod leap;
mod log_events;
mod parameters;
mod restore;
mod rtc;
mod sources;
mod start;
mod statements;
mod steal;
mod steering;
mod stepping;
mod tsc;
mod tsc_firmware;
mod unstable;

pub(crate) use self::statements::named;
use crate::case::Case;
use crate::finding::Harm::{self, MayGoWrong, Other};
use crate::outcome::Check;
use crate::rule::Rule;

/// Every rule; within a severity, findings are reported in this order, causes
/// before consequences.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("clock-sources-readable", Other, clocksource::check_readable,
        "Checks that the kernel lists its clock sources; most other rules depend on that list.",
        "Linux: kernel/time/clocksource.c (current_clocksource, available_clocksource)"),
    rule("facts-agree", MayGoWrong, agreement::check,
        "Checks that no fact contradicts another: clock sources, CPUID, flags, log and uptime \
         are of one machine and one boot.",
        "Linux: kernel/time/clocksource.c, arch/x86/kernel/kvmclock.c; proc_uptime(5)"),
    rule("clock-order", MayGoWrong, cost::check_order,
        "Checks that no clock went backward during the measurement.",
        "clock_gettime(2)"),
    rule("tsc-frequency", MayGoWrong, tsc::check_frequency,
        "Checks that all sources of the TSC's frequency agree: the kernel's log, CPUID, the \
         kvm-clock page, and a measurement if the clock source is not the TSC. Limits: 100 ppm \
         (page), 500 ppm (measured), 1 % (CPUID).",
        "Linux: arch/x86/kernel/tsc.c, arch/x86/kernel/pvclock.c (pvclock_tsc_khz)"),
    rule("counter-frequency", MayGoWrong, generic_timer::check_frequency,
        "On arm64, checks that the counter still runs at the frequency that the kernel read at \
         boot: compares the register CNTFRQ_EL0, the kernel's log and the clock itself, to 100 \
         ppm.",
        "Arm Architecture Reference Manual, the Generic Timer; Linux: \
         drivers/clocksource/arm_arch_timer.c (arch_timer_get_cntfrq)"),
    rule("tsc-across-cpus", MayGoWrong, tsc::check_across_cpus,
        "Checks that the TSCs (arm64: counters) of all CPUs differ by at most 100 ns and the \
         measurement's error bound.",
        "Linux: arch/x86/kernel/tsc_sync.c"),
    rule("slow-clocksource", Other, clocksource::check_slow,
        "Checks that the clock source is not a slow one (hpet, acpi_pm, pit, jiffies, Hyper-V's \
         MSR, or xen read by system calls), and reports whether a better one is available and \
         safe.",
        "Linux: kernel/time/clocksource.c, drivers/clocksource/acpi_pm.c, arch/x86/kernel/hpet.c, \
         arch/x86/xen/time.c. ClickHouse and Redis warn of it: ClickHouse/ClickHouse#41111, \
         redis/redis#10636"),
    rule("tsc-marked-unstable", MayGoWrong, unstable::check_marked,
        "Reports whether the kernel marked the TSC unstable, and derives the cause from the \
         figures in its log: a wrong rate, a counter that was set back, a pause, a reference that \
         failed, or a comparison that was late or overflowed.",
        "Linux: kernel/time/clocksource.c (clocksource_watchdog), arch/x86/kernel/tsc.c"),
    rule("watchdog-late", MayGoWrong, unstable::check_late,
        "Reports whether the kernel's check of the clock source was late or skipped in the last 24 \
         h.",
        "Linux: kernel/time/clocksource.c (cs_watchdog_read, watchdog_check_freq)"),
    rule("tsc-trapped", Other, cost::check_trapped,
        "Checks that the CPU executes RDTSC (arm64: reads of CNTVCT_EL0) without emulation by the \
         hypervisor. Limit: 250 ns per read.",
        "Linux: Documentation/virt/kvm/x86/timekeeping.rst; xen-tscmode(7)"),
    rule("kvm-clock-not-stable", Other, kvm::check_not_stable,
        "With kvm-clock as clock source, checks that the host flags its TSC as stable, so that \
         programs can read the page without a system call.",
        "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/msr.rst"),
    rule("reads-enter-kernel", Other, cost::check_enter_kernel,
        "Checks that programs read the clock without a system call if its source allows that.",
        "Linux: lib/vdso/gettimeofday.c; vdso(7)"),
    rule("clock-before-build", MayGoWrong, start::check_before_build,
        "Checks that the time of day, now and at boot, is later than the kernel's build.",
        "proc_sys_kernel(5) (version), proc_stat(5) (btime); Linux: drivers/rtc/class.c \
         (rtc_hctosys)"),
    rule("frequency-correction", MayGoWrong, discipline::check_frequency,
        "Checks the clock's frequency correction: from 200 ppm on the assumed frequency is wrong; \
         from 490 of the kernel's 500 ppm on the daemon cannot hold the clock.",
        "Linux: include/linux/timex.h (MAXFREQ); adjtimex(2)"),
    rule("clock-offset", MayGoWrong, discipline::check_offset,
        "Checks the clock's offset: a warning from 0.1 s, an error from 1 s.",
        "adjtimex(2), chronyc(1) tracking"),
    rule("daemon-steps", MayGoWrong, daemon_steps::check_steps,
        "In a log that holds a time daemon's messages: reports other programs or hosts that \
         change the clock, and regular steps in one direction with the rate that they add up to.",
        "chrony: reference.c, local.c; ntpd: ntp_loopfilter.c; VirtualBox: \
         VBoxServiceTimeSync.cpp"),
    rule("time-lost", MayGoWrong, log_events::check_time_lost,
        "Reports timer ticks that the kernel lost, Xen's time that went backward, and a clock \
         that Hyper-V set, and what programs and the kernel log of a clock in words (that it went \
         back, is behind, lost its power); in a log alone also a calibration that failed and timer \
         interrupts under 0.1 s.",
        "Linux: arch/x86/kernel/tsc.c, drivers/hv/hv_util.c, kernel/time/hrtimer.c; 2.6: \
         arch/x86_64/kernel/time.c, arch/i386/kernel/time-xen.c; facts: messages.txt"),
    rule("phc-time-scale", MayGoWrong, sources::check_time_scale,
        "Checks that chronyd's configuration matches the time scale of each PTP clock that a \
         hypervisor provides: UTC, or TAI, which is 37 s ahead.",
        "chrony.conf(5) (refclock, tai, offset); Linux: drivers/ptp/ptp_vmclock.c, \
         drivers/virtio/virtio_rtc_ptp.c"),
    rule("snapshot-restore", MayGoWrong, restore::check_snapshots,
        "On platforms that save and restore their guests: reports what a restore does to this \
         clock, and whether chronyd corrects it from the host's clock.",
        "Firecracker: docs/snapshotting; Linux: Documentation/virt/kvm/api.rst (KVM_SET_CLOCK)"),
    rule("clock-steered", MayGoWrong, steering::check_steered,
        "Checks that a time daemon disciplines the clock and has a time source.",
        "adjtimex(2) (STA_UNSYNC), chronyc(1) tracking"),
    rule("makestep-limited", MayGoWrong, stepping::check_limited,
        "Checks that chronyd may step the clock at any time, or that parachron keep runs, if the \
         machine can be paused, saved or moved; only a note if none of these happened in the last \
         24 h.",
        "chrony FAQ (makestep); chrony.conf(5)"),
    rule("mixed-leap-smear", MayGoWrong, sources::check_mixed,
        "Checks that chronyd's sources treat leap seconds alike: all smear them or none does.",
        "AWS: Set the time reference on your EC2 instance; Google: Configure NTP on a VM; chrony \
         FAQ (leap smear)"),
    rule("chrony-configuration", MayGoWrong, sources::check_configuration,
        "Checks that chronyd starts with its configuration, as far as servers' options and \
         makestep go, and that it names more than two servers, a pool, a cloud's server or a \
         reference clock.",
        "chrony.conf(5); chrony: cmdparse.c (CPS_ParseNTPSourceAdd); chrony FAQ"),
    rule("ntp-configuration", MayGoWrong, sources::check_others,
        "Checks that ntpd and systemd-timesyncd have servers, that these are not only this machine, \
         and that all treat leap seconds alike.",
        "ntp.conf(5), timesyncd.conf(5)"),
    rule("host-clock-unused", MayGoWrong, sources::check_unused,
        "Checks that chronyd uses the host's clock if it is available as a PTP device.",
        "Azure: Time sync for Linux VMs; Google: Configure accurate time; AWS: Set the time \
         reference on your EC2 instance"),
    rule("one-daemon", MayGoWrong, steering::check_one_daemon,
        "Checks that only one time daemon disciplines the clock.",
        "chrony FAQ; systemd-timesyncd.service(8)"),
    rule("guest-tools", MayGoWrong, guest_tools::check_guest_tools,
        "Checks that VBoxService does not set the clock while a time daemon disciplines it. Other \
         guest tools set it only after pauses, unless configured otherwise.",
        "VirtualBox manual: Guest Additions time synchronization; Linux: drivers/hv/hv_util.c"),
    rule("error-bound", MayGoWrong, discipline::check_error_bound,
        "Checks that a daemon corrected the clock within the last 83 minutes, which keeps the \
         kernel's error bound under 2.5 s.",
        "Linux: kernel/time/ntp.c (second_overflow)"),
    rule("leap-second", MayGoWrong, leap::check_armed,
        "Reports whether a leap second is scheduled for the end of this day and has not passed \
         yet.",
        "Linux: kernel/time/ntp.c (second_overflow); IERS Bulletin C"),
    rule("kvm-clock-missing", MayGoWrong, kvm::check_missing,
        "Checks that a KVM guest has kvm-clock; if not, whether the host, a kernel parameter or \
         the kernel's configuration is the cause.",
        "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/cpuid.rst"),
    rule("kvm-host-clock", MayGoWrong, kvm::check_host,
        "On a KVM host, checks that guests get one stable clock.",
        "Linux: arch/x86/kvm/x86.c (pvclock_update_vm_gtod_copy)"),
    rule("tsc-not-constant", MayGoWrong, tsc::check_not_constant,
        "Checks that a TSC which is the clock source, or which a KVM host passes to guests, keeps \
         its rate in all power states (constant_tsc, nonstop_tsc).",
        "Intel SDM volume 3, Invariant TSC; Linux: drivers/acpi/processor_idle.c"),
    rule("virtualbox-provider", Other, hypervisors::check_virtualbox,
        "Checks that VirtualBox gives Linux guests the `kvm` paravirtualization provider.",
        "VirtualBox manual: Paravirtualization Providers"),
    rule("hyperv-clock", MayGoWrong, hypervisors::check_hyperv,
        "Under Hyper-V, checks that the reference TSC page is available.",
        "Hyper-V TLFS: Partition Reference TSC; Linux: drivers/clocksource/hyperv_timer.c"),
    rule("software-emulation", Other, hypervisors::check_emulated,
        "Checks that the CPU is not emulated in software (QEMU TCG).",
        "QEMU: system emulation, accelerators"),
    rule("clocksource-not-used", MayGoWrong, clocksource::check_requested,
        "Checks that the clock source requested on the kernel's command line is in use.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt (clocksource=)"),
    rule("harmful-parameters", MayGoWrong, parameters::check_harmful,
        "Reports kernel parameters about time that do harm on this kind of machine: notsc, tsc=, \
         no-kvmclock, no-kvmclock-vsyscall, nopv, nohz=off, highres=off, idle=, lpj=, \
         nolapic_timer.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt, arch/x86/kernel/tsc.c, \
         arch/x86/kernel/kvmclock.c"),
    rule("obsolete-parameters", Other, parameters::check_obsolete,
        "Reports kernel parameters about time that today's kernels ignore or have renamed: clock=, \
         clocksource_failover=, divider=, xen.independent_wallclock.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt, kernel/time/clocksource.c \
         (boot_override_clock)"),
    rule("steal-time", Other, steal::check_steal,
        "Checks the CPU time stolen by the host, during the run and since boot: a note from 2 %, a \
         warning from 5 % during the run. The figure since boot counts only if nothing was \
         measured, and under Xen never in addition to a measurement.",
        "Linux: Documentation/virt/kvm/x86/msr.rst (MSR_KVM_STEAL_TIME); proc_stat(5)"),
    rule("stalls", Other, steal::check_stalls,
        "Reports whether the kernel logged stalled CPUs in the last 24 h: soft lockups, RCU \
         stalls, or timer interrupts that took 0.1 s or longer.",
        "Linux: kernel/watchdog.c, kernel/time/hrtimer.c (hrtimer_interrupt)"),
    rule("hint-of-dedicated-cpus", Other, idle::check_dedicated,
        "Checks that a host which promises dedicated CPUs steals less than 2 % of their time.",
        "Linux: Documentation/virt/kvm/x86/cpuid.rst (KVM_HINTS_REALTIME), \
         arch/x86/kernel/kvm.c"),
    rule("coarse-timers", Other, idle::check_coarse_timers,
        "Checks that the kernel has high-resolution timers; without them timers fire only on \
         ticks.",
        "Linux: Documentation/timers/highres.rst"),
    rule("guest-halt-polling", Other, idle::check_guest_halt_polling,
        "Reports whether an idle CPU of a KVM guest polls before it halts.",
        "Linux: Documentation/virt/guest-halt-polling.rst, drivers/cpuidle/cpuidle-haltpoll.c"),
    rule("host-halt-polling", Other, idle::check_host_halt_polling,
        "On a KVM host, reports whether KVM polls for a halted vCPU's next interrupt.",
        "Linux: Documentation/virt/kvm/halt-polling.rst"),
    rule("expensive-exits", Other, idle::check_expensive_exits,
        "Reports whether a KVM host flushes the L1 data cache on every VM entry.",
        "Linux: Documentation/admin-guide/hw-vuln/l1tf.rst"),
    rule("read-cost", Other, cost::check_out_of_line,
        "Checks that a clock read costs no more than is usual for its source.",
        "Parachron: docs/measurements, and redis/redis#10604 for EC2"),
    rule("offset-miscast", Other, alarms::check_miscast,
        "Checks that the kernel does not report a clock offset that is 2^32 ns too large, which \
         monitoring shows as 4.29 s.",
        "Linux: kernel/time/ntp.c (f5807b0606da); prometheus/node_exporter#3764"),
    rule("offset-alarm-blind", Other, alarms::check_blind,
        "Checks that the time daemon sets the offset that node_exporter reports.",
        "pendulum-project/ntpd-rs#2202; prometheus/node_exporter#2445"),
    rule("rtc-local-time", MayGoWrong, rtc::check_local_time,
        "Checks that the RTC holds UTC.",
        "hwclock(8), /etc/adjtime"),
    rule("rtc-off", MayGoWrong, rtc::check_off,
        "Checks that the RTC is within a minute of the system clock.",
        "hwclock(8); Linux: drivers/rtc/class.c (rtc_hctosys)"),
    rule("rtc-missing", MayGoWrong, rtc::check_missing,
        "Checks that the machine has an RTC, or another source of the time of day at boot.",
        "Linux: arch/x86/kernel/kvmclock.c (kvm_get_wallclock), drivers/rtc/class.c"),
    rule("pauses-seen", MayGoWrong, restore::check_pauses,
        "Reports whether the machine was restored from a snapshot or was suspended in the last 24 \
         h.",
        "Linux: drivers/virt/vmgenid.c, drivers/char/random.c, kernel/power/suspend.c"),
    rule("vmclock-status", MayGoWrong, restore::check_vmclock,
        "Checks that the status of the host's VMClock page, if there is one, is reliable.",
        "Linux: include/uapi/linux/vmclock-abi.h, drivers/ptp/ptp_vmclock.c"),
    rule("tsc-firmware", MayGoWrong, tsc_firmware::check_firmware,
        "Reports whether the kernel logged a wrong setup of the TSC by the firmware.",
        "Linux: arch/x86/kernel/tsc_sync.c, arch/x86/kernel/cpu/amd.c"),
    rule("tai-offset", Other, leap::check_tai,
        "Checks that the TAI offset is set, if a running daemon can set it.",
        "clock_gettime(2) (CLOCK_TAI), adjtimex(2)"),
];

/// The rules that a log alone can answer.
pub const OF_LOGS: [&str; 9] = [
    "tsc-marked-unstable",
    "watchdog-late",
    "kvm-host-clock",
    "daemon-steps",
    "time-lost",
    "tsc-frequency",
    "stalls",
    "pauses-seen",
    "tsc-firmware",
];

const fn rule(
    name: &'static str,
    harm: Harm,
    check: fn(&Case<'_>) -> Check,
    checks: &'static str,
    source: &'static str,
) -> Rule {
    Rule { name, harm, checks, source, check }
}
