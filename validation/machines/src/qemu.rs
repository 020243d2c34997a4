//! The emulator.

/// Its program.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";
