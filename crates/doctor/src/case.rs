//! One machine under examination: what rules read of its facts and figures.

mod asked;
mod setters;
pub(crate) mod trust;

use std::cell::{OnceCell, RefCell};

use facts::cpu::{HypervisorKind, Xen};
use facts::hardware::{Phc, PhcDriver, PhcTime};
use facts::kernel::version::KernelVersion;
use facts::kernel::{LogEvent, LogLine};
use facts::steering::Adjtimex;
use facts::{Fact, Facts, Unknown};
use instruments::figures;
use instruments::measurements::{CallCost, Measurements};

pub(crate) use self::asked::Asked;
use crate::rule::Skipped;

/// The call whose cost is the cost of reading the clock.
const CLOCK_CALL: &str = "clock_gettime(CLOCK_MONOTONIC)";

/// What the log reports of the machine's host counts for a day: long enough to
/// be seen by a daily look, and no longer, as it is in the log until the boot.
pub(crate) const RECENT_S: f64 = 86_400.0;

/// Beyond any drift of an RTC in a day, s; it resolves 1 s.
pub(crate) const FAR_S: i64 = 60;

/// A machine's facts, and what was measured on it. A rule reaches a fact by the methods here
/// alone, and each notes what it was asked: no rule ends in order with a fact unknown.
pub(crate) struct Case<'a> {
    facts: &'a Facts,
    measurements: Option<&'a Measurements>,
    asked: RefCell<Asked>,
    /// Whether the machine has slept, once a rule has asked.
    is_resumed: OnceCell<bool>,
}

impl<'a> Case<'a> {
    /// A case of these facts and measurements.
    pub(crate) fn new(facts: &'a Facts, measurements: Option<&'a Measurements>) -> Self {
        Self { facts, measurements, asked: RefCell::default(), is_resumed: OnceCell::new() }
    }

    /// Whether this run measured something: not of a capture.
    pub(crate) fn is_measured(&self) -> bool {
        self.measurements.is_some()
    }

    /// Whether only a log of the machine is known.
    pub(crate) fn is_log_alone(&self) -> bool {
        self.facts.clocksources.available.value().is_none()
            && self.facts.steering.adjtimex.value().is_none()
    }

    /// Whether somebody put a few facts together, without those of /sys.
    pub(crate) fn lacks_sys(&self) -> bool {
        matches!(self.facts.clocksources.current, Fact::Unknown(Unknown::NotCaptured { .. }))
    }

