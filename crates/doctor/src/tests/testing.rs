//! Machines for tests: healthy ones, to be made sick by small edits.

mod edits;
mod rule_text;

use facts::Facts;
use facts::clocksource::Clocksources;
use facts::cpu::Idle;
use facts::cpu::{Cpu, Hypervisor, HypervisorKind, KvmFeatures, TscFlags};
use facts::hardware::{KvmHost, Phc, Rtc, RtcConvention, RtcDevice};
use facts::kernel::{Kernel, LogEvent, LogLine};
use facts::steering::{
    Adjtimex, ChronyTracking, Steering, TimeKeeper, TimeKeeperKind, chrony_config,
};
use facts::system::{Load, System};
use facts::{Fact, Unknown};
use instruments::measurements::{CallCost, Measurements, Order, ReadPath, Skew, Spread, TscRate};

pub(crate) use self::edits::{boot_with, log, set_source, undisciplined, use_kvm_clock};
pub(crate) use self::rule_text::{could_not, finding_text, findings_of_rule, fine};

/// The frequency of the healthy machines' TSC.
pub(crate) const TSC_HZ: u64 = 2_600_000_000;

/// Why a test makes a fact unknown.
pub(crate) fn missing<T>(what: &str) -> Fact<T> {
    Fact::Unknown(Unknown::NotThere { what: what.into() })
}

/// Why a fact does not apply.
pub(crate) fn not_applicable<T>(why: &str) -> Fact<T> {
    Fact::Unknown(Unknown::NotApplicable { why: why.into() })
}

fn no_idle() -> Idle {
    Idle {
        driver: missing("current_driver"),
        governor: missing("current_governor_ro"),
        guest_halt_poll_ns: missing("guest_halt_poll_ns"),
        halt_poll_ns: missing("halt_poll_ns"),
        l1tf: missing("l1tf"),
    }
}

/// A QEMU/KVM guest with invariant TSC and chrony: nothing to find.
pub(crate) fn healthy_kvm_guest() -> Facts {
    Facts {
        clocksources: Clocksources {
            available: Fact::Known(words("tsc kvm-clock hpet acpi_pm")),
            current: Fact::Known("tsc".into()),
        },
        cpu: Cpu {
            model: Fact::Known("AMD EPYC 7763 64-Core Processor".into()),
            logical_cpus: Fact::Known(4),
            flags: Fact::Known(good_flags(true)),
            hypervisor: Fact::Known(Hypervisor {
                signature: "KVMKVMKVM".into(),
                kind: HypervisorKind::Kvm,
                kvm_features: Some(kvm_features(0x0100_7efb)),
                hyperv: None,
                xen: None,
            }),
            cpuid_tsc_hz: not_applicable("CPUID does not report it"),
            generic_timer: facts::cpu::not_arm64(),
        },
        kernel: kernel(),
        steering: disciplined_by_chrony(),
        rtc: rtc("rtc_cmos 00:04"),
        phcs: Fact::Known(Vec::new()),
        vmclock: missing("/dev/vmclock0"),
        pvclock_page: not_applicable("kvm-clock is not in use"),
        kvm_host: missing("/dev/kvm"),
        system: System {
            product: Fact::Known("Standard PC (Q35 + ICH9, 2009)".into()),
            vendor: Fact::Known("QEMU".into()),
            acpi_oem: Fact::Known("BOCHS".into()),
            distribution: Fact::Known("Debian GNU/Linux 12 (bookworm)".into()),
            container: not_applicable("not in a container"),
            generation_devices: Fact::Known(Vec::new()),
            boot_files: Fact::Known(words("/etc/default/grub")),
        },
        load: load(),
        idle: Idle {
            driver: Fact::Known("haltpoll".into()),
            governor: Fact::Known("haltpoll".into()),
            guest_halt_poll_ns: Fact::Known(200_000),
            ..no_idle()
        },
    }
}

/// A server that is a KVM host: nothing to find.
pub(crate) fn healthy_bare_metal() -> Facts {
    let mut facts = healthy_kvm_guest();
    facts.clocksources.available = Fact::Known(words("tsc hpet acpi_pm"));
    facts.cpu.flags = Fact::Known(good_flags(false));
    facts.cpu.hypervisor = not_applicable("bare metal");
    facts.cpu.cpuid_tsc_hz = Fact::Known(TSC_HZ);
    facts.idle = Idle {
        driver: Fact::Known("acpi_idle".into()),
        halt_poll_ns: Fact::Known(200_000),
        l1tf: Fact::Known("Not affected".into()),
        ..no_idle()
    };
    facts.kvm_host = Fact::Known(KvmHost {
        clock_ns: 12_345,
        flags: 0xe,
        tsc_hz: Some(TSC_HZ),
        tsc_scaling: true,
    });
    facts.system.product = Fact::Known("PowerEdge R6525".into());
    facts.system.vendor = Fact::Known("Dell Inc.".into());
    facts.system.acpi_oem = Fact::Known("DELL".into());
    facts.system.distribution = Fact::Known("Rocky Linux 9.4 (Blue Onyx)".into());
    facts.load.steal_since_boot = Fact::Known(0.0);
    facts
}

