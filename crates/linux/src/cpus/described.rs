//! What the processor is, as it describes itself.

/// The processor's own name for itself, where it has one.
#[cfg(target_arch = "x86_64")]
pub fn model() -> Option<String> {
    let name = raw_cpuid::CpuId::new().get_processor_brand_string()?;
    // CPUID pads with blanks and zeros.
    let name = name.as_str().trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether this is a virtual machine, by CPUID: leaf 1, ECX bit 31.
#[cfg(target_arch = "x86_64")]
pub fn has_hypervisor() -> Option<bool> {
    let features = raw_cpuid::CpuId::new().get_feature_info();
    Some(features.is_some_and(|features| features.has_hypervisor()))
}

/// The processor's own name for itself: only x86 has one.
#[cfg(not(target_arch = "x86_64"))]
pub fn model() -> Option<String> {
    None
}

/// Whether this is a virtual machine: no instruction of this processor tells.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_hypervisor() -> Option<bool> {
    None
}
