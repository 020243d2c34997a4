//! What this KVM does with a TSC offset that is set.

use vmm::{Machine, MachineError, host_clock};

/// How far the offset is moved: some seconds.
const MOVED: u64 = 1 << 34;

/// What becomes of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TscOffsets {
    /// It stays as it was set.
    Kept,
    /// It stays as it was before: software KVMs.
    Ignored,
    /// KVM changes it at each entry, so that the guest's TSC does not go back.
    Moved,
}

impl TscOffsets {
    /// Sets one on a fresh vCPU, so that a fault of our own code is not taken
    /// for KVM's.
    ///
    /// # Errors
    /// KVM's own.
    pub(crate) fn probe() -> Result<Self, MachineError> {
        let failed = |call| move |error| MachineError::Kvm { call, error };
        let vm = vmm::kvm::open()?.create_vm().map_err(failed("KVM_CREATE_VM"))?;
        let vcpu = vm.create_vcpu(0).map_err(failed("KVM_CREATE_VCPU"))?;
        let before = vmm::kvm::tsc_offset(&vcpu)?;
        let set = before.wrapping_add(MOVED);
        vmm::kvm::set_tsc_offset(&vcpu, set)?;
        Ok(Self::classify(before, set, vmm::kvm::tsc_offset(&vcpu)?))
    }

    const fn classify(before: u64, set: u64, now: u64) -> Self {
        if now == set {
            Self::Kept
        } else if now == before {
            Self::Ignored
        } else {
            Self::Moved
        }
    }

    /// [`Self::reason`] where KVM moves offsets by itself.
    pub(crate) fn why_moved(self) -> Option<&'static str> {
        self.reason().filter(|_| self == Self::Moved)
    }

    /// Why a guest's TSC is not where it was set, if that is KVM's doing.
    pub(crate) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Kept => None,
            Self::Ignored => Some("this KVM ignores TSC offsets: the offset reads back unchanged"),
            // kvm_arch_vcpu_load, arch/x86/kvm/x86.c: kvm_check_tsc_unstable().
            Self::Moved => Some(
                "this KVM changes TSC offsets on its own, as it does when the host's kernel has \
                 marked the TSC unstable",
            ),
        }
    }
}

/// Why our provider has no clock that is right for all vCPUs of a machine, if that is not its own
/// doing: what KVM and the host's kernel show, and nothing that the provider says.
///
/// # Errors
/// KVM's own.
pub(crate) fn why_per_vcpu(machine: &Machine) -> Result<Option<&'static str>, MachineError> {
    if host_clock::clocksource_is_tsc() == Some(false) {
        return Ok(Some("this host's clocksource is not the TSC"));
    }
    if let Some(why) = TscOffsets::probe()?.why_moved() {
        return Ok(Some(why));
    }
    let first = machine.tsc_offset(0)?;
    for vcpu in 1..machine.vcpus() {
        if machine.tsc_offset(vcpu)? != first {
            return Ok(Some("KVM has given the vCPUs other TSC offsets"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_kept_ignored_or_moved() {
        assert_eq!(TscOffsets::classify(5, 9, 9), TscOffsets::Kept);
        assert_eq!(TscOffsets::classify(5, 9, 5), TscOffsets::Ignored);
        assert_eq!(TscOffsets::classify(5, 9, 7), TscOffsets::Moved);
    }
}
