//! PTP hardware clocks, `/dev/ptpN`: a network card's, and the host's as
//! ptp_kvm, ptp_vmw and hv_util show it to their guests.
//!
//! The kernel offers three ways of comparing one with the system's clocks
//! (Documentation/driver-api/ptp.rst, include/uapi/linux/ptp_clock.h). *Precise*
//! has the hardware, or for ptp_kvm the hypercall KVM_HC_CLOCK_PAIRING, latch
//! both at one instant; *extended* reads the device between two reads of
//! CLOCK_REALTIME, close around the register; the plain one alternates.
//!
//! # Invariants
//! 1. The two requests read and write one structure, of the size that their
//!    number tells, at the pointer they are given, and keep nothing; ours is a
//!    live local of libc's type for that request.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use libc::{ptp_clock_time, ptp_sys_offset_extended, ptp_sys_offset_precise};

use facts::{Fact, Unknown};

/// Comparisons an extended request makes.
const SAMPLES: u8 = 9;

/// An open device.
#[derive(Debug)]
pub struct Phc {
    path: PathBuf,
    device: Box<dyn Device>,
    way: Way,
}

/// The kernel's two requests.
trait Device: std::fmt::Debug {
    fn precise(&self) -> io::Result<ptp_sys_offset_precise>;
    fn extended(&self) -> io::Result<ptp_sys_offset_extended>;
}

/// How the device is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Both clocks latched at one instant.
    Precise,
    /// The device between two reads of CLOCK_REALTIME.
    Extended,
}

/// The device and the system's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The device's first and last reading of this comparison, ns.
    pub device_ns: (u64, u64),
    /// CLOCK_REALTIME around the device, or at it, ns: the tightest pair.
    pub realtime_ns: (u64, u64),
    /// The device's reading that belongs to it, ns.
    pub device_at_realtime_ns: u64,
    /// CLOCK_MONOTONIC_RAW at the same instant, where it was latched, ns.
    pub raw_ns: Option<u64>,
}

impl Comparison {
    /// Of what the device shows less `seconds`, as where it counts TAI; none
    /// where that is before 1970.
    pub fn less(self, seconds: i32) -> Option<Self> {
        let less = |ns: u64| ns.checked_add_signed(-i64::from(seconds) * 1_000_000_000);
        Some(Self {
            device_ns: (less(self.device_ns.0)?, less(self.device_ns.1)?),
            device_at_realtime_ns: less(self.device_at_realtime_ns)?,
            ..self
        })
    }
}

impl Phc {
    /// Opens `path` and finds out how it can be compared.
    pub fn open(path: &Path) -> Fact<Self> {
        let what = path.display().to_string();
        match File::open(path) {
            Ok(device) => Self::over(path, Box::new(device)),
            Err(error) => Fact::Unknown(crate::privilege::why(&what, &error)),
        }
    }

    fn over(path: &Path, device: Box<dyn Device>) -> Fact<Self> {
        let mut phc = Self { path: path.to_owned(), device, way: Way::Precise };
        if phc.compare().known().is_some() {
            return Fact::Known(phc);
        }
        phc.way = Way::Extended;
        phc.compare().map(|_| phc)
    }

    /// How it is compared.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Compares it once.
    pub fn compare(&self) -> Fact<Comparison> {
        let compared = match self.way {
            Way::Precise => self.device.precise().map(|pair| from_precise(&pair)),
            Way::Extended => self.device.extended().map(|triples| from_extended(&triples)),
        };
        let what = self.path.display().to_string();
        match compared {
            Ok(Some(comparison)) => Fact::Known(comparison),
            Ok(None) => Fact::Unknown(Unknown::malformed(
                &what,
                "times since 1970, in order",
                "one before 1970, beyond 2554 or out of order",
            )),
            Err(error) => Fact::Unknown(crate::privilege::why(&what, &error)),
        }
    }
}

impl Device for File {
    fn precise(&self) -> io::Result<ptp_sys_offset_precise> {
        let none = ptp_clock_time { sec: 0, nsec: 0, reserved: 0 };
        let mut pair = ptp_sys_offset_precise {
            device: none,
            sys_realtime: none,
            sys_monoraw: none,
            rsv: [0; 4],
        };
        let (fd, request) = (self.as_raw_fd(), libc::PTP_SYS_OFFSET_PRECISE);
        // SAFETY: invariant 1.
        let result = unsafe { libc::ioctl(fd, request, &raw mut pair) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(pair) }
    }

    fn extended(&self) -> io::Result<ptp_sys_offset_extended> {
        let none = ptp_clock_time { sec: 0, nsec: 0, reserved: 0 };
        let mut triples = ptp_sys_offset_extended {
            n_samples: SAMPLES.into(),
            clockid: libc::CLOCK_REALTIME,
            rsv: [0; 2],
            ts: [[none; 3]; libc::PTP_MAX_SAMPLES as usize],
        };
        let (fd, request) = (self.as_raw_fd(), libc::PTP_SYS_OFFSET_EXTENDED);
        // SAFETY: invariant 1.
        let result = unsafe { libc::ioctl(fd, request, &raw mut triples) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(triples) }
    }
}

fn ns(time: ptp_clock_time) -> Option<u64> {
    u64::try_from(time.sec).ok()?.checked_mul(1_000_000_000)?.checked_add(time.nsec.into())
}

fn from_precise(pair: &ptp_sys_offset_precise) -> Option<Comparison> {
    let device = ns(pair.device)?;
    let realtime = ns(pair.sys_realtime)?;
    Some(Comparison {
        device_ns: (device, device),
        realtime_ns: (realtime, realtime),
        device_at_realtime_ns: device,
        raw_ns: Some(ns(pair.sys_monoraw)?),
    })
}

fn from_extended(triples: &ptp_sys_offset_extended) -> Option<Comparison> {
    let used = usize::try_from(triples.n_samples).ok()?;
    let read: Vec<[u64; 3]> = triples
        .ts
        .get(..used)?
        .iter()
        .map(|&[before, device, after]| Some([ns(before)?, ns(device)?, ns(after)?]))
        .collect::<Option<_>>()?;
    let [before, device, after] = *read
        .iter()
        .filter(|[before, _, after]| before <= after)
        .min_by_key(|[before, _, after]| after - before)?;
    Some(Comparison {
        device_ns: (read.first()?[1], read.last()?[1]),
        realtime_ns: (before, after),
        device_at_realtime_ns: device,
        raw_ns: None,
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod trace;
