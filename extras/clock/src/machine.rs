//! The clock of a Linux machine: the few system calls around [`timeline`](crate::timeline), and
//! [`Clock`].

mod clock;
mod clockbound;
mod counter;
mod instant;
mod kernel_clock;
mod maintainer;
mod settings;
mod sole;
mod status;
mod system;
mod system_time;
mod vmclock;

pub use clock::Clock;
pub use clock::shared;
pub use instant::Instant;
pub use maintainer::Maintainer;
pub use settings::Settings;
pub use status::{MachineClockStatus, Source};
pub use system_time::SystemTime;
