//! kvm-clock: the time page of each vCPU and the VM's wall clock. Xen's pages
//! have the same layout (arch/x86/include/asm/pvclock-abi.h).
//!
//! # The time page
//!
//! ```text
//!  0        4        8                16               24       28 29 30  32
//! | version | pad    | tsc_timestamp  | system_time ns | mul    |sh|fl|pad |
//! ```
//!
//! The guest gives the host the page's address in an MSR; from then on the
//! host states in it which system time it was at which TSC, and how fast the
//! TSC runs. The time now is
//!
//! ```text
//! system_time + scale(TSC now − tsc_timestamp)
//! ```
//!
//! # Which CPU's page
//!
//! There is a page for each vCPU, because on some hosts the TSCs of two CPUs
//! differ. With [`Flags::TSC_STABLE`] set all pages describe one clock, and any of
//! them serves any CPU. Without it, two CPUs may disagree by some
//! microseconds, and time can step back for a thread that moves between them:
//! readers then share a [`LastTime`], below which none of them returns.
//!
//! # After a pause
//!
//! [`Flags::GUEST_STOPPED`] means that the host stopped the guest;
//! a kernel quiets its watchdogs and takes the flag by
//! [`TimeReader::take_guest_stopped`]. The host keeps the flag through later
//! updates until then.

mod page;
mod reader;
mod wall_clock;
mod writer;

pub use page::{Flags, TimeInfo, TimePage};
pub use reader::{LastTime, TimeReader};
pub use wall_clock::{WallClock, WallClockPage, WallClockReader, WallClockWriter};
pub use writer::{TimeUpdate, TimeWriter};
