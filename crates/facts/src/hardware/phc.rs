//! PTP hardware clocks: whose they are, and what they count.

use schemars::JsonSchema;
use serde::Serialize;

use crate::kernel::version::KernelVersion;

/// A PTP hardware clock, which may be a hypervisor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Phc {
    /// `/dev/ptp0`
    pub device: String,
    /// `KVM virtual PTP`, `hyperv`, `vmclock`, a network card's name; empty
    /// where unreadable.
    pub clock_name: String,
    /// The device file can be opened by this user.
    pub readable: bool,
    /// The name that a rule of udev gives it: `/dev/ptp_hyperv`. Numbers can
    /// change at boot, this does not.
    pub link: Option<String>,
}

/// Which driver registered a PTP clock, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcDriver {
    /// drivers/ptp/ptp_kvm_common.c: the host's clock, over a hypercall.
    Kvm,
    /// drivers/hv/hv_util.c: the host's clock, from its samples.
    HyperV,
    /// drivers/ptp/ptp_vmclock.c: the host's clock, from a shared page.
    VmClock,
    /// drivers/ptp/ptp_vmw.c: the host's precision clock.
    Vmware,
    /// drivers/net/ethernet/amazon/ena/ena_phc.c: Amazon's clock, by its card.
    Ena,
    /// drivers/virtio/virtio_rtc_ptp.c: a clock of this type (virtio 1.4, RTC
    /// device).
    Virtio(u8),
    /// A network card's, or not known here.
    Other,
}

/// What a PTP clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcTime {
    /// UTC, with leap seconds.
    Utc,
    /// TAI: 37 s ahead of UTC since 2017.
    Tai,
    /// UTC whose leap seconds are spread over hours.
    SmearedUtc,
    /// UTC, smeared or not.
    PerhapsSmearedUtc,
    /// Time since some start: no time of day.
    Monotonic,
    /// Nothing says.
    Unknown,
}

/// The first kernel whose driver `vmclock` counts TAI ("ptp: ptp_vmclock:
/// return TAI not UTC", of January 2026; 6.19 was closed by then).
const VMCLOCK_IN_TAI: KernelVersion = KernelVersion { major: 7, minor: 0 };

impl PhcDriver {
    /// By `ptp_clock_info.name`, how it begins. Amazon's is a network card's,
    /// which shows the cloud's time.
    pub fn from_clock_name(clock_name: &str) -> Self {
        // `Virtio PTP type 0/variant 0`
        if let Some(rest) = clock_name.strip_prefix("Virtio PTP type ") {
            let kind = rest.split(['/', ',', ' ']).next().and_then(|word| word.parse().ok());
            return kind.map_or(Self::Other, Self::Virtio);
        }
        let names = [
            ("KVM virtual PTP", Self::Kvm),
            ("hyperv", Self::HyperV),
            ("vmclock", Self::VmClock),
            ("ptp_vmw", Self::Vmware),
            ("ena-ptp", Self::Ena),
        ];
        let named = names.into_iter().find(|(start, _)| clock_name.starts_with(start));
        named.map_or(Self::Other, |(_, driver)| driver)
    }

    /// What its clock counts under a kernel of this version.
    pub fn time(self, kernel: Option<KernelVersion>) -> PhcTime {
        match (self, kernel) {
            (Self::VmClock, None) | (Self::Other, _) => PhcTime::Unknown,
            (Self::VmClock, Some(version)) if version >= VMCLOCK_IN_TAI => PhcTime::Tai,
            (Self::Virtio(kind), _) => match kind {
                0 => PhcTime::Utc,
                1 => PhcTime::Tai,
                2 => PhcTime::Monotonic,
                3 => PhcTime::SmearedUtc,
                4 => PhcTime::PerhapsSmearedUtc,
                _ => PhcTime::Unknown,
            },
            _ => PhcTime::Utc,
        }
    }

    /// Whether its clock is that of a host or cloud, and tells the time of day.
    pub fn is_hosts(self) -> bool {
        self == Self::VmClock || !matches!(self.time(None), PhcTime::Unknown | PhcTime::Monotonic)
    }
}

impl Phc {
    /// The driver behind it.
    pub fn driver(&self) -> PhcDriver {
        PhcDriver::from_clock_name(&self.clock_name)
    }

    /// What it counts under a kernel of this version.
    ///
    /// ```
    /// use facts::hardware::{Phc, PhcTime};
    /// use facts::kernel::version::KernelVersion;
    /// let page = Phc {
    ///     device: "/dev/ptp0".into(),
    ///     clock_name: "vmclock".into(),
    ///     readable: true,
    ///     link: None,
    /// };
    /// let time = |release| page.time(KernelVersion::parse(release));
    /// assert_eq!(time("6.12.9-amd64"), PhcTime::Utc);
    /// assert_eq!(time("7.0.1"), PhcTime::Tai);
    /// assert_eq!(time(""), PhcTime::Unknown);
    /// ```
    pub fn time(&self, kernel: Option<KernelVersion>) -> PhcTime {
        self.driver().time(kernel)
    }

    /// Whether it shows a guest the time of its host or cloud.
    pub fn is_hosts(&self) -> bool {
        self.driver().is_hosts()
    }

    /// The device's lasting name where it has one.
    pub fn path(&self) -> &str {
        self.link.as_deref().unwrap_or(&self.device)
    }
}

/// The lines of `parachron/ptp-links`: the link's name and the device's
/// (`ptp_hyperv ptp0`); of a device's links the first.
pub fn link_of(text: &str, device: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (link, to) = line.trim().split_once(' ')?;
        // It stands in commands, also where a shell's quotes do not help (sed).
        let is_plain = link.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        (to.trim() == device && is_plain).then(|| format!("/dev/{link}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(clock_name: &str) -> Phc {
        let device = "/dev/ptp0".to_owned();
        Phc { device, clock_name: clock_name.to_owned(), readable: true, link: None }
    }

    #[test]
    fn a_virtio_clock_tells_what_it_counts() {
        let time = |kind| named(&format!("Virtio PTP type {kind}/variant 0")).time(None);
        let all: Vec<_> = (0..=5).map(time).collect();
        use PhcTime::{Monotonic, PerhapsSmearedUtc, SmearedUtc, Tai, Unknown, Utc};
        assert_eq!(all, [Utc, Tai, Monotonic, SmearedUtc, PerhapsSmearedUtc, Unknown]);
        assert!(!named("Virtio PTP type 2/variant 0").is_hosts(), "no time of day");
        assert_eq!(named("Virtio PTP type x").driver(), PhcDriver::Other);
    }

    #[test]
    fn a_network_card_is_nobodys_host() {
        assert!(!named("igb-0000:01").is_hosts());
        assert!(named("ena-ptp-05").is_hosts());
        assert_eq!(named("mlx5_ptp").time(KernelVersion::parse("7.2.0")), PhcTime::Unknown);
    }

    #[test]
    fn links_are_of_one_device() {
        let text = "ptp_hyperv ptp1\nptp_kvm ptp10\n../x ptp2\n";
        assert_eq!(link_of(text, "ptp1").as_deref(), Some("/dev/ptp_hyperv"));
        assert_eq!(link_of(text, "ptp10").as_deref(), Some("/dev/ptp_kvm"));
        assert_eq!(link_of(text, "ptp2"), None);
    }
}
