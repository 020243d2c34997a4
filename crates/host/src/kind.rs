//! The kinds of provider, with the names that VirtualBox users know.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The paravirtual clock that a guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClockProvider {
    /// None: the guest sees no hypervisor.
    None,
    /// The same as none; VirtualBox's machines from before it had providers.
    Legacy,
    /// The TSC's and the APIC's frequency in CPUID, nothing else.
    Minimal,
    /// kvm-clock, wall clock and steal time.
    Kvm,
    /// Hyper-V's reference counter, TSC page and frequency MSRs.
    HyperV,
}

impl ClockProvider {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Legacy, Self::Minimal, Self::Kvm, Self::HyperV];

    /// The provider that `default` stands for: the clock that the guest's
    /// kernel reads best.
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
    /// use pvclock_host::{GuestSystem, ClockProvider};
    /// assert_eq!(ClockProvider::from_name("hyperv", GuestSystem::Linux), Some(ClockProvider::HyperV));
    /// assert_eq!(ClockProvider::from_name("default", GuestSystem::Linux), Some(ClockProvider::Kvm));
    /// assert_eq!(ClockProvider::from_name("xen", GuestSystem::Linux), None);
    /// ```
    pub fn from_name(name: &str, system: GuestSystem) -> Option<Self> {
        if name == "default" {
            return Some(Self::default_for(system));
        }
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether this provider has CPUID leaves, so that the VMM has to set the
    /// hypervisor bit (leaf 1, ECX bit 31).
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

impl fmt::Display for ClockProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The guest's operating system, for the choice of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GuestSystem {
    /// Linux 2.6.26 and later, and others that know kvm-clock.
    Linux,
    /// Windows 7 and later.
    Windows,
    /// macOS.
    MacOs,
    /// Anything else.
    Other,
}
