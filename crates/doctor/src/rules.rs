//! The table of rules.

mod alarms;
mod clocksource;
mod cost;
mod discipline;
mod generic_timer;
mod hypervisors;
mod idle;
mod kvm;
mod leap;
mod parameters;
mod restore;
mod rtc;
mod sources;
mod start;
mod steal;
mod steering;
mod stepping;
mod tsc;
mod unstable;

use crate::case::Case;
use crate::outcome::Check;
use crate::rule::Rule;

/// Every rule; within a severity, findings are reported in this order, causes
/// before consequences.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("clock-sources-readable", clocksource::readable,
        "That the kernel lists its clock sources: without them most rules cannot check.",
        "Linux: kernel/time/clocksource.c (current_clocksource, available_clocksource)"),
    rule("clock-order", cost::order,
        "That no clock went backward in the measurement.",
        "clock_gettime(2)"),
    rule("tsc-frequency", tsc::frequency,
        "That all sources of the TSC's frequency agree: the kernel's log, CPUID, the kvm-clock \
         page, and a measurement where the clock source is not the TSC. Limits: 100 ppm (page), \
         500 ppm (measured), 1 % (CPUID).",
        "Linux: arch/x86/kernel/tsc.c, arch/x86/kernel/pvclock.c (pvclock_tsc_khz)"),
    rule("counter-frequency", generic_timer::frequency,
        "On arm64: that the counter's frequency is still what the kernel read at boot: the \
         register CNTFRQ_EL0, the kernel's log, and the clock itself, to 100 ppm.",
        "Arm Architecture Reference Manual, the Generic Timer; Linux: \
         drivers/clocksource/arm_arch_timer.c (arch_timer_get_cntfrq)"),
    rule("tsc-across-cpus", tsc::across_cpus,
        "That the CPUs' TSCs (arm64: counters) agree, to 100 ns beyond the measurement's bound.",
        "Linux: arch/x86/kernel/tsc_sync.c"),
    rule("slow-clocksource", clocksource::slow,
        "That the clock source is not hpet, acpi_pm, pit, jiffies, Hyper-V's MSR, or xen by \
         system calls; whether a better one is available, and safe.",
        "Linux: kernel/time/clocksource.c, drivers/clocksource/acpi_pm.c, arch/x86/kernel/hpet.c, \
         arch/x86/xen/time.c. ClickHouse and Redis warn of it: ClickHouse/ClickHouse#41111, \
         redis/redis#10636"),
    rule("tsc-marked-unstable", unstable::marked,
        "Whether the kernel marked the TSC unstable, and why by the log's figures: a wrong rate, \
         a counter set back, a pause, a wrapped or late comparison.",
        "Linux: kernel/time/clocksource.c (clocksource_watchdog), arch/x86/kernel/tsc.c"),
    rule("watchdog-late", unstable::late,
        "Whether the kernel's check of the clock source was late or skipped in the last 24 h.",
        "Linux: kernel/time/clocksource.c (cs_watchdog_read, watchdog_check_freq)"),
    rule("tsc-trapped", cost::trapped,
        "That the CPU executes RDTSC (arm64: reads of CNTVCT_EL0) and the hypervisor does not \
         emulate it: under 250 ns.",
        "Linux: Documentation/virt/kvm/x86/timekeeping.rst; xen-tscmode(7)"),
    rule("kvm-clock-not-stable", kvm::not_stable,
        "That under kvm-clock the host flags its TSC as stable, so that programs can read the \
         page themselves.",
        "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/msr.rst"),
    rule("reads-enter-kernel", cost::enter_kernel,
        "That programs read a source that needs no system call without one.",
        "Linux: lib/vdso/gettimeofday.c; vdso(7)"),
    rule("clock-before-build", start::before_build,
        "That the time of day, now and at boot, is after the kernel was built.",
        "proc_sys_kernel(5) (version), proc_stat(5) (btime); Linux: drivers/rtc/class.c \
         (rtc_hctosys)"),
    rule("frequency-correction", discipline::frequency,
        "The frequency correction of the clock: from 200 ppm the frequency is wrong, from 490 of \
         the kernel's 500 ppm the daemon cannot hold it.",
        "Linux: include/linux/timex.h (MAXFREQ); adjtimex(2)"),
    rule("clock-offset", discipline::offset,
        "The clock's offset: from 0.1 s a warning, from 1 s an error.",
        "adjtimex(2), chronyc(1) tracking"),
    rule("phc-time-scale", sources::time_scale,
        "That chronyd takes each PTP clock of a hypervisor for what its driver counts: UTC, or \
         TAI, 37 s ahead.",
        "chrony.conf(5) (refclock, tai, offset); Linux: drivers/ptp/ptp_vmclock.c, \
         drivers/virtio/virtio_rtc_ptp.c"),
    rule("snapshot-restore", restore::snapshots,
        "On platforms that save and restore their guests: what a restore does to this clock, and \
         whether chronyd corrects it by the host's clock.",
        "Firecracker: docs/snapshotting; Linux: Documentation/virt/kvm/api.rst (KVM_SET_CLOCK)"),
    rule("clock-steered", steering::steered,
        "That a time daemon disciplines the clock, and has a time source.",
        "adjtimex(2) (STA_UNSYNC), chronyc(1) tracking"),
    rule("makestep-limited", stepping::limited,
        "That chronyd may step the clock at any time on a machine that is paused, saved or moved, \
         or parachron keep does; a note where nothing of that was seen in the last 24 h.",
        "chrony FAQ (makestep); chrony.conf(5)"),
    rule("mixed-leap-smear", sources::mixed,
        "That chronyd's sources agree on leap seconds: none smears them, or all do.",
        "AWS: Set the time reference on your EC2 instance; Google: Configure NTP on a VM; chrony \
         FAQ (leap smear)"),
    rule("host-clock-unused", sources::unused,
        "That chronyd uses the host's clock where that is here as a PTP device.",
        "Azure: Time sync for Linux VMs; Google: Configure accurate time; AWS: Set the time \
         reference on your EC2 instance"),
    rule("one-daemon", steering::one_daemon,
        "That no two time daemons discipline the same clock.",
        "chrony FAQ; systemd-timesyncd.service(8)"),
    rule("guest-tools", steering::guest_tools,
        "That guest tools do not set the clock while a time daemon disciplines it.",
        "VirtualBox manual: Guest Additions time synchronization; Linux: drivers/hv/hv_util.c"),
    rule("error-bound", discipline::error_bound,
        "That a daemon corrected the clock within the last 83 minutes: the kernel's error bound \
         is under 2.5 s.",
        "Linux: kernel/time/ntp.c (second_overflow)"),
    rule("leap-second", leap::armed,
        "Whether a leap second is scheduled for the end of this day, and not past.",
        "Linux: kernel/time/ntp.c (second_overflow); IERS Bulletin C"),
    rule("kvm-clock-missing", kvm::missing,
        "That a KVM guest has kvm-clock; if not, whether the host, a kernel parameter or the \
         kernel's configuration is the cause.",
        "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/cpuid.rst"),
    rule("kvm-host-clock", kvm::host,
        "On a KVM host: that guests get one stable clock.",
        "Linux: arch/x86/kvm/x86.c (pvclock_update_vm_gtod_copy)"),
    rule("tsc-not-constant", tsc::not_constant,
        "That a TSC which is the clock, or which a KVM host gives to guests, keeps its rate in \
         all states (constant_tsc, nonstop_tsc).",
        "Intel SDM volume 3, Invariant TSC; Linux: drivers/acpi/processor_idle.c"),
    rule("virtualbox-provider", hypervisors::virtualbox,
        "That VirtualBox gives a Linux guest the paravirtualisation provider kvm.",
        "VirtualBox manual: Paravirtualization Providers"),
    rule("hyperv-clock", hypervisors::hyperv,
        "That under Hyper-V the reference TSC page is available.",
        "Hyper-V TLFS: Partition Reference TSC; Linux: drivers/clocksource/hyperv_timer.c"),
    rule("software-emulation", hypervisors::emulated,
        "That software does not emulate the CPU instruction by instruction.",
        "QEMU: system emulation, accelerators"),
    rule("clocksource-not-used", clocksource::requested,
        "That the clock source requested on the kernel's command line is in use.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt (clocksource=)"),
    rule("harmful-parameters", parameters::harmful,
        "Kernel parameters about time that do harm on this kind of machine: notsc, tsc=, \
         no-kvmclock, no-kvmclock-vsyscall, nopv, nohz=off, highres=off, idle=, lpj=, \
         nolapic_timer.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt, arch/x86/kernel/tsc.c, \
         arch/x86/kernel/kvmclock.c"),
    rule("obsolete-parameters", parameters::obsolete,
        "Kernel parameters about time that today's kernels ignore or know by another name: \
         clock=, clocksource_failover=, divider=, xen.independent_wallclock.",
        "Linux: Documentation/admin-guide/kernel-parameters.txt, kernel/time/clocksource.c \
         (boot_override_clock)"),
    rule("steal-time", steal::steal,
        "CPU time stolen by the host, just now and since boot: from 2 % a note, from 5 % just now \
         a warning; since boot counts alone where nothing was measured, and under Xen never beside \
         a measurement.",
        "Linux: Documentation/virt/kvm/x86/msr.rst (MSR_KVM_STEAL_TIME); proc_stat(5)"),
    rule("stalls", steal::stalls,
        "Whether the kernel reported stalled CPUs in the last 24 h: soft lockups, RCU stalls, a \
         timer interrupt of 0.1 s and more.",
        "Linux: kernel/watchdog.c, kernel/time/hrtimer.c (hrtimer_interrupt)"),
    rule("hint-of-dedicated-cpus", idle::dedicated,
        "That a host which promises a CPU of its own for each vCPU steals less than 2 %.",
        "Linux: Documentation/virt/kvm/x86/cpuid.rst (KVM_HINTS_REALTIME), \
         arch/x86/kernel/kvm.c"),
    rule("coarse-timers", idle::coarse_timers,
        "That the kernel was built with high-resolution timers: else they fire at ticks.",
        "Linux: Documentation/timers/highres.rst"),
    rule("guest-halt-polling", idle::guest_halt_polling,
        "Whether an idle CPU of a KVM guest polls before it halts.",
        "Linux: Documentation/virt/guest-halt-polling.rst, drivers/cpuidle/cpuidle-haltpoll.c"),
    rule("host-halt-polling", idle::host_halt_polling,
        "Whether KVM, on a host, polls for a halted vCPU's next interrupt.",
        "Linux: Documentation/virt/kvm/halt-polling.rst"),
    rule("dear-exits", idle::dear_exits,
        "Whether a KVM host flushes the L1 data cache at each entry of a guest.",
        "Linux: Documentation/admin-guide/hw-vuln/l1tf.rst"),
    rule("read-cost", cost::out_of_line,
        "That reading the clock costs what its source usually costs.",
        "Parachron: docs/measurements, and redis/redis#10604 for EC2"),
    rule("offset-miscast", alarms::miscast,
        "That the kernel's clock offset is not 2^32 ns too large, as one of 4.29 s is that \
         monitoring shows.",
        "Linux: kernel/time/ntp.c (f5807b0606da); prometheus/node_exporter#3764"),
    rule("offset-alarm-blind", alarms::blind,
        "That the offset which node_exporter shows is one that the time daemon sets.",
        "pendulum-project/ntpd-rs#2202; prometheus/node_exporter#2445"),
    rule("rtc-local-time", rtc::local_time,
        "That the RTC holds UTC.",
        "hwclock(8), /etc/adjtime"),
    rule("rtc-off", rtc::off,
        "That the RTC is within a minute of the system clock.",
        "hwclock(8); Linux: drivers/rtc/class.c (rtc_hctosys)"),
    rule("rtc-missing", rtc::missing,
        "That the machine has an RTC, or another time of day at boot.",
        "Linux: arch/x86/kernel/kvmclock.c (kvm_get_wallclock), drivers/rtc/class.c"),
    rule("pauses-seen", restore::pauses,
        "Whether the machine was restored from a snapshot or slept in the last 24 h.",
        "Linux: drivers/virt/vmgenid.c, drivers/char/random.c, kernel/power/suspend.c"),
    rule("vmclock-status", restore::vmclock,
        "That the status of a VMClock page, where the host offers one, is reliable.",
        "Linux: include/uapi/linux/vmclock-abi.h, drivers/ptp/ptp_vmclock.c"),
    rule("tsc-firmware", tsc::firmware,
        "Whether the kernel log reports that the firmware set up the TSC wrongly.",
        "Linux: arch/x86/kernel/tsc_sync.c, arch/x86/kernel/cpu/amd.c"),
    rule("tai-offset", leap::tai,
        "That the TAI offset is set, where a daemon runs that can set it.",
        "clock_gettime(2) (CLOCK_TAI), adjtimex(2)"),
];

const fn rule(
    name: &'static str,
    check: fn(&Case<'_>) -> Check,
    checks: &'static str,
    source: &'static str,
) -> Rule {
    Rule { name, checks, source, check }
}
