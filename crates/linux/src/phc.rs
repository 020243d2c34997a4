//! PTP hardware clocks, `/dev/ptpN`: a network card's, and the host's as
//! ptp_kvm, ptp_vmw and hv_util show it to their guests.
//!
//! The kernel offers three ways of comparing one with the system's clocks
//! (Documentation/driver-api/ptp.rst, include/uapi/linux/ptp_clock.h). *Precise*
//! has the hardware, or for ptp_kvm the hypercall KVM_HC_CLOCK_PAIRING, latch
//! both at one instant; *extended* reads the device between two reads of
//! CLOCK_REALTIME, close around the register; *plain* alternates, and is all that
//! ptp_kvm has where Linux counts by the TSC.
//!
//! # Invariants
//! 1. The three requests read and write one structure, of the size that their
//!    number states, at the pointer they are given, and keep nothing; ours is a
//!    live local of libc's type for that request.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd};
use std::path::Path;

use libc::{ptp_clock_time, ptp_sys_offset, ptp_sys_offset_extended, ptp_sys_offset_precise};
use pvclock::units::CrossTimestamp;
use rustix::time::{DynamicClockId, clock_gettime_dynamic};

use crate::published::open_at_once;

/// Comparisons an extended request makes.
const SAMPLES: u8 = 9;

/// Room of the plain request.
const PLAIN_TIMES: usize = 2 * libc::PTP_MAX_SAMPLES as usize + 1;

/// An open device.
#[derive(Debug)]
pub struct PhcDevice {
    device: Box<dyn Device>,
    method: PhcMethod,
}

/// The kernel's three requests: of an open file of the device, or of a recording.
pub trait Device: std::fmt::Debug {
    /// PTP_SYS_OFFSET_PRECISE.
    ///
    /// # Errors
    /// The system's: EOPNOTSUPP where nothing can be cross-timestamped.
    fn precise(&self) -> io::Result<ptp_sys_offset_precise>;

    /// PTP_SYS_OFFSET_EXTENDED.
    ///
    /// # Errors
    /// The system's.
    fn extended(&self) -> io::Result<ptp_sys_offset_extended>;

    /// PTP_SYS_OFFSET, as the times around each of the device's.
    ///
    /// # Errors
    /// The system's; no recording has it.
    fn plain(&self) -> io::Result<ptp_sys_offset_extended> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What the clock of an open device shows, ns: without any other clock.
///
/// # Errors
/// The system's, or a time before 1970 or beyond 2554.
pub fn shown_ns(device: &File) -> io::Result<u64> {
    let time = clock_gettime_dynamic(DynamicClockId::Dynamic(device.as_fd()))?;
    let seconds = u64::try_from(time.tv_sec).ok().and_then(|s| s.checked_mul(1_000_000_000));
    let ns = seconds.and_then(|ns| ns.checked_add_signed(time.tv_nsec));
    ns.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// How the device is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PhcMethod {
    /// Both clocks latched at one instant.
    Precise,
    /// The device between two reads of CLOCK_REALTIME, close around the register.
    Extended,
    /// The device between two reads of CLOCK_REALTIME.
    Plain,
}

/// From the best on.
const METHODS: [PhcMethod; 3] = [PhcMethod::Precise, PhcMethod::Extended, PhcMethod::Plain];

impl PhcMethod {
    /// The kernel's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Precise => "precise",
            Self::Extended => "extended",
            Self::Plain => "plain",
        }
    }
}

/// The device and the system's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhcReading {
    /// The device's first and last time of this reading, ns.
    pub device_ns: (u64, u64),
    /// The device's time and the system's clocks, the tightest of them.
    pub cross_timestamp: CrossTimestamp,
}

impl PhcReading {
    /// With the device's times `seconds` earlier, for one that counts TAI;
    /// none where that is before 1970.
    pub fn minus_s(self, seconds: i32) -> Option<Self> {
        let minus = |ns: u64| ns.checked_add_signed(-i64::from(seconds) * 1_000_000_000);
        Some(Self {
            device_ns: (minus(self.device_ns.0)?, minus(self.device_ns.1)?),
            cross_timestamp: CrossTimestamp {
                shown_ns: minus(self.cross_timestamp.shown_ns)?,
                ..self.cross_timestamp
            },
        })
    }
}

