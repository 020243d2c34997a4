//! The guest's image, built with this crate.

/// An ELF: this machine enters it in 64-bit mode; QEMU, Firecracker and
/// cloud-hypervisor use its PVH note.
pub const GUEST: &[u8] = include_bytes!(env!("GUEST_IMAGE"));
