//! Each cause in words: what, why, source.

use instruments::figures::{three_digits, time};
use instruments::latency::Latency;
use instruments::latency::cause::LatenessCause;
use instruments::latency::proof::Proven;

use crate::case::Case;
use crate::finding::{Finding, Severity};

/// A comparison that proves a cause, in a line.
pub(super) fn comparison(found: &Latency, proven: &Proven) -> String {
    let (with, without) = (time(proven.with_ns), time(proven.without_ns));
    let conditions = &found.conditions;
    match proven.cause {
        LatenessCause::TimerSlack => format!(
            "timer wake-up: median {with} late with the inherited slack of {}, {without} with 1 ns",
            time(conditions.inherited_slack_ns.unwrap_or(0) as f64)
        ),
        LatenessCause::IdleExit => {
            format!("timer wake-up: median {with} late, {without} while a loop keeps the CPU awake")
        }
        LatenessCause::HaltPolling => {
            let limit = found.sweep.as_ref().and_then(|sweep| sweep.limit);
            let gap = time(limit.map_or(0.0, |limit| limit.ns));
            format!(
                "wake-ups are {without} late after idle gaps up to {gap}, {with} after longer ones"
            )
        }
        LatenessCause::Placement => {
            let apart =
                conditions.pair.map_or("", |pair| match (pair.same_core, pair.same_socket) {
                    (Some(true), _) => " (threads of one core)",
                    (_, Some(false)) => " (in different sockets)",
                    _ => "",
                });
            format!("pipe round trip: {with} across two CPUs{apart}, {without} on one")
        }
        LatenessCause::CoarseTimers => format!(
            "clock_getres(CLOCK_MONOTONIC): {}; timer wake-up: {with} late",
            time(conditions.resolution_ns.unwrap_or(0) as f64)
        ),
        LatenessCause::Frequency | LatenessCause::Neighbour => {
            let share = conditions.speed.map_or(0.0, |speed| speed.slow_share) * 100.0;
            format!(
                "one loop iteration: {without} at full speed, {with} for {} % of the time",
                three_digits(share)
            )
        }
        LatenessCause::DearExits => format!("CPUID: {with}; a KVM host serves it in 0.5 to 2.5 µs"),
        LatenessCause::SlowClock => {
            format!("clock_gettime(CLOCK_MONOTONIC): {with} a read; through the vDSO 20 to 80 ns")
        }
        _ => format!("{with} against {without}"),
    }
}

/// The finding of a cause, without its evidence.
pub(super) fn finding(case: &Case<'_>, cause: LatenessCause, severity: Severity) -> Finding {
    let (what, why, source) = words(case, cause);
    let finding = Finding::new(severity, what).explain(why);
    Finding { rule: format!("late-{}", cause.name()), source: source.to_owned(), ..finding }
}

/// What, why, and the source.
fn words(case: &Case<'_>, cause: LatenessCause) -> (&'static str, &'static str, &'static str) {
    let guest = case.is_guest() != Some(false);
    match cause {
        LatenessCause::Stolen => (
            "The host ran something else on this machine's CPUs",
            "A vCPU is a thread of the host, which competes with other guests and the host's own \
             work. While the vCPU waits, nothing on it runs, whatever its priority.",
            "Linux: Documentation/virt/kvm/x86/msr.rst (MSR_KVM_STEAL_TIME), \
             kernel/sched/core.c (update_rq_clock_task)",
        ),
        LatenessCause::Quota => (
            "A CPU quota stopped this program",
            "Once the threads of a control group have used up their quota, none of them runs until \
             the next period begins (the period is usually 100 ms).",
            "Linux: Documentation/scheduler/sched-bwc.rst",
        ),
        LatenessCause::RunQueue => (
            "Other threads of this machine used the CPU",
            "More threads want to run than there are CPUs. A thread that wakes up, or has used up \
             its time slice, waits for some milliseconds.",
            "Linux: Documentation/scheduler/sched-stats.rst (run_delay)",
        ),
        LatenessCause::Stopped => (
            "The process was stopped and continued",
            "A debugger, a shell's job control or `kill -STOP` sent SIGSTOP.",
            "signal(7), SIGSTOP and SIGCONT",
        ),
        LatenessCause::Interrupts => (
            "Interrupts took the CPU",
            "Each interrupt costs microseconds; in a virtual machine its delivery may cost an exit \
             too. Function-call interrupts and TLB shootdowns come from this machine's other CPUs.",
            "/proc/interrupts; Linux: Documentation/core-api/irq/irq-affinity.rst",
        ),
        LatenessCause::Softirqs => (
            "Softirqs of network or block devices took the CPU",
            "The work that a device's interrupt handler defers runs before any thread, on the CPU \
             that took the interrupt.",
            "/proc/softirqs; Linux: kernel/softirq.c",
        ),
        LatenessCause::Tick => (
            "The kernel's periodic tick interrupts a running loop",
            "A CPU that runs a thread takes 100 to 1000 ticks a second, and in a virtual machine \
             each may exit to the host twice.",
            "Linux: Documentation/timers/no_hz.rst",
        ),
        LatenessCause::Smi => (
            "The firmware took the CPU (system management interrupts)",
            "While the firmware runs, no operating system runs, and none can prevent it.",
            "Intel SDM volume 4, MSR_SMI_COUNT; Linux: Documentation/trace/hwlat_detector.rst",
        ),
        LatenessCause::Hidden if guest => (
            "The CPU was away, and no counter shows why",
            "No interrupt, no other thread and no steal time explains it: the host handled an \
             exit, or ran other guests without reporting it (no steal clock).",
            "Linux: Documentation/virt/kvm/x86/cpuid.rst (KVM_FEATURE_STEAL_TIME)",
        ),
        LatenessCause::Hidden => (
            "The CPU was away, and no counter shows why",
            "No interrupt and no other thread explains the gap. The most frequent causes are the \
             firmware (SMI) and machine checks.",
            "Linux: Documentation/trace/hwlat_detector.rst",
        ),
        LatenessCause::Unexplained => (
            "Late, and no counter proves a cause",
            "The thread did not wait for a CPU, and none of the counters explains the delay alone: \
             idle states, an interrupt, the host or the firmware may.",
            "Linux: Documentation/tools/rtla/rtla-timerlat.rst",
        ),
        other => lasting_words(guest, other),
    }
}

