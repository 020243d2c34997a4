//! The kinds of provider, by the names that VirtualBox users know.

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