impl PhcDevice {
    /// Opens `path` and finds out how it can be compared.
    ///
    /// # Errors
    /// The system's, or it is no such clock.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::over(Box::new(open_at_once(path)?))
    }

    /// Any device that answers one of the requests.
    ///
    /// # Errors
    /// As [`PhcDevice::open`].
    pub fn over(device: Box<dyn Device>) -> io::Result<Self> {
        let mut phc = Self { device, method: PhcMethod::Precise };
        phc.method = phc.read_by_best()?.0;
        Ok(phc)
    }

    /// How it was compared when it was opened.
    pub fn method(&self) -> PhcMethod {
        self.method
    }

    /// Reads it once, with the system's clocks.
    ///
    /// # Errors
    /// The system's, or times before 1970 or out of order.
    pub fn read(&self) -> io::Result<PhcReading> {
        self.read_by_best().map(|(_, reading)| reading)
    }

    /// By the method it was opened with, or by the next one that works now: ptp_kvm latches no more
    /// once the clock source became the TSC. The error is the first one's.
    fn read_by_best(&self) -> io::Result<(PhcMethod, PhcReading)> {
        let mut error = None;
        for method in METHODS.into_iter().skip_while(|method| *method != self.method) {
            match self.read_by(method) {
                Ok(reading) => return Ok((method, reading)),
                Err(why) => error = error.or(Some(why)),
            }
        }
        Err(error.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }

    fn read_by(&self, method: PhcMethod) -> io::Result<PhcReading> {
        let reading = match method {
            PhcMethod::Precise => from_precise(&self.device.precise()?),
            PhcMethod::Extended => from_extended(&self.device.extended()?),
            PhcMethod::Plain => from_extended(&self.device.plain()?),
        };
        let what = "expected times since 1970, in order, found one before 1970, beyond 2554 or \
                    out of order";
        reading.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, what))
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
        let mut triples = with_times([[none; 3]; libc::PTP_MAX_SAMPLES as usize]);
        let (fd, request) = (self.as_raw_fd(), libc::PTP_SYS_OFFSET_EXTENDED);
        // SAFETY: invariant 1.
        let result = unsafe { libc::ioctl(fd, request, &raw mut triples) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(triples) }
    }

    fn plain(&self) -> io::Result<ptp_sys_offset_extended> {
        let none = ptp_clock_time { sec: 0, nsec: 0, reserved: 0 };
        let mut plain =
            ptp_sys_offset { n_samples: SAMPLES.into(), rsv: [0; 3], ts: [none; PLAIN_TIMES] };
        // SAFETY: invariant 1.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), libc::PTP_SYS_OFFSET, &raw mut plain) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(with_times(in_triples(&plain.ts)))
    }
}

/// The extended request with these times.
fn with_times(
    ts: [[ptp_clock_time; 3]; libc::PTP_MAX_SAMPLES as usize],
) -> ptp_sys_offset_extended {
    let clockid = libc::CLOCK_REALTIME;
    ptp_sys_offset_extended { n_samples: SAMPLES.into(), clockid, rsv: [0; 2], ts }
}

/// The system's times and the device's in turn, as the times around each of the device's.
fn in_triples(
    times: &[ptp_clock_time; PLAIN_TIMES],
) -> [[ptp_clock_time; 3]; libc::PTP_MAX_SAMPLES as usize] {
    std::array::from_fn(|index| std::array::from_fn(|which| times[2 * index + which]))
}

fn ns(time: ptp_clock_time) -> Option<u64> {
    u64::try_from(time.sec).ok()?.checked_mul(1_000_000_000)?.checked_add(time.nsec.into())
}

fn from_precise(pair: &ptp_sys_offset_precise) -> Option<PhcReading> {
    let device = ns(pair.device)?;
    let realtime = ns(pair.sys_realtime)?;
    Some(PhcReading {
        device_ns: (device, device),
        cross_timestamp: CrossTimestamp {
            shown_ns: device,
            realtime_ns: (realtime, realtime),
            raw_ns: Some(ns(pair.sys_monoraw)?),
        },
    })
}

fn from_extended(triples: &ptp_sys_offset_extended) -> Option<PhcReading> {
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
    Some(PhcReading {
        device_ns: (read.first()?[1], read.last()?[1]),
        cross_timestamp: CrossTimestamp {
            shown_ns: device,
            realtime_ns: (before, after),
            raw_ns: None,
        },
    })
}

#[cfg(test)]
mod tests;