    /// What was measured.
    pub(crate) fn measured(&self) -> Result<&'a Measurements, Skipped> {
        let not_measured = || Skipped::CouldNot("not measured in this run".to_owned());
        let has_figures =
            |found: &&Measurements| found.references.is_empty() || !found.costs.is_empty();
        let measurements = self.measurements.filter(has_figures).ok_or_else(not_measured)?;
        self.asked.borrow_mut().known.insert("measurement");
        Ok(measurements)
    }

    /// The kernel's ticks a second, where its configuration is known.
    pub(crate) fn tick_hz(&self) -> Option<f64> {
        self.configuration().ok().and_then(|_| self.facts.kernel.tick_hz())
    }

    /// The TSC's frequency that the kernel assumes, by its log.
    pub(crate) fn kernel_tsc_hz(&self) -> Option<u64> {
        self.log().ok().and_then(|_| Some(self.facts.kernel.tsc_hz()?.0))
    }

    /// The HPET's period, by the kernel's log.
    pub(crate) fn hpet_period_ns(&self) -> Option<f64> {
        self.log().ok().and_then(|_| self.facts.kernel.hpet_period_ns())
    }

    /// Whether the kernel offers a source that may be chosen: false where that is unknown, and for
    /// the host's page in a confidential guest.
    pub(crate) fn offers(&self, source: &str) -> bool {
        let is_page = ["kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source);
        !(is_page && self.confidential().is_some())
            && self.available().is_ok_and(|names| names.iter().any(|name| name == source))
    }

    /// Which hypervisor, where it identifies itself.
    pub(crate) fn kind(&self) -> Option<HypervisorKind> {
        self.hypervisor().ok().map(|hypervisor| hypervisor.kind)
    }

    /// What kind of guest of Xen this is.
    pub(crate) fn xen(&self) -> Option<Xen> {
        self.hypervisor().ok()?.xen
    }

    /// Whether Xen reports that it emulates RDTSC.
    pub(crate) fn xen_emulates_tsc(&self) -> bool {
        self.xen().is_some_and(Xen::emulates_tsc)
    }

    /// Whether this is Xen's control domain.
    pub(crate) fn is_dom0(&self) -> bool {
        self.xen().is_some_and(|xen| xen.control_domain == Some(true))
    }

    /// The hypervisor's name for people: `Xen (PV)`.
    pub(crate) fn hypervisor_name(&self) -> Option<String> {
        let kind = self.kind()?;
        let is_qemu = self.vendor() == Ok("QEMU");
        Some(match (kind, self.xen().and_then(|xen| xen.mode)) {
            (HypervisorKind::Xen, Some(mode)) => format!("Xen ({})", mode.name()),
            (HypervisorKind::HyperV, _) if is_qemu => "QEMU, by Hyper-V's interface".to_owned(),
            _ => kind.name().to_owned(),
        })
    }

    /// Whether this is a virtual machine, where that is known.
    pub(crate) fn is_guest(&self) -> Option<bool> {
        let is_qemu = || self.is_arm64() && self.vendor() == Ok("QEMU");
        if self.is_virtualbox() || self.kind().is_some() || self.is_logged_guest() || is_qemu() {
            return Some(true);
        }
        // Only x86 has the flag.
        let flagged = self.flags().ok().filter(|flags| flags.tsc).map(|flags| flags.hypervisor);
        flagged.or(self.is_guest_by_dmi().then_some(true))
    }

    /// Whether the kernel log has a line of a KVM host.
    pub(crate) fn is_logged_host(&self) -> bool {
        let is_hosts = |line: &LogLine| line.event == LogEvent::GuestTscUnreliable;
        self.facts.kernel.log.is_known_and(|log| log.iter().any(is_hosts))
    }

    /// Whether the kernel is known to count the clock as not synchronised.
    pub(crate) fn is_flagged_unsynchronised(&self) -> bool {
        let is_flagged =
            |state: &Adjtimex| state.gives("status") && state.has(Adjtimex::STA_UNSYNC);
        self.facts.steering.adjtimex.is_known_and(is_flagged)
    }

    /// Whether DMI has the names that a hypervisor or cloud gives its guests.
    fn is_guest_by_dmi(&self) -> bool {
        const NAMED: [(&str, &str); 5] = [
            ("Microsoft Corporation", "Virtual Machine"),
            ("Google", "Google Compute Engine"),
            ("VMware", "VMware"),
            ("QEMU", "Standard PC"),
            ("OpenStack", "OpenStack"),
        ];
        let (Ok(vendor), Ok(product)) = (self.vendor(), self.product()) else { return false };
        let is_it = |(by, name): &(&str, &str)| vendor.contains(by) && product.contains(name);
        let is_ec2 = vendor.contains("Amazon EC2") && !product.contains("metal");
        is_ec2 || NAMED.iter().any(is_it)
    }

    /// Whether Hyper-V runs it, by DMI: Azure's or another.
    pub(crate) fn is_hyper_v(&self) -> bool {
        self.is_vendor("Microsoft Corporation") && self.product() == Ok("Virtual Machine")
    }

    /// Whether VirtualBox runs it: with some providers only DMI shows it.
    pub(crate) fn is_virtualbox(&self) -> bool {
        self.kind() == Some(HypervisorKind::VirtualBox)
            || self.product() == Ok("VirtualBox")
            || self.vendor() == Ok("innotek GmbH")
    }

    /// The platform, if it saves and restores its guests as a rule.
    pub(crate) fn snapshots(&self) -> Option<&'static str> {
        let oem = self.acpi_oem().unwrap_or_default();
        let product = self.product().unwrap_or_default();
        if oem.starts_with("FIRECK") {
            Some("Firecracker")
        } else if oem.starts_with("CLOUDH") || product.contains("Cloud Hypervisor") {
            Some("Cloud Hypervisor")
        } else {
            None
        }
    }

    /// The ACPI device by which a host tells this machine of a restore or a move.
    pub(crate) fn generation_device(&self) -> Option<&'a str> {
        self.generation_devices().ok()?.first().map(String::as_str)
    }

    /// The kernel's log lines of a certain event; none where there is no log.
    pub(crate) fn logged(
        &self,
        wanted: impl Fn(&LogEvent) -> bool,
    ) -> impl Iterator<Item = &'a LogLine> {
        self.log().unwrap_or_default().iter().filter(move |line| wanted(&line.event))
    }

    /// The kernel's own part of its command line: what follows `--` is for init.
    pub(crate) fn kernel_words(&self) -> impl Iterator<Item = &'a str> {
        let words = self.command_line().unwrap_or_default();
        words.iter().map(String::as_str).take_while(|word| *word != "--")
    }

    /// The value of kernel parameter `name`: empty where it has none, the last
    /// one where it is set more than once.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.kernel_words().filter_map(|word| value_of(word, name)).last()
    }

    /// Whether parameter `name` has this value, perhaps among others.
    pub(crate) fn sets(&self, name: &str, value: &str) -> bool {
        self.kernel_words().any(|word| value_of(word, name) == Some(value))
    }

    /// Whether the kernel was built with an option, where that is known.
    pub(crate) fn configured(&self, option: &str) -> Option<bool> {
        self.configuration().ok().map(|options| options.contains_key(option))
    }

    /// PTP clocks that show a guest the time of its host or cloud. The driver
    /// vmclock registers one whatever the page's status, but for 4
    /// (drivers/ptp/ptp_vmclock.c); only 2 and 3 state that the host knows the
    /// time.
    pub(crate) fn host_phcs(&self) -> impl Iterator<Item = &'a Phc> {
        let page = self.vmclock().ok();
        let unsure = page.is_some_and(|page| !matches!(page.clock_status, 2 | 3));
        let phcs = self.phcs().into_iter().flatten();
        let is_trusted = self.confidential().is_none();
        phcs.filter(move |phc| {
            is_trusted && phc.is_hosts() && !(unsure && phc.driver() == PhcDriver::VmClock)
        })
    }

    /// What a PTP clock counts on this kernel.
    pub(crate) fn phc_time(&self, phc: &Phc) -> PhcTime {
        // Google's hosts, which smear, show their clock by ptp_kvm (Compute
        // Engine: "Configure accurate time").
        match phc.driver() {
            PhcDriver::Kvm if self.is_vendor("Google") => PhcTime::SmearedUtc,
            PhcDriver::Kvm | PhcDriver::HyperV | PhcDriver::Vmware => PhcTime::PerhapsSmearedUtc,
            _ => phc.time(self.release().ok().and_then(KernelVersion::parse)),
        }
    }

    /// Whether DMI names this vendor.
    pub(crate) fn is_vendor(&self, name: &str) -> bool {
        self.vendor().is_ok_and(|vendor| vendor.contains(name))
    }

    /// A log line's age, s. The uptime counts time asleep and the clock of the
    /// log does not, so after a sleep it is not known.
    pub(crate) fn age_s(&self, line: &LogLine) -> Option<f64> {
        let is_resumed = || self.logged(|event| *event == LogEvent::Resumed).next().is_some();
        if *self.is_resumed.get_or_init(is_resumed) {
            return None;
        }
        let age_s = self.uptime_s().ok()? - line.at_s?;
        age_s.is_finite().then_some(age_s.max(0.0))
    }

    /// Whether a log line is younger than [`RECENT_S`], or its age unknown.
    pub(crate) fn is_recent(&self, line: &LogLine) -> bool {
        self.age_s(line).is_none_or(|age_s| age_s < RECENT_S)
    }

    /// What protects this guest from its host, whose clocks then have no vote.
    pub(crate) fn confidential(&self) -> Option<&'static str> {
        let flags = self.flags().ok()?;
        match (flags.tdx_guest, flags.hypervisor && flags.sev_snp) {
            (true, _) => Some("Intel TDX"),
            (_, true) if flags.secure_tsc => Some("AMD SEV-SNP with Secure TSC"),
            (_, true) => Some("AMD SEV-SNP"),
            _ => None,
        }
    }

    /// What reading the kernel's clock costs.
    pub(crate) fn clock_cost(&self) -> Option<&'a CallCost> {
        self.measured().ok()?.cost(CLOCK_CALL)
    }

    /// What reading the CPU's counter costs.
    pub(crate) fn counter_cost(&self) -> Option<&'a CallCost> {
        self.measured().ok()?.counter_cost()
    }

    /// arm64's counter, whose name is not the TSC's.
    pub(crate) fn is_arm64(&self) -> bool {
        !matches!(self.generic_timer(), Err(Skipped::DoesNotApply(_)))
    }

    /// The name of the CPU's counter.
    pub(crate) fn counter(&self) -> &'static str {
        if self.is_arm64() { "CNTVCT" } else { "TSC" }
    }

    /// Whether it booted less than five minutes ago, when daemons may not have
    /// reached their servers yet.
    pub(crate) fn just_booted(&self) -> bool {
        self.uptime_s().is_ok_and(|uptime_s| *uptime_s < 300.0)
    }

    /// Whether this runs in a container, which hides the machine's own
    /// processes and boot loader.
    pub(crate) fn in_container(&self) -> bool {
        self.container().is_ok()
    }
}

