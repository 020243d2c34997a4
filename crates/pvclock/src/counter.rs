//! The counter a page is read against.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{Cntvct, Cntvct as CpuCounter, Cntvctss, frequency};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{Tsc, Tsc as CpuCounter};

/// A free-running counter.
pub trait Counter {
    /// The counter, possibly read before instructions that stand earlier and
    /// after ones that stand later: the CPU reorders it.
    fn read(&self) -> u64;

    /// Waits until every earlier load has its value: a [`read`](Self::read) that follows comes
    /// after them.
    fn order(&self);

    /// The counter, read after every earlier load has its value.
    #[inline(always)]
    fn read_ordered(&self) -> u64 {
        self.order();
        self.read()
    }
}

/// Any function of no arguments is a counter whose reads are all ordered:
/// what tests and simulations use.
impl<F: Fn() -> u64> Counter for F {
    #[inline]
    fn read(&self) -> u64 {
        self()
    }

    #[inline]
    fn order(&self) {}
}
