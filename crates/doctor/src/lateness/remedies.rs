//! What to do about each cause of lateness.

use facts::cpu::HypervisorKind;
use instruments::figures::whole_time;
use instruments::latency::cause::LatenessCause;

use crate::case::Case;
use crate::finding::Remedy;
use crate::remedies;

/// The remedies of a cause, best first.
pub(super) fn for_cause(case: &Case<'_>, cause: LatenessCause) -> Vec<Remedy> {
    let guest = case.is_guest() != Some(false);
    let advice = Remedy::advice;
    let command = |what: &str, command: &str| Remedy::command(what, command);
    match cause {
        LatenessCause::Stolen => vec![advice(
            "Run fewer vCPUs than CPUs on the host, or dedicate CPUs to this guest. In a cloud, \
             use an instance type that is not burstable.",
        )],
        LatenessCause::Quota => vec![
            // The root group has no such line.
            command(
                "Find the control group that is throttled.",
                "grep -rH throttled_usec /sys/fs/cgroup --include=cpu.stat",
            ),
            advice(
                "Raise or remove its quota (systemd: CPUQuota=; Kubernetes: limits.cpu), or run \
                 fewer threads in the group.",
            )
            .changes("the CPU time that the group may take from others"),
        ],
        LatenessCause::RunQueue => vec![
            advice("Give the late program a dedicated CPU (taskset, cpusets), or add CPUs."),
            command("Or give it real-time priority.", "sudo chrt --fifo 10 PROGRAM")
                .changes("a program that never sleeps then starves all others on that CPU"),
            remedies::add_parameter(case, "preempt=full"),
        ],
        LatenessCause::Stopped => vec![advice(
            "Find out what stops it: a debugger, `kill -STOP`, or a shell's job control.",
        )],
        LatenessCause::Interrupts | LatenessCause::Softirqs => vec![
            command(
                "Find out which interrupts.",
                "watch -d -n 1 cat /proc/interrupts /proc/softirqs",
            ),
            advice(
                "Move devices' interrupts to CPUs on which nothing urgent runs \
                 (/proc/irq/N/smp_affinity).",
            )
            .changes("the CPU that serves the device, until the next boot"),
        ],
        LatenessCause::Tick => vec![remedies::add_parameter(case, "nohz_full=1-N")],
        LatenessCause::Smi | LatenessCause::Hidden if !guest => vec![command(
            "Watch for them; then check the firmware's settings and updates.",
            "sudo hwlatdetect --duration=60",
        )],
        LatenessCause::Smi | LatenessCause::Hidden => {
            vec![advice(
                "Ask the host's operator to offer steal time (KVM_FEATURE_STEAL_TIME), which would \
                 show it.",
            )]
        }
        LatenessCause::Unexplained => vec![command(
            "Trace the kernel while it happens, to see which step of a wake-up takes the time.",
            "sudo rtla timerlat top",
        )],
        other => of_lasting(case, guest, other),
    }
}

/// Those of causes that comparisons prove.
fn of_lasting(case: &Case<'_>, guest: bool, cause: LatenessCause) -> Vec<Remedy> {
    let advice = Remedy::advice;
    let command = |what: &str, command: &str| Remedy::command(what, command);
    match cause {
        LatenessCause::IdleExit | LatenessCause::HaltPolling if guest => idle_of_a_guest(case),
        LatenessCause::IdleExit | LatenessCause::HaltPolling => vec![
            command(
                "Allow only shallow C-states.",
                "sudo cpupower idle-set --disable-by-latency 2",
            )
            .changes("higher power consumption and less turbo, until the next boot"),
        ],
        LatenessCause::TimerSlack => vec![
            advice("Call prctl(PR_SET_TIMERSLACK, 1) in the threads of the late program.")
                .changes("more wake-ups, because the kernel bundles fewer of them"),
        ],
        LatenessCause::CoarseTimers => vec![
            remedies::remove_parameter(case, "highres=off"),
            advice(
                "Or use a kernel with CONFIG_HIGH_RES_TIMERS and a clock source that supports it \
                 (tsc, kvm-clock, hpet, acpi_pm).",
            ),
        ],
        LatenessCause::Placement => vec![
            command("Keep processes that alternate on one CPU.", "taskset -c 1 PROGRAM")
                .changes("they share that CPU, although they could run in parallel"),
        ],
        LatenessCause::Frequency => vec![
            command("Keep the frequency high.", "sudo cpupower frequency-set -g performance")
                .changes("more power, until the next boot; in a guest the host decides"),
        ],
        LatenessCause::Neighbour => vec![advice(
            "Leave the core's other thread idle, or have the host give whole cores to one guest.",
        )],
        LatenessCause::SlowClock => {
            vec![command("Find out which clock source is better, and switch.", "parachron doctor")]
        }
        LatenessCause::DearExits => vec![advice(
            "Run it at the first level of virtualization, on a bare-metal instance, or avoid \
             exits: fewer timers, polling drivers, a clock read without an exit.",
        )],
        _ => vec![advice(
            "Run parachron latency on the peer at the same time to see how much of the delay is on \
             its side.",
        )],
    }
}

/// What ends idle sooner in a guest, cheapest first.
fn idle_of_a_guest(case: &Case<'_>) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    // As the rest of the doctor tells x86 from others.
    let is_x86 = case.facts.cpu.flags.is_known_and(|flags| flags.tsc);
    if case.kind() == Some(HypervisorKind::Kvm) {
        // Twice what it polls now; 200 us is the module's own choice.
        let now_ns = case.facts.idle.guest_halt_poll_ns.value().copied().unwrap_or(0);
        let polls_ns = now_ns.saturating_mul(2).max(200_000);
        let file = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
        remedies.push(
            Remedy::command(
                "Let the guest poll before it halts.",
                format!("echo {polls_ns} | sudo tee {file}"),
            )
            .changes(format!(
                "up to {} of a CPU each time it goes idle, until the next boot; needs the cpuidle \
                 driver haltpoll",
                whole_time(polls_ns)
            )),
        );
        // Twice KVM_HALT_POLL_NS_DEFAULT (arch/x86 and arch/arm64, asm/kvm_host.h).
        let host_ns = if is_x86 { 400_000 } else { 1_000_000 };
        remedies.push(
            Remedy::command(
                "Or let the host poll for longer, unless it already does: on the host,",
                format!("echo {host_ns} | sudo tee /sys/module/kvm/parameters/halt_poll_ns"),
            )
            .changes(
                "the CPU time that the host spends on all its guests, until the host's next boot",
            ),
        );
    }
    if is_x86 {
        remedies.push(
            remedies::add_parameter(case, "idle=poll")
                .changes("each idle CPU then uses all of one of the host's CPUs"),
        );
    }
    if remedies.is_empty() {
        remedies.push(Remedy::advice(
            "Ask the host's operator for longer polling before a halt \
             (/sys/module/kvm/parameters/halt_poll_ns).",
        ));
    }
    remedies
}
