//! A PTP hardware clock's time.
//!
//! Under KVM, ptp_kvm's device is KVM clock pairing: its precise comparison
//! is the hypercall KVM_HC_CLOCK_PAIRING, in which the host states its time of
//! day and the TSC at one instant (drivers/ptp/ptp_kvm_x86.c). What such a
//! device shows is the host's CLOCK_REALTIME: UTC. A network card's counts
//! what it was set to, TAI by PTP's own convention.

mod scale;
mod spec;

use std::path::{Path, PathBuf};

use facts::hardware::PhcDriver;
use facts::{Fact, Unknown};
use linux::phc::{PhcDevice, PhcReading};
use linux::reread::Reread;
use pvclock::units::{Interval, OffsetBound, TimeReading};

use crate::source::{ReadStatus, now, offset};
use crate::{SourceError, VmClockSource};

pub use scale::{Apparent, PhcScale, Smear, UnknownScale, kernels_tai_s};
pub use spec::{PhcSpec, PhcSpecError, is_same_device};

/// Where the kernel shows each device's name.
const CLASS: &str = "/sys/class/ptp";

/// Below a device's folder: how far the clock may be off, ns, as EC2's ENA driver states it
/// (ena_sysfs.c, `phc_error_bound`). ClockBound adds it to its bound as well.
const ERROR_BOUND: &str = "device/phc_error_bound";

/// An open device.
#[derive(Debug)]
pub struct PhcSource {
    name: String,
    clock_name: String,
    phc: PhcDevice,
    scale: PhcScale,
    ahead: PhcLead,
    /// Where its driver states how far it may be off, where it does.
    error_bound: Option<Reread>,
}

/// How far the device is ahead of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhcLead {
    /// By its scale, as the kernel knows TAI at each reading.
    ByScale,
    /// By so many seconds; none: not known, and nothing is subtracted.
    Fixed(Option<i32>),
}

impl PhcSource {
    /// Opens `path`, and finds out how it can be compared and what its driver
    /// calls it.
    pub fn open(path: &Path, scale: PhcScale) -> Fact<Self> {
        let name = path.display().to_string();
        let clock_name = clock_name(Path::new(CLASS), path).unwrap_or_default();
        let phc = PhcDevice::open(path).map_err(|error| crate::unknown(&name, &error));
        let ahead = PhcLead::ByScale;
        Fact::from(phc).map(|phc| Self {
            name,
            clock_name,
            phc,
            scale,
            ahead,
            error_bound: device_folder(Path::new(CLASS), path)
                .and_then(|folder| Reread::open(&folder.join(ERROR_BOUND)).ok()),
        })
    }

    /// The same, ahead of UTC by `ahead_s` from now on; by none, its time is
    /// taken as it is, whatever it counts.
    pub fn fixed(self, ahead_s: Option<i32>) -> Self {
        Self { ahead: PhcLead::Fixed(ahead_s), ..self }
    }

    /// Its path.
    pub fn device(&self) -> &str {
        &self.name
    }

    /// What its driver calls it; empty where the kernel does not show it.
    pub fn clock_name(&self) -> &str {
        &self.clock_name
    }

    /// What it was specified to count.
    pub fn scale(&self) -> PhcScale {
        self.scale
    }

    /// How it is compared, and what it is ahead of UTC.
    pub fn status(&self) -> ReadStatus {
        ReadStatus {
            method: Some(self.phc.method().name().to_owned()),
            driver: Some(self.clock_name.clone()).filter(|name| !name.is_empty()),
            leap_smear: self.smear().map(|smear| match smear {
                Smear::Certain => "certain".to_owned(),
                Smear::Possible => "possible".to_owned(),
            }),
            ahead_of_utc_s: match self.ahead {
                PhcLead::ByScale => self.ahead_of_utc_s().ok(),
                PhcLead::Fixed(ahead_s) => ahead_s,
            },
            ..ReadStatus::default()
        }
    }

    /// How far it is ahead of UTC by what it counts, s.
    ///
    /// # Errors
    /// That is not known.
    pub fn ahead_of_utc_s(&self) -> Result<i32, UnknownScale> {
        if self.scale == PhcScale::ByName && scale::is_vmclock(&self.clock_name) {
            let offset = match VmClockSource::open(&Path::new("/dev").join(&self.clock_name)) {
                // To a second the readings are enough: to find the kernel's line takes longer.
                Fact::Known(mut page) => {
                    page.read(now).and_then(|reading| offset(reading, || self.clock_name.clone()))
                }
                Fact::Unknown(why) => Err(why.into()),
            };
            return self.vmclocks_ahead_s(offset);
        }
        self.scale.ahead_of_utc_s(&self.clock_name, kernels_tai_s)
    }

    /// Whether it spreads leap seconds.
    pub fn smear(&self) -> Option<Smear> {
        scale::smear(&self.clock_name)
    }

