//! The ACPI power management timer: a free-running counter.

use pvclock::Hertz;
use serde::{Deserialize, Serialize};

use super::{DeviceRate, Moment};

/// Its width; the guest reads it from the FADT's flag TMR_VAL_EXT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PmWidth {
    /// Wraps in 4.69 s.
    Bits24,
    /// Wraps in 20 minutes.
    Bits32,
}

impl PmWidth {
    /// The mask of its bits.
    pub const fn mask(self) -> u32 {
        match self {
            Self::Bits24 => 0x00ff_ffff,
            Self::Bits32 => u32::MAX,
        }
    }
}

/// The timer. Its only state is its width: the count follows from the machine's
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcpiPmTimer {
    /// Its width.
    pub width: PmWidth,
}

impl AcpiPmTimer {
    /// The first of four ports, as on QEMU's PIIX4 and ICH9.
    pub const PORT: u16 = 0x608;
    /// Its frequency (ACPI specification, 4.8.3.3).
    pub const FREQUENCY: Hertz = Hertz(3_579_545);

    /// The count.
    pub fn read(self, now: &Moment) -> u32 {
        DeviceRate::hertz(Self::FREQUENCY).ticks(now.since_start) as u32 & self.width.mask()
    }
}
