//! A PTP hardware clock's time.
//!
//! Under KVM, ptp_kvm's device is KVM clock pairing: its precise comparison
//! is the hypercall KVM_HC_CLOCK_PAIRING, in which the host tells its time of
//! day and the TSC at one instant (drivers/ptp/ptp_kvm_x86.c). What such a
//! device tells is the host's CLOCK_REALTIME: UTC. A network card's counts
//! what somebody set it to, TAI by PTP's own convention.

use std::path::{Path, PathBuf};

use super::NoOffset;
use super::offset::{Moment, Offset, Told};
use crate::fact::Fact;
use crate::reference::phc::{Comparison, Phc};
use crate::watching;

/// Where the kernel tells each device's name.
const CLASS: &str = "/sys/class/ptp";

/// How the names of those begin that count UTC: the hosts' clocks, after
/// `ptp_clock_info.name` in drivers/ptp/{ptp_kvm_common,ptp_vmclock,ptp_vmw}.c
/// and drivers/hv/hv_util.c, and that of Amazon's network card, which chronyd
/// is told to take as it is ("Set the time reference on your EC2 instance to
/// use the Amazon Time Sync Service").
const UTC_NAMES: [&str; 5] = ["KVM virtual PTP", "vmclock", "ptp_vmw", "hyperv", "ena-ptp"];

/// What a device counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcScale {
    /// By its driver's name, where that tells.
    ByName,
    /// UTC.
    Utc,
    /// TAI: ahead of UTC by what the kernel was told (`adjtimex`'s tai).
    Tai,
}

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

    /// How far it is from CLOCK_REALTIME.
    ///
    /// # Errors
    /// It cannot be read, or counts nobody knows what.
    pub fn compare(&self) -> Result<Offset, NoOffset> {
        let ahead_ns = self.ahead_of_utc_ns()?;
        let before = Moment::now()?;
        let comparison = match self.phc.compare() {
            Fact::Known(comparison) => comparison,
            Fact::Unknown(why) => return Err(why.into()),
        };
        let after = Moment::now()?;
        from_comparison(|| self.name.clone(), &comparison, ahead_ns, (before, after))
    }

    fn ahead_of_utc_ns(&self) -> Result<i64, NoOffset> {
        let tai_s = || watching::adjtimex().known().map_or(0, |timex| timex.tai_s);
        ahead_of_utc_s(self.scale, &self.clock_name, tai_s)
            .map(|s| i64::from(s) * 1_000_000_000)
            .map_err(|what| NoOffset::Scale {
                device: self.name.clone(),
                clock_name: self.clock_name.clone(),
                what,
            })
    }
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

fn tells_utc(clock_name: &str) -> bool {
    UTC_NAMES.iter().any(|name| clock_name.starts_with(name))
}

/// How far a device is ahead of UTC, s.
fn ahead_of_utc_s(
    scale: PhcScale,
    clock_name: &str,
    tai_s: impl Fn() -> i32,
) -> Result<i32, &'static str> {
    let is_utc = match scale {
        PhcScale::Utc => true,
        PhcScale::Tai => false,
        PhcScale::ByName if tells_utc(clock_name) => true,
        PhcScale::ByName => return Err("its name does not tell whether it counts UTC or TAI"),
    };
    match tai_s() {
        _ if is_utc => Ok(0),
        0 => Err("it counts TAI, and nobody has told the kernel how far that is from UTC"),
        tai_s => Ok(tai_s),
    }
}

/// The offset by one comparison, made between two moments; the kernel's own
/// CLOCK_REALTIME is nearer to the device than they are.
fn from_comparison(
    what: impl Fn() -> String,
    comparison: &Comparison,
    ahead_ns: i64,
    around: (Moment, Moment),
) -> Result<Offset, NoOffset> {
    let mut told = Told::around(comparison.device_at_realtime_ns, 0);
    told.earliest_ns -= i128::from(ahead_ns);
    told.latest_ns -= i128::from(ahead_ns);
    told.against(what, comparison.realtime_ns, around)
}

#[cfg(test)]
mod tests;