    /// How far a VMClock's device is ahead of the UTC of its own page, whose offset from
    /// CLOCK_REALTIME is given: never by the name, which two kernels give to two scales, nor by
    /// CLOCK_REALTIME, beside which a device that counts UTC looks like one of TAI after a pause
    /// of 37 s.
    fn vmclocks_ahead_s(
        &self,
        page: Result<OffsetBound, SourceError>,
    ) -> Result<i32, UnknownScale> {
        let page = page.map_err(|why| UnknownScale::PageTellsNone(why.to_string()))?;
        let (device_ns, _) = self.apparent().map_err(|_| UnknownScale::AtNeither)?;
        let tai_s = kernels_tai_s();
        match Apparent::from_lead(device_ns.saturating_sub(page.offset_ns), &tai_s) {
            Apparent::Utc => Ok(0),
            Apparent::Tai => PhcScale::tai(&tai_s).ahead_of_utc_s("", || tai_s),
            Apparent::LessThanUtc | Apparent::Neither => Err(UnknownScale::AtNeither),
        }
    }

    /// How far it is ahead of CLOCK_REALTIME, whatever it counts, ns, and what
    /// it appears to count by that.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn apparent(&self) -> Result<(i64, Apparent), SourceError> {
        let OffsetBound { offset_ns, .. } = offset(self.read_minus(0, now)?, || self.name.clone())?;
        Ok((offset_ns, Apparent::from_lead(offset_ns, &kernels_tai_s())))
    }

    /// Its time between two stamps.
    ///
    /// # Errors
    /// It cannot be read, or it is not known what it counts.
    pub fn read<S>(&self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        let ahead_s = match self.ahead {
            PhcLead::Fixed(ahead_s) => ahead_s.unwrap_or(0),
            PhcLead::ByScale => self.ahead_of_utc_s().map_err(|why| SourceError::Scale {
                device: self.name.clone(),
                clock_name: self.clock_name.clone(),
                why,
            })?,
        };
        self.read_minus(ahead_s, stamp)
    }

    /// How far the device may be off by its driver, ns; 0 where that states nothing.
    ///
    /// # Errors
    /// It states that, and not how much: its time has no bound then.
    fn error_bound_ns(&self) -> Result<u64, SourceError> {
        let Some(file) = &self.error_bound else { return Ok(0) };
        let mut bytes = [0; 32];
        let read = file.read(&mut bytes);
        let length = read.map_err(|error| crate::unknown(&self.stated_by(), &error))?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        let bound_ns = text.trim().parse().ok();
        bound_ns.ok_or_else(|| Unknown::malformed(&self.stated_by(), "nanoseconds", &text).into())
    }

    /// The file in which its driver states its error, for people.
    fn stated_by(&self) -> String {
        format!("{ERROR_BOUND} of {}", self.name)
    }

    fn read_minus<S>(
        &self,
        ahead_s: i32,
        stamp: impl Fn() -> S,
    ) -> Result<TimeReading<S>, SourceError> {
        let before = stamp();
        let shown = self.phc.read();
        let after = stamp();
        let shown = shown.map_err(|error| crate::unknown(&self.name, &error))?;
        let before_1970 = || SourceError::Before1970 { device: self.name.clone() };
        let PhcReading { device_ns, cross_timestamp } =
            shown.minus_s(ahead_s).ok_or_else(before_1970)?;
        // The kernel's own CLOCK_REALTIME is nearer to the device than ours.
        let utc_ns = Interval::around(cross_timestamp.shown_ns, self.error_bound_ns()?);
        Ok(TimeReading {
            before,
            utc_ns,
            shown_ns: device_ns,
            cross_timestamp: Some(cross_timestamp),
            after,
        })
    }
}

/// A PTP hardware clock as one of this machine's clocks: ns at the first and
/// the last read of the device, whatever they count.
///
/// # Errors
/// It cannot be read.
pub fn device_reader(path: &Path) -> Result<impl Fn() -> Option<(u64, u64)> + use<>, Unknown> {
    let phc = PhcDevice::open(path);
    let phc = phc.map_err(|error| crate::unknown(&path.display().to_string(), &error))?;
    Ok(move || Some(phc.read().ok()?.device_ns))
}

/// The devices that tell the time of day by their names: hosts' clocks, for the
/// most part.
pub fn hosts_clocks() -> Vec<PathBuf> {
    hosts_clocks_below(Path::new(CLASS))
}

fn hosts_clocks_below(class: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = entries
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .filter(|device| {
            clock_name(class, device)
                .is_some_and(|name| PhcDriver::from_clock_name(&name).is_hosts())
        })
        .collect();
    devices.sort();
    devices
}

/// Where the kernel describes `device`.
fn device_folder(class: &Path, device: &Path) -> Option<PathBuf> {
    // udev makes links such as /dev/ptp_kvm.
    let device = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    Some(class.join(device.file_name()?))
}

/// The name that the driver of `device` gives it.
fn clock_name(class: &Path, device: &Path) -> Option<String> {
    let text = std::fs::read_to_string(device_folder(class, device)?.join("clock_name")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests;
