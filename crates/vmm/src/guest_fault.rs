//! How a guest failed.

use std::{fmt, io};

use guest::protocol::Words;

/// The vCPU's registers that show what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRegisters {
    /// The instruction pointer.
    pub rip: u64,
    /// Its stack.
    pub rsp: u64,
    /// Its flags, where they are known.
    pub rflags: Option<u64>,
    /// The code segment; the low two bits are the privilege level.
    pub cs: u16,
    /// The address of the last page fault.
    pub cr2: u64,
}

impl fmt::Display for FaultRegisters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rip, rsp, rflags, cs, cr2 } = self;
        write!(f, "rip {rip:#x}, rsp {rsp:#x}, ")?;
        if let Some(rflags) = rflags {
            write!(f, "rflags {rflags:#x}, ")?;
        }
        write!(f, "cs {cs:#x}, cr2 {cr2:#x}")
    }
}

/// Why a vCPU no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestFaultCause {
    /// An exception that the guest does not handle.
    #[error("exception {vector}, error code {code:#x}")]
    Exception {
        /// Its vector.
        vector: u64,
        /// Its error code, 0 where it has none.
        code: u64,
    },
    /// An exception in the handler of a double fault.
    #[error("triple fault")]
    TripleFault,
    /// HLT with interrupts off.
    #[error("halted with interrupts off")]
    HaltedForever,
    /// KVM could not continue: usually an instruction that it does not emulate.
    #[error("KVM could not emulate its instruction")]
    InternalError,
    /// The CPU did not enter the guest.
    #[error("the CPU did not enter the guest ({reason:#x})")]
    FailedEntry {
        /// The CPU's reason.
        reason: u64,
    },
    /// KVM_RUN failed.
    #[error("KVM_RUN: {}", io::Error::from_raw_os_error(*errno))]
    RunFailed {
        /// The kernel's error number.
        errno: i32,
    },
    /// It wrote its TSC, and KVM did not take the new value.
    #[error(
        "the guest wrote its TSC, and KVM refused the value: {}",
        io::Error::from_raw_os_error(*errno)
    )]
    TscNotSet {
        /// The kernel's error number; 0 if the error was no system call's.
        errno: i32,
    },
    /// An exit that this machine does not handle.
    #[error("unknown exit (KVM exit reason {reason})")]
    UnknownExit {
        /// KVM's exit reason.
        reason: u32,
    },
}

/// A guest's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestFault {
    /// Why.
    pub cause: GuestFaultCause,
    /// Where.
    pub registers: FaultRegisters,
}

impl GuestFault {
    /// Whether the registers show a CPU after its reset (Intel SDM vol. 3, "Processor State After
    /// Reset"), where no guest of this machine runs: KVM on AMD resets a vCPU before it reports a
    /// triple fault (`shutdown_interception`, arch/x86/kvm/svm/svm.c).
    pub fn is_place_lost(&self) -> bool {
        let FaultRegisters { cs, rip, .. } = self.registers;
        self.cause == GuestFaultCause::TripleFault && (cs, rip) == (0xf000, 0xfff0)
    }

    /// From the words that an exception gate wrote.
    pub(crate) fn from_last_words(words: &Words) -> Self {
        let [vector, code, rip, cr2, rsp, cs] = *words;
        Self {
            cause: GuestFaultCause::Exception { vector, code },
            registers: FaultRegisters { rip, rsp, rflags: None, cs: cs as u16, cr2 },
        }
    }
}

impl fmt::Display for GuestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if self.is_place_lost() {
            return write!(f, "; KVM on AMD has reset the vCPU, so where it failed is lost");
        }
        write!(f, "; {}", self.registers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_place() {
        let guest_fault =
            GuestFault::from_last_words(&[14, 4, 0x10_2000, 0x100_0000_0000, 0x11_fff0, 0x33]);
        assert_eq!(
            guest_fault.to_string(),
            "exception 14, error code 0x4; rip 0x102000, rsp 0x11fff0, \
             cs 0x33, cr2 0x10000000000"
        );
    }

    #[test]
    fn a_reset_hides_the_place_and_only_that() {
        let reset = FaultRegisters { rip: 0xfff0, cs: 0xf000, ..FaultRegisters::default() };
        let shown = |cause, registers| GuestFault { cause, registers }.to_string();
        let hidden = shown(GuestFaultCause::TripleFault, reset);
        assert!(hidden.starts_with("triple fault; KVM on AMD has reset"), "{hidden}");
        let elsewhere = FaultRegisters { rip: 0x10_2000, cs: 0x8, ..reset };
        let place = "; rip 0x102000, rsp 0x0, cs 0x8, cr2 0x0";
        assert_eq!(shown(GuestFaultCause::TripleFault, elsewhere), format!("triple fault{place}"));
        assert!(shown(GuestFaultCause::InternalError, reset).ends_with("cs 0xf000, cr2 0x0"));
    }
}