/// The value that `word` sets parameter `name` to, if it does.
pub(crate) fn value_of<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    same_parameter(key, name).then_some(value)
}

/// Dashes and underscores are the same in a kernel parameter's name
/// (kernel/params.c, `parameq`).
fn same_parameter(word: &str, name: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    word.chars().map(plain).eq(name.chars().map(plain))
}

/// `gettimeofday: 1.64 µs a call (median; 99 % within 2.1 µs; 500 samples), …`
pub(crate) fn cost_evidence(cost: &CallCost) -> String {
    use instruments::measurements::ReadPath;
    let path = match cost.path {
        ReadPath::Counted { calls, entered } => {
            let which = match entered {
                all if all == calls => "all".to_owned(),
                0 => "none of".to_owned(),
                some => format!("{some} of"),
            };
            format!(", {which} {calls} calls entered the kernel")
        }
        ReadPath::Instruction | ReadPath::NotCounted => String::new(),
    };
    format!(
        "{}: {} a call (median; 99 % within {}; {} samples){path}",
        cost.call,
        figures::time(cost.ns.median),
        figures::time(cost.ns.p99),
        cost.samples,
    )
}

/// adjtimex's status and error bound as evidence.
pub(crate) fn adjtimex_evidence(state: &Adjtimex) -> String {
    let unsynchronised = if state.has(Adjtimex::STA_UNSYNC) { " (STA_UNSYNC)" } else { "" };
    let status = format!("adjtimex: status {:#06x}{unsynchronised}", state.status);
    if !state.gives("maxerror") {
        return status;
    }
    format!("{status}, maximum error {}", figures::time(state.max_error_us as f64 * 1e3))
}