/// A Firecracker guest on kvm-clock that follows its host's PTP clock:
/// nothing to find, though it was restored from a snapshot.
pub(crate) fn healthy_firecracker() -> Facts {
    let mut facts = healthy_kvm_guest();
    facts.clocksources.available = Fact::Known(words("tsc kvm-clock"));
    use_kvm_clock(&mut facts, 0x1);
    facts.rtc.devices = missing("/sys/class/rtc");
    facts.rtc.convention = missing("/etc/adjtime");
    facts.rtc.minus_system_s = missing("/sys/class/rtc");
    facts.phcs = Fact::Known(vec![Phc {
        device: "/dev/ptp0".into(),
        clock_name: "KVM virtual PTP".into(),
        readable: true,
        link: None,
    }]);
    facts.system.product = missing("/sys/class/dmi/id/product_name");
    facts.system.vendor = missing("/sys/class/dmi/id/sys_vendor");
    facts.system.acpi_oem = Fact::Known("FIRECK".into());
    facts.steering.chrony_config = chrony_config::parse("refclock PHC /dev/ptp0\nmakestep 1 -1\n");
    facts.steering.chrony =
        Fact::Known(ChronyTracking { reference: "PHC0".into(), stratum: 1, ..tracking() });
    log(&mut facts, 1.325, "random: crng reseeded due to virtual machine fork", LogEvent::Restored);
    facts
}

