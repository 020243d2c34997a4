//! The facts as rules ask for them: known, absent, or unknown and why.

use std::collections::{BTreeMap, BTreeSet};

use facts::cpu::{GenericTimer, Hypervisor, TscFlags};
use facts::hardware::{KvmHost, Phc, PvclockPage, RtcConvention, RtcDevice, VmClock};
use facts::kernel::{LogEvent, LogLine};
use facts::steering::chrony_config::ChronyConfig;
use facts::steering::ntp_config::NtpConfig;
use facts::steering::{Adjtimex, ChronyTracking, TimeKeeper};
use facts::{Fact, Unknown};

use super::Case;
use crate::rule::Skipped;

/// What a rule asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Facts that are known, or known not to be there: what the rule rests on.
    pub(crate) known: BTreeSet<&'static str>,
    /// Why others are unknown.
    pub(crate) unknown: BTreeSet<String>,
}

/// A method for each fact: the value, or that the machine has none, or why it is unknown.
/// `lacks`: whether a machine without that file or device simply has none.
macro_rules! ask {
    ($lacks:literal: $($name:ident: $type:ty = $($field:ident).+, $called:literal;)*) => {
        impl<'a> Case<'a> {$(
            pub(crate) fn $name(&self) -> Result<&'a $type, Skipped> {
                let fact = &self.facts.$($field).+;
                self.ask($lacks, $called, fact).map(|value| -> &'a $type { value })
            }
        )*}
    };
}

ask! { false:
    current: str = clocksources.current, "clock source";
    available: [String] = clocksources.available, "clock sources offered";
    cpu_model: str = cpu.model, "CPU's name";
    logical_cpus: u32 = cpu.logical_cpus, "number of CPUs";
    flags: TscFlags = cpu.flags, "CPU's flags";
    hypervisor: Hypervisor = cpu.hypervisor, "hypervisor's CPUID";
    generic_timer: GenericTimer = cpu.generic_timer, "generic timer";
    release: str = kernel.release, "kernel's release";
    built_s: i64 = kernel.built_s, "kernel's build date";
    command_line: [String] = kernel.command_line, "kernel's command line";
    configuration: BTreeMap<String, String> = kernel.configuration, "kernel's configuration";
    log: [LogLine] = kernel.log, "kernel log";
    adjtimex_given: Adjtimex = steering.adjtimex, "adjtimex";
    keepers: [TimeKeeper] = steering.keepers, "time daemons";
    chrony_file: ChronyConfig = steering.chrony_config, "chrony's configuration";
    unit_conditions: [String] = steering.unit_conditions, "units' conditions";
    offset_readers: [String] = steering.offset_readers, "monitoring programs";
    distribution: str = system.distribution, "/etc/os-release";
    boot_files: [String] = system.boot_files, "boot loader";
    uptime_s: f64 = load.uptime_s, "uptime";
    booted_at_s: i64 = load.booted_at_s, "time of the boot";
    steal_since_boot: f64 = load.steal_since_boot, "stolen time";
}

ask! { true:
    cpuid_tsc_hz: u64 = cpu.cpuid_tsc_hz, "TSC frequency in CPUID";
    ntp_configs: [NtpConfig] = steering.ntp_configs, "ntpd's and timesyncd's configuration";
    tracking: ChronyTracking = steering.chrony, "chronyc tracking";
    rtcs: [RtcDevice] = rtc.devices, "RTC";
    rtc_convention: RtcConvention = rtc.convention, "/etc/adjtime";
    rtc_minus_system_s: i64 = rtc.minus_system_s, "time of the RTC";
    phcs: [Phc] = phcs, "PTP clocks";
    vmclock: VmClock = vmclock, "VMClock page";
    pvclock_page: PvclockPage = pvclock_page, "kvm-clock page";
    kvm_host: KvmHost = kvm_host, "/dev/kvm";
    product: str = system.product, "DMI product";
    vendor: str = system.vendor, "DMI vendor";
    acpi_oem: str = system.acpi_oem, "ACPI's OEM";
    container: str = system.container, "container";
    generation_devices: [String] = system.generation_devices, "ACPI devices";
    idle_driver: str = idle.driver, "cpuidle driver";
    idle_governor: str = idle.governor, "cpuidle governor";
    guest_halt_poll_ns: u64 = idle.guest_halt_poll_ns, "guest_halt_poll_ns";
    halt_poll_ns: u64 = idle.halt_poll_ns, "halt_poll_ns";
    l1tf: str = idle.l1tf, "vulnerabilities/l1tf";
}

impl<'a> Case<'a> {
    /// Whether this is a log alone, of a kernel that found a hypervisor at boot.
    pub(super) fn is_logged_guest(&self) -> bool {
        let is_named = |line: &LogLine| line.text.starts_with("Hypervisor detected:");
        self.is_log_alone() && self.logged(|event| *event == LogEvent::Harmless).any(is_named)
    }

    fn ask<T>(
        &self,
        lacks: bool,
        called: &'static str,
        fact: &'a Fact<T>,
    ) -> Result<&'a T, Skipped> {
        let mut asked = self.asked.borrow_mut();
        match fact {
            Fact::Known(_) | Fact::Unknown(Unknown::NotApplicable { .. }) => {
                asked.known.insert(called);
            }
            Fact::Unknown(Unknown::NotThere { .. }) if lacks => drop(asked.known.insert(called)),
            // A log alone shows nothing else of its machine, and no rule of logs needs it.
            Fact::Unknown(Unknown::NotInLog) => {}
            Fact::Unknown(why) => drop(asked.unknown.insert(why.to_string())),
        }
        fact.as_result().map_err(Skipped::from)
    }

    /// The kernel's account, where a capture has its status and these fields.
    pub(crate) fn adjtimex_with(&self, fields: &[&str]) -> Result<&'a Adjtimex, Skipped> {
        self.adjtimex_of(&["status"])?;
        self.adjtimex_of(fields)
    }

    /// The kernel's account, where a capture has these fields.
    pub(crate) fn adjtimex_of(&self, fields: &[&str]) -> Result<&'a Adjtimex, Skipped> {
        let state = self.adjtimex_given()?;
        let lacking = fields.iter().find(|field| !state.gives(field));
        let Some(field) = lacking else { return Ok(state) };
        let why = format!("the capture's adjtimex lacks {field}");
        self.asked.borrow_mut().unknown.insert(why.clone());
        Err(Skipped::CouldNot(why))
    }

    /// The kernel's account, by its status.
    pub(crate) fn adjtimex(&self) -> Result<&'a Adjtimex, Skipped> {
        self.adjtimex_with(&[])
    }

    /// What was asked since the last call.
    pub(crate) fn take_asked(&self) -> Asked {
        self.asked.take()
    }
}