/// Time zones differ by quarters of an hour; the RTC resolves a second and may
/// drift by a few.
pub(crate) fn whole_quarter_hours(off_s: u64) -> bool {
    const QUARTER_S: u64 = 900;
    const SLACK_S: u64 = 10;
    let rest_s = off_s % QUARTER_S;
    (QUARTER_S..=14 * 3600 + SLACK_S).contains(&(off_s + SLACK_S))
        && (rest_s <= SLACK_S || rest_s >= QUARTER_S - SLACK_S)
}

/// Whether a difference is whole hours, as most time zones are, but for two minutes: an RTC's own
/// error, or the time between two lines.
pub(crate) fn is_near_zone(by_s: f64) -> bool {
    const SLACK_S: f64 = 120.0;
    let hours = (by_s.abs() / 3600.0).round();
    (1.0..=14.0).contains(&hours) && (by_s.abs() - hours * 3600.0).abs() < SLACK_S
}

/// The log line as evidence, with its time where it has one.
pub(crate) fn log_evidence(line: &LogLine) -> String {
    match line.at_s {
        Some(at_s) => format!("kernel log: [{at_s:12.6}] {}", line.text.trim()),
        None => format!("kernel log: {}", line.text.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_match_whole_names_with_dash_or_underscore() {
        assert!(same_parameter("no_kvmclock", "no-kvmclock"));
        assert!(!same_parameter("no-kvmclock-vsyscall", "no-kvmclock"));
    }
}