/// The same for causes that comparisons prove.
fn lasting_words(guest: bool, cause: LatenessCause) -> (&'static str, &'static str, &'static str) {
    match cause {
        LatenessCause::IdleExit if guest => (
            "Wake-ups are late because the CPU has to leave its halt",
            "An idle vCPU exits to the host, which has to notice the timer or another CPU's \
             signal, run the vCPU's thread again and enter the guest.",
            "Linux: Documentation/virt/guest-halt-polling.rst",
        ),
        LatenessCause::IdleExit => (
            "Wake-ups are late because the CPU has to leave a C-state",
            "The deeper the idle state, the longer it takes to leave it: 1 to 200 µs.",
            "Linux: Documentation/admin-guide/pm/cpuidle.rst",
        ),
        LatenessCause::HaltPolling => (
            "After a certain idle time the host gives the CPU away",
            "Until then the host polls for the vCPU's next interrupt and resumes it quickly; after \
             that the vCPU's thread has to be scheduled again.",
            "Linux: Documentation/virt/kvm/halt-polling.rst (halt_poll_ns)",
        ),
        LatenessCause::TimerSlack => (
            "Timers may fire late by the inherited slack",
            "Each thread inherits its timer slack from its parent (50 µs unless a program changed \
             it), and the kernel uses the slack to bundle wake-ups. Threads with real-time \
             priority have no slack.",
            "prctl(2), PR_SET_TIMERSLACK",
        ),
        LatenessCause::CoarseTimers => (
            "Timers fire only on ticks",
            "Without high-resolution timers a sleep ends on the first tick after it is due.",
            "Linux: Documentation/timers/highres.rst",
        ),
        LatenessCause::Placement => (
            "Two processes that alternate are quicker on one CPU",
            "Across CPUs each turn wakes an idle CPU with an interrupt, and its caches are cold. \
             The scheduler decides where the two run; the run time varies by this factor from run \
             to run.",
            "UnixBench (context1); Linux: Documentation/virt/guest-halt-polling.rst",
        ),
        LatenessCause::Frequency => (
            "The CPU is slower after an idle period",
            "Its frequency rises only after it has been busy for a while.",
            "Linux: Documentation/admin-guide/pm/cpufreq.rst",
        ),
        LatenessCause::Neighbour => (
            "The CPU's speed changes while it runs",
            "The other thread of its core is busy (this machine's or another guest's), or the \
             processor is too hot.",
            "Linux: Documentation/admin-guide/hw-vuln/core-scheduling.rst",
        ),
        LatenessCause::SlowClock => (
            "Reading the clock is slow",
            "Every timeout, every log line and every figure above includes it.",
            "Linux: kernel/time/clocksource.c",
        ),
        LatenessCause::DearExits => (
            "Exits to the host are expensive",
            "A hypervisor that is itself a guest has each exit handled at least twice, and \
             mitigations flush caches and branch predictors each time.",
            "Linux: Documentation/virt/kvm/x86/nested-vmx.rst, \
             Documentation/admin-guide/hw-vuln/l1tf.rst",
        ),
        _ => (
            "The peer's replies vary",
            "The peer's host, the network in between, or the peer's own CPU. The other figures \
             show what this machine adds.",
            "RFC 2681",
        ),
    }
}
