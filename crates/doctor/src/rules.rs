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

use crate::rule::Rule;

/// Every rule; within a severity, findings are reported in this order, causes
/// before consequences.
pub const RULES: &[Rule] = &[
    Rule {
        name: "clock-sources-readable",
        checks: "That the kernel lists its clock sources: without them most rules cannot check.",
        source: "Linux: kernel/time/clocksource.c (current_clocksource, available_clocksource)",
        check: clocksource::readable,
    },
    Rule {
        name: "clock-order",
        checks: "That no clock went backward in the measurement.",
        source: "clock_gettime(2)",
        check: cost::order,
    },
    Rule {
        name: "tsc-frequency",
        checks: "That all sources of the TSC's frequency agree: the kernel's log, CPUID, the \
                 kvm-clock page, and a measurement where the clock source is not the TSC. \
                 Limits: 100 ppm (page), 500 ppm (measured), 1 % (CPUID).",
        source: "Linux: arch/x86/kernel/tsc.c, arch/x86/kernel/pvclock.c (pvclock_tsc_khz)",
        check: tsc::frequency,
    },
    Rule {
        name: "counter-frequency",
        checks: "On arm64: that the counter's frequency is still what the kernel read at boot: the \
                 register CNTFRQ_EL0, the kernel's log, and the clock itself, to 100 ppm.",
        source: "Arm Architecture Reference Manual, the Generic Timer; Linux: \
                 drivers/clocksource/arm_arch_timer.c (arch_timer_get_cntfrq)",
        check: generic_timer::frequency,
    },
    Rule {
        name: "tsc-across-cpus",
        checks: "That the CPUs' TSCs (arm64: counters) agree, to 100 ns beyond the measurement's bound.",
        source: "Linux: arch/x86/kernel/tsc_sync.c",
        check: tsc::across_cpus,
    },
    Rule {
        name: "slow-clocksource",
        checks: "That the clock source is not hpet, acpi_pm, pit, jiffies, Hyper-V's MSR, or xen \
                 by system calls; whether a better one is available, and safe.",
        source: "Linux: kernel/time/clocksource.c, drivers/clocksource/acpi_pm.c, \
                 arch/x86/kernel/hpet.c, arch/x86/xen/time.c. ClickHouse and Redis warn of \
                 it: ClickHouse/ClickHouse#41111, redis/redis#10636",
        check: clocksource::slow,
    },
    Rule {
        name: "tsc-marked-unstable",
        checks: "Whether the kernel marked the TSC unstable, and why by the log's figures: a \
                 wrong rate, a counter set back, a pause, a wrapped or late comparison.",
        source: "Linux: kernel/time/clocksource.c (clocksource_watchdog), arch/x86/kernel/tsc.c",
        check: unstable::marked,
    },
    Rule {
        name: "watchdog-late",
        checks: "Whether the kernel's check of the clock source was late or skipped in the last 24 h.",
        source: "Linux: kernel/time/clocksource.c (cs_watchdog_read, watchdog_check_freq)",
        check: unstable::late,
    },
    Rule {
        name: "tsc-trapped",
        checks: "That the CPU executes RDTSC (arm64: reads of CNTVCT_EL0) and the hypervisor does \
                 not emulate it: under 250 ns.",
        source: "Linux: Documentation/virt/kvm/x86/timekeeping.rst; xen-tscmode(7)",
        check: cost::trapped,
    },
    Rule {
        name: "kvm-clock-not-stable",
        checks: "That under kvm-clock the host flags its TSC as stable, so that programs can read \
                 the page themselves.",
        source: "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/msr.rst",
        check: kvm::not_stable,
    },
    Rule {
        name: "reads-enter-kernel",
        checks: "That programs read a source that needs no system call without one.",
        source: "Linux: lib/vdso/gettimeofday.c; vdso(7)",
        check: cost::enter_kernel,
    },
    Rule {
        name: "clock-before-build",
        checks: "That the time of day, now and at boot, is after the kernel was built.",
        source: "proc_sys_kernel(5) (version), proc_stat(5) (btime); Linux: \
                 drivers/rtc/class.c (rtc_hctosys)",
        check: start::before_build,
    },
    Rule {
        name: "frequency-correction",
        checks: "The frequency correction of the clock: from 200 ppm the frequency is wrong, from \
                 490 of the kernel's 500 ppm the daemon cannot hold it.",
        source: "Linux: include/linux/timex.h (MAXFREQ); adjtimex(2)",
        check: discipline::frequency,
    },
    Rule {
        name: "clock-offset",
        checks: "The clock's offset: from 0.1 s a warning, from 1 s an error.",
        source: "adjtimex(2), chronyc(1) tracking",
        check: discipline::offset,
    },
    Rule {
        name: "phc-time-scale",
        checks: "That chronyd takes each PTP clock of a hypervisor for what its driver counts: \
                 UTC, or TAI, 37 s ahead.",
        source: "chrony.conf(5) (refclock, tai, offset); Linux: drivers/ptp/ptp_vmclock.c, \
                 drivers/virtio/virtio_rtc_ptp.c",
        check: sources::time_scale,
    },
    Rule {
        name: "snapshot-restore",
        checks: "On platforms that save and restore their guests: what a restore does to this \
                 clock, and whether chronyd corrects it by the host's clock.",
        source: "Firecracker: docs/snapshotting; Linux: Documentation/virt/kvm/api.rst \
                 (KVM_SET_CLOCK)",
        check: restore::snapshots,
    },
    Rule {
        name: "clock-steered",
        checks: "That a time daemon disciplines the clock, and has a time source.",
        source: "adjtimex(2) (STA_UNSYNC), chronyc(1) tracking",
        check: steering::steered,
    },
    Rule {
        name: "makestep-limited",
        checks: "That chronyd may step the clock at any time on a machine that is paused, saved \
                 or moved; a note where nothing of that was seen in the last 24 h.",
        source: "chrony FAQ (makestep); chrony.conf(5)",
        check: stepping::limited,
    },
    Rule {
        name: "mixed-leap-smear",
        checks: "That chronyd's sources agree on leap seconds: none smears them, or all do.",
        source: "AWS: Set the time reference on your EC2 instance; Google: Configure NTP on a \
                 VM; chrony FAQ (leap smear)",
        check: sources::mixed,
    },
    Rule {
        name: "host-clock-unused",
        checks: "That chronyd uses the host's clock where that is here as a PTP device.",
        source: "Azure: Time sync for Linux VMs; Google: Configure accurate time; AWS: Set the \
                 time reference on your EC2 instance",
        check: sources::unused,
    },
    Rule {
        name: "one-daemon",
        checks: "That no two time daemons discipline the same clock.",
        source: "chrony FAQ; systemd-timesyncd.service(8)",
        check: steering::one_daemon,
    },
    Rule {
        name: "guest-tools",
        checks: "That guest tools do not set the clock while a time daemon disciplines it.",
        source: "VirtualBox manual: Guest Additions time synchronization; Linux: \
                 drivers/hv/hv_util.c",
        check: steering::guest_tools,
    },
    Rule {
        name: "error-bound",
        checks: "That a daemon corrected the clock within the last 83 minutes: the kernel's error \
                 bound is under 2.5 s.",
        source: "Linux: kernel/time/ntp.c (second_overflow)",
        check: discipline::error_bound,
    },
    Rule {
        name: "leap-second",
        checks: "Whether a leap second is scheduled for the end of this day, and not past.",
        source: "Linux: kernel/time/ntp.c (second_overflow); IERS Bulletin C",
        check: leap::armed,
    },
    Rule {
        name: "kvm-clock-missing",
        checks: "That a KVM guest has kvm-clock; if not, whether the host, a kernel parameter or \
                 the kernel's configuration is the cause.",
        source: "Linux: arch/x86/kernel/kvmclock.c, Documentation/virt/kvm/x86/cpuid.rst",
        check: kvm::missing,
    },
    Rule {
        name: "kvm-host-clock",
        checks: "On a KVM host: that guests get one stable clock.",
        source: "Linux: arch/x86/kvm/x86.c (pvclock_update_vm_gtod_copy)",
        check: kvm::host,
    },
    Rule {
        name: "tsc-not-constant",
        checks: "That a TSC which is the clock, or which a KVM host gives to guests, keeps its \
                 rate in all states (constant_tsc, nonstop_tsc).",
        source: "Intel SDM volume 3, Invariant TSC; Linux: drivers/acpi/processor_idle.c",
        check: tsc::not_constant,
    },
    Rule {
        name: "virtualbox-provider",
        checks: "That VirtualBox gives a Linux guest the paravirtualisation provider kvm.",
        source: "VirtualBox manual: Paravirtualization Providers",
        check: hypervisors::virtualbox,
    },
    Rule {
        name: "hyperv-clock",
        checks: "That under Hyper-V the reference TSC page is available.",
        source: "Hyper-V TLFS: Partition Reference TSC; Linux: \
                 drivers/clocksource/hyperv_timer.c",
        check: hypervisors::hyperv,
    },
    Rule {
        name: "software-emulation",
        checks: "That software does not emulate the CPU instruction by instruction.",
        source: "QEMU: system emulation, accelerators",
        check: hypervisors::emulated,
    },
    Rule {
        name: "clocksource-not-used",
        checks: "That the clock source requested on the kernel's command line is in use.",
        source: "Linux: Documentation/admin-guide/kernel-parameters.txt (clocksource=)",
        check: clocksource::requested,
    },
    Rule {
        name: "harmful-parameters",
        checks: "Kernel parameters about time that do harm on this kind of machine: notsc, \
                 tsc=, no-kvmclock, no-kvmclock-vsyscall, nopv, nohz=off, highres=off, idle=, \
                 lpj=, nolapic_timer.",
        source: "Linux: Documentation/admin-guide/kernel-parameters.txt, \
                 arch/x86/kernel/tsc.c, arch/x86/kernel/kvmclock.c",
        check: parameters::harmful,
    },
    Rule {
        name: "obsolete-parameters",
        checks: "Kernel parameters about time that today's kernels ignore or know by another \
                 name: clock=, clocksource_failover=, divider=, xen.independent_wallclock.",
        source: "Linux: Documentation/admin-guide/kernel-parameters.txt, \
                 kernel/time/clocksource.c (boot_override_clock)",
        check: parameters::obsolete,
    },
    Rule {
        name: "steal-time",
        checks: "CPU time stolen by the host, just now and since boot: from 2 % a note, from 5 % \
                 just now a warning; since boot counts alone where nothing was measured, and under \
                 Xen never beside a measurement.",
        source: "Linux: Documentation/virt/kvm/x86/msr.rst (MSR_KVM_STEAL_TIME); proc_stat(5)",
        check: steal::steal,
    },
    Rule {
        name: "stalls",
        checks: "Whether the kernel reported stalled CPUs in the last 24 h: soft lockups, RCU \
                 stalls, a timer interrupt of 0.1 s and more.",
        source: "Linux: kernel/watchdog.c, kernel/time/hrtimer.c (hrtimer_interrupt)",
        check: steal::stalls,
    },
    Rule {
        name: "hint-of-dedicated-cpus",
        checks: "That a host which promises a CPU of its own for each vCPU steals less than 2 %.",
        source: "Linux: Documentation/virt/kvm/x86/cpuid.rst (KVM_HINTS_REALTIME), \
                 arch/x86/kernel/kvm.c",
        check: idle::dedicated,
    },
    Rule {
        name: "coarse-timers",
        checks: "That the kernel was built with high-resolution timers: else they fire at ticks.",
        source: "Linux: Documentation/timers/highres.rst",
        check: idle::coarse_timers,
    },
    Rule {
        name: "guest-halt-polling",
        checks: "Whether an idle CPU of a KVM guest polls before it halts.",
        source: "Linux: Documentation/virt/guest-halt-polling.rst, drivers/cpuidle/cpuidle-haltpoll.c",
        check: idle::guest_halt_polling,
    },
    Rule {
        name: "host-halt-polling",
        checks: "Whether KVM, on a host, polls for a halted vCPU's next interrupt.",
        source: "Linux: Documentation/virt/kvm/halt-polling.rst",
        check: idle::host_halt_polling,
    },
    Rule {
        name: "dear-exits",
        checks: "Whether a KVM host flushes the L1 data cache at each entry of a guest.",
        source: "Linux: Documentation/admin-guide/hw-vuln/l1tf.rst",
        check: idle::dear_exits,
    },
    Rule {
        name: "read-cost",
        checks: "That reading the clock costs what its source usually costs.",
        source: "Parachron: docs/measurements, and redis/redis#10604 for EC2",
        check: cost::out_of_line,
    },
    Rule {
        name: "offset-miscast",
        checks: "That the kernel's clock offset is not 2^32 ns too large, as one of 4.29 s is \
                 that monitoring shows.",
        source: "Linux: kernel/time/ntp.c (f5807b0606da); prometheus/node_exporter#3764",
        check: alarms::miscast,
    },
    Rule {
        name: "offset-alarm-blind",
        checks: "That the offset which node_exporter shows is one that the time daemon sets.",
        source: "pendulum-project/ntpd-rs#2202; prometheus/node_exporter#2445",
        check: alarms::blind,
    },
    Rule {
        name: "rtc-local-time",
        checks: "That the RTC holds UTC.",
        source: "hwclock(8), /etc/adjtime",
        check: rtc::local_time,
    },
    Rule {
        name: "rtc-off",
        checks: "That the RTC is within a minute of the system clock.",
        source: "hwclock(8); Linux: drivers/rtc/class.c (rtc_hctosys)",
        check: rtc::off,
    },
    Rule {
        name: "rtc-missing",
        checks: "That the machine has an RTC, or another time of day at boot.",
        source: "Linux: arch/x86/kernel/kvmclock.c (kvm_get_wallclock), drivers/rtc/class.c",
        check: rtc::missing,
    },
    Rule {
        name: "pauses-seen",
        checks: "Whether the machine was restored from a snapshot or slept in the last 24 h.",
        source: "Linux: drivers/virt/vmgenid.c, drivers/char/random.c, kernel/power/suspend.c",
        check: restore::pauses,
    },
    Rule {
        name: "vmclock-status",
        checks: "That the status of a VMClock page, where the host offers one, is reliable.",
        source: "Linux: include/uapi/linux/vmclock-abi.h, drivers/ptp/ptp_vmclock.c",
        check: restore::vmclock,
    },
    Rule {
        name: "tsc-firmware",
        checks: "Whether the kernel log reports that the firmware set up the TSC wrongly.",
        source: "Linux: arch/x86/kernel/tsc_sync.c, arch/x86/kernel/cpu/amd.c",
        check: tsc::firmware,
    },
    Rule {
        name: "tai-offset",
        checks: "That the TAI offset is set, where a daemon runs that can set it.",
        source: "clock_gettime(2) (CLOCK_TAI), adjtimex(2)",
        check: leap::tai,
    },
];
