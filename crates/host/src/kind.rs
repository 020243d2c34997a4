//! The kinds of provider, by the names that VirtualBox users know.

use core::fmt;

/// What paravirtual clock a guest is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing: the guest sees no hypervisor.
    None,
    /// As none; what machines made before there were providers have.
    Legacy,
    /// The TSC's and the APIC's frequency in CPUID, nothing else.
    Minimal,
    /// kvm-clock, wall clock and steal time.
    Kvm,
    /// Hyper-V's reference counter, TSC page and frequency MSRs.
    HyperV,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Legacy, Self::Minimal, Self::Kvm, Self::HyperV];

    /// What `default` means for a guest: the clock its kernel reads best.
    pub const fn default_for(system: GuestSystem) -> Self {
        match system {
            GuestSystem::Linux => Self::Kvm,
            GuestSystem::Windows => Self::HyperV,
            GuestSystem::MacOs => Self::Minimal,
            GuestSystem::Other => Self::None,
        }
    }

    /// The provider of that name; `default` is the one for `system`.
    ///
    /// ```
    /// use host::{GuestSystem, Kind};
    /// assert_eq!(Kind::from_name("hyperv", GuestSystem::Linux), Some(Kind::HyperV));
    /// assert_eq!(Kind::from_name("default", GuestSystem::Linux), Some(Kind::Kvm));
    /// assert_eq!(Kind::from_name("xen", GuestSystem::Linux), None);
    /// ```
    pub fn from_name(name: &str, system: GuestSystem) -> Option<Self> {
        if name == "default" {
            return Some(Self::default_for(system));
        }
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether CPUID has leaves of this provider, and so has to announce a
    /// hypervisor (leaf 1, ECX bit 31).
    pub const fn has_cpuid(self) -> bool {
        !matches!(self, Self::None | Self::Legacy)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Legacy => "legacy",
            Self::Minimal => "minimal",
            Self::Kvm => "kvm",
            Self::HyperV => "hyperv",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What runs in the guest, as far as the choice of a provider goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuestSystem {
    /// Linux 2.6.26 and later, and what else knows kvm-clock.
    Linux,
    /// Windows 7 and later.
    Windows,
    /// macOS.
    MacOs,
    /// Anything else.
    Other,
}