/// A machine whose facts are all unreadable.
pub(crate) fn unreadable() -> Facts {
    Facts {
        clocksources: Clocksources {
            available: missing("/sys/devices/system/clocksource/clocksource0"),
            current: missing("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        },
        cpu: Cpu {
            model: missing("/proc/cpuinfo"),
            logical_cpus: missing("/proc/cpuinfo"),
            flags: missing("/proc/cpuinfo"),
            hypervisor: missing("CPUID"),
            cpuid_tsc_hz: missing("CPUID"),
            generic_timer: facts::cpu::not_arm64(),
        },
        kernel: Kernel {
            release: missing("/proc/sys/kernel/osrelease"),
            built_s: missing("/proc/sys/kernel/version"),
            command_line: missing("/proc/cmdline"),
            configuration: missing("/proc/config.gz"),
            log: Fact::Unknown(Unknown::NeedsRoot { what: "/dev/kmsg".into() }),
        },
        steering: Steering {
            adjtimex: missing("adjtimex"),
            keepers: missing("/proc"),
            chrony: missing("chronyc"),
            chrony_config: missing("/etc/chrony/chrony.conf"),
            ntp_configs: missing("/etc/ntp.conf"),
            unit_conditions: missing("units"),
            offset_readers: missing("/proc"),
        },
        rtc: Rtc {
            devices: Fact::Unknown(Unknown::Unreadable {
                what: "/sys/class/rtc".into(),
                error: "Input/output error".into(),
            }),
            convention: missing("/etc/adjtime"),
            minus_system_s: missing("/sys/class/rtc"),
        },
        phcs: missing("/sys/class/ptp"),
        vmclock: missing("/dev/vmclock0"),
        pvclock_page: missing("[vvar_vclock]"),
        kvm_host: missing("/dev/kvm"),
        system: System {
            product: missing("/sys/class/dmi/id/product_name"),
            vendor: missing("/sys/class/dmi/id/sys_vendor"),
            acpi_oem: missing("kernel log"),
            distribution: missing("/etc/os-release"),
            container: missing("/proc/1/environ"),
            generation_devices: missing("/sys/bus/acpi/devices"),
            boot_files: missing("parachron/boot-files"),
        },
        load: Load {
            uptime_s: missing("/proc/uptime"),
            booted_at_s: missing("/proc/stat"),
            load_average: missing("/proc/loadavg"),
            steal_since_boot: missing("/proc/stat"),
        },
        idle: no_idle(),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn good_flags(hypervisor: bool) -> TscFlags {
    TscFlags {
        tsc: true,
        constant_tsc: true,
        nonstop_tsc: true,
        tsc_known_freq: hypervisor,
        tsc_adjust: true,
        rdtscp: true,
        hypervisor,
        ..TscFlags::default()
    }
}

/// KVM's features from its register.
pub(crate) fn kvm_features(eax: u32) -> KvmFeatures {
    KvmFeatures {
        eax,
        clocksource: eax & 1 != 0,
        clocksource2: eax & 1 << 3 != 0,
        steal_time: eax & 1 << 5 != 0,
        clocksource_stable: eax & 1 << 24 != 0,
        realtime_hint: false,
    }
}

fn kernel() -> Kernel {
    let configuration =
        words("PARAVIRT PARAVIRT_CLOCK KVM_GUEST PTP_1588_CLOCK_KVM NO_HZ HIGH_RES_TIMERS");
    Kernel {
        release: Fact::Known("6.1.0-18-amd64".into()),
        // 1 February 2024, and a boot a year later.
        built_s: Fact::Known(1_706_745_600),
        command_line: Fact::Known(words("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet")),
        configuration: Fact::Known(
            configuration.into_iter().map(|option| (option, "y".to_owned())).collect(),
        ),
        log: Fact::Known(vec![
            LogLine {
                at_s: Some(0.000_070),
                text: "tsc: Detected 2600.000 MHz processor".into(),
                event: LogEvent::TscFrequency { hz: TSC_HZ, refined: false },
            },
            LogLine {
                at_s: Some(1.5),
                text: "clocksource: Switched to clocksource tsc".into(),
                event: LogEvent::Switched { to: "tsc".into() },
            },
        ]),
    }
}

/// chronyd's view of a healthy clock.
pub(crate) fn tracking() -> ChronyTracking {
    ChronyTracking {
        reference: "ntp1.example.org".into(),
        stratum: 3,
        system_offset_s: 12e-6,
        last_offset_s: -8e-6,
        rms_offset_s: 15e-6,
        frequency_ppm: 3.4,
        residual_frequency_ppm: 0.001,
        skew_ppm: 0.02,
        root_delay_s: 0.008,
        root_dispersion_s: 0.001,
        leap_status: "Normal".into(),
    }
}

fn disciplined_by_chrony() -> Steering {
    Steering {
        adjtimex: Fact::Known(Adjtimex {
            offset_ns: 0,
            miscast_offset_us: None,
            frequency_ppm: -3.4,
            max_error_us: 8_200,
            estimated_error_us: 120,
            status: Adjtimex::STA_NANO,
            tick_us: 10_000,
            tai_s: 37,
            state: 0,
            not_given: Vec::new(),
        }),
        keepers: Fact::Known(vec![keeper(TimeKeeperKind::Chrony, true)]),
        chrony: Fact::Known(tracking()),
        chrony_config: chrony_config::parse("pool 2.debian.pool.ntp.org iburst\nmakestep 1 3\n"),
        ntp_configs: missing("/etc/ntp.conf"),
        unit_conditions: Fact::Known(Vec::new()),
        offset_readers: Fact::Known(Vec::new()),
    }
}

/// A program that is installed, and may run.
pub(crate) fn keeper(kind: TimeKeeperKind, running: bool) -> TimeKeeper {
    TimeKeeper { running, ..TimeKeeper::installed(kind) }
}

fn rtc(name: &str) -> Rtc {
    Rtc {
        devices: Fact::Known(vec![RtcDevice {
            device: "rtc0".into(),
            name: name.into(),
            hctosys: true,
        }]),
        convention: Fact::Known(RtcConvention::Utc),
        minus_system_s: Fact::Known(0),
    }
}

fn load() -> Load {
    Load {
        uptime_s: Fact::Known(86_400.0),
        booted_at_s: Fact::Known(1_738_368_000),
        load_average: Fact::Known([0.1, 0.2, 0.2]),
        steal_since_boot: Fact::Known(0.001),
    }
}

/// A cost whose spread is narrow.
pub(crate) fn cost(call: &str, ns: f64, path: ReadPath) -> CallCost {
    CallCost {
        call: call.into(),
        ns: Spread { min: ns * 0.98, median: ns, p99: ns * 1.2, max: ns * 3.0 },
        cycles: None,
        samples: 500,
        calls_per_sample: 1000,
        outliers: 2,
        path,
        histogram: Vec::new(),
    }
}

/// What a quick measurement gives on a machine whose clock costs `clock_ns`.
pub(crate) fn measured(source: &str, clock_ns: f64, entered: u64) -> Measurements {
    Measurements {
        clocksource: Some(source.into()),
        costs: vec![
            cost("rdtsc", 8.6, ReadPath::Instruction),
            cost(
                "clock_gettime(CLOCK_MONOTONIC)",
                clock_ns,
                ReadPath::Counted { calls: 1000, entered },
            ),
        ],
        granularity: Vec::new(),
        skews: vec![Skew { cpu_a: 0, cpu_b: 1, offset_ns: 3.0, bound_ns: 40.0, round_trips: 2000 }],
        order: vec![Order {
            clock: "CLOCK_MONOTONIC".into(),
            readings: 100_000,
            backward: 0,
            largest_backward_ns: 0.0,
        }],
        tsc_rate: Some(TscRate { hz: TSC_HZ as f64 + 3.0, bound_ppm: 0.5, over_s: 0.5 }),
        ..Measurements::default()
    }
}

/// What a healthy machine on tsc measures.
pub(crate) fn measured_tsc() -> Measurements {
    measured("tsc", 23.0, 0)
}
