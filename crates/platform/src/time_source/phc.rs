//! A PTP hardware clock's time.
//!
//! Under KVM, ptp_kvm's device is KVM clock pairing: its precise comparison
//! is the hypercall KVM_HC_CLOCK_PAIRING, in which the host tells its time of
//! day and the TSC at one instant (drivers/ptp/ptp_kvm_x86.c). What such a
//! device tells is the host's CLOCK_REALTIME: UTC. A network card's counts
//! what somebody set it to, TAI by PTP's own convention.

mod scale;
mod spec;

use std::path::{Path, PathBuf};

use super::NoOffset;
use super::offset::{Moment, Offset, Told};
use crate::live;
use crate::reference::phc::{Comparison, Phc};
use facts::Fact;
use scale::tells_utc;

pub use scale::{Apparent, PhcScale, UnknownScale};
pub use spec::{PhcSpec, PhcSpecError};

/// Where the kernel tells each device's name.
const CLASS: &str = "/sys/class/ptp";

/// An open device.
#[derive(Debug)]
pub struct PhcTime {
    name: String,
    clock_name: String,
    phc: Phc,
    scale: PhcScale,
}

impl PhcTime {
    /// Opens `path`, and finds out how it can be compared and what its driver
    /// calls it.
    pub fn open(path: &Path, scale: PhcScale) -> Fact<Self> {
        let name = path.display().to_string();
        let clock_name = clock_name(Path::new(CLASS), path).unwrap_or_default();
        Phc::open(path).map(|phc| Self { name, clock_name, phc, scale })
    }

    /// Its path.
    pub fn device(&self) -> &str {
        &self.name
    }

    /// What its driver calls it; empty where the kernel does not say.
    pub fn clock_name(&self) -> &str {
        &self.clock_name
    }

    /// The device itself, whatever it counts.
    pub fn device_clock(&self) -> &Phc {
        &self.phc
    }

    /// What it is said to count.
    pub fn scale(&self) -> PhcScale {
        self.scale
    }

    /// How far it is from CLOCK_REALTIME.
    ///
    /// # Errors
    /// It cannot be read, or counts nobody knows what.
    pub fn compare(&self) -> Result<Offset, NoOffset> {
        let ahead_s = self.ahead_of_utc_s().map_err(|why| NoOffset::Scale {
            device: self.name.clone(),
            clock_name: self.clock_name.clone(),
            why,
        })?;
        self.compare_less(ahead_s)
    }

    /// How far it is ahead of UTC by what it counts, s.
    ///
    /// # Errors
    /// Nothing tells.
    pub fn ahead_of_utc_s(&self) -> Result<i32, UnknownScale> {
        self.scale.ahead_of_utc_s(&self.clock_name, kernels_tai_s)
    }

    /// How far it is ahead of CLOCK_REALTIME, whatever it counts, ns, and what
    /// it seems to count by that.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn apparent(&self) -> Result<(i64, Apparent), NoOffset> {
        let ahead_ns = self.compare_less(0)?.offset_ns;
        Ok((ahead_ns, Apparent::of(ahead_ns, &kernels_tai_s())))
    }

    /// How far its time less `ahead_s` is from CLOCK_REALTIME.
    fn compare_less(&self, ahead_s: i32) -> Result<Offset, NoOffset> {
        let before = Moment::now()?;
        let comparison = match self.phc.compare() {
            Fact::Known(comparison) => comparison,
            Fact::Unknown(why) => return Err(why.into()),
        };
        let after = Moment::now()?;
        from_comparison(|| self.name.clone(), &comparison, ahead_s, (before, after))
    }
}

/// TAI − UTC by what the kernel was told, s; 0 where nobody told it.
pub fn kernels_tai_s() -> Fact<i32> {
    live::adjtimex().map(|timex| timex.tai_s)
}

/// The devices whose names say that they tell UTC: hosts' clocks, for the
/// most part.
pub fn hosts_clocks() -> Vec<PathBuf> {
    hosts_clocks_below(Path::new(CLASS))
}

fn hosts_clocks_below(class: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = entries
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .filter(|device| clock_name(class, device).is_some_and(|name| tells_utc(&name)))
        .collect();
    devices.sort();
    devices
}

/// The name that the driver of `device` gives it.
fn clock_name(class: &Path, device: &Path) -> Option<String> {
    // udev makes links such as /dev/ptp_kvm.
    let device = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let text = std::fs::read_to_string(class.join(device.file_name()?).join("clock_name")).ok()?;
    Some(text.trim().to_owned())
}

/// The offset by one comparison, made between two moments; the kernel's own
/// CLOCK_REALTIME is nearer to the device than they are.
fn from_comparison(
    what: impl Fn() -> String,
    comparison: &Comparison,
    ahead_s: i32,
    around: (Moment, Moment),
) -> Result<Offset, NoOffset> {
    let mut told = Told::around(comparison.device_at_realtime_ns, 0);
    let ahead_ns = i128::from(ahead_s) * 1_000_000_000;
    told.earliest_ns -= ahead_ns;
    told.latest_ns -= ahead_ns;
    told.against(what, comparison.realtime_ns, around)
}

#[cfg(test)]
mod tests;
