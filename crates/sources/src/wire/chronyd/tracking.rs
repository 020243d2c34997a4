//! What chronyd knows of the system clock's error.
//!
//! chronyd gives the kernel an error bound too, which adjtimex shows, but a
//! poorer one (chrony 4: `REF_SetReference` in reference.c, `set_sync_status`
//! in sys_timex.c): the kernel adds 500 ppm of the time since the last update,
//! half a second after a usual poll of 1024 s; the offset that chronyd is
//! still slewing is not in it; and without `rtcsync` in its configuration the
//! clock counts as unsynchronised. The tracking reply is complete, as of the
//! moment of the reply. From it [`Tracking::error_bound`] follows the manual
//! (chronyc(1), "Root dispersion"): the remaining offset, the root dispersion,
//! and half the root delay. The bound grows by the uncertainty of the
//! frequency: the residual frequency, the skew, and the 1 ppm by which chronyd
//! assumes that any clock wanders (`maxclockerror`).

use core::net::IpAddr;

use crate::wire::chronyd::{Float, MAX_REPLY_BYTES};

/// The reference ID of a chronyd that serves its own clock (`local`).
const LOCAL: u32 = 0x7f7f_0101;
/// `maxclockerror` unless the configuration sets it.
const WANDER_PPB: u64 = 1_000;
/// The upper half of the seconds where chronyd's `time_t` has 32 bits.
const NO_HIGH_SECONDS: u32 = 0x7fff_ffff;

/// The reply to [`ChronydRequest::Tracking`](crate::wire::chronyd::ChronydRequest::Tracking).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tracking {
    /// The reference: four characters for a reference clock, else a number.
    pub reference_id: u32,
    /// The selected server's address; `None` for a reference clock, or while
    /// there is none.
    pub address: Option<IpAddr>,
    /// Stratum; 0 while not synchronised.
    pub stratum: u16,
    /// Leap status.
    pub leap: TrackingLeap,
    /// When the clock was last updated, s and ns since 1970.
    pub updated: (u64, u32),
    /// Correction still to be slewed, s: positive where the clock is slow.
    pub system_offset: Float,
    /// Last measured offset, s.
    pub last_offset: Float,
    /// Long-term average of the offset, s.
    pub rms_offset: Float,
    /// Error of the frequency without correction, ppm: positive where fast.
    pub frequency: Float,
    /// Difference between the measured frequency and the one in use, ppm.
    pub residual_frequency: Float,
    /// Bound on the frequency's error, ppm.
    pub skew: Float,
    /// Round-trip delay to the primary reference, s.
    pub root_delay: Float,
    /// Dispersion accumulated from the primary reference, s.
    pub root_dispersion: Float,
    /// Time between the last two updates, s.
    pub update_interval: Float,
}

/// Leap status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackingLeap {
    /// Synchronised, no leap second today.
    Normal,
    /// The last minute of the day has 61 seconds.
    InsertSecond,
    /// The last minute of the day has 59 seconds.
    DeleteSecond,
    /// Not synchronised to any source.
    NotSynchronised,
    /// A number that the protocol does not define.
    Other(u16),
}

impl TrackingLeap {
    const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Normal,
            1 => Self::InsertSecond,
            2 => Self::DeleteSecond,
            3 => Self::NotSynchronised,
            other => Self::Other(other),
        }
    }

    /// As `chronyc tracking` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::InsertSecond => "Insert second",
            Self::DeleteSecond => "Delete second",
            Self::NotSynchronised => "Not synchronised",
            Self::Other(_) => "Invalid",
        }
    }
}

/// A bound on the system clock's error, in integers that are rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorBound {
    /// Largest error as of the reply, ns; `None` while chronyd follows no
    /// source.
    pub error_ns: Option<u64>,
    /// How fast that grows while chronyd keeps correcting the clock, ppb.
    pub growth_ppb: u64,
    /// When the clock was last updated, ns since 1970: a new value means that
    /// chronyd measured a source in between.
    pub updated_ns: u128,
}

impl Tracking {
    pub(crate) fn decode(reply: &[u8; MAX_REPLY_BYTES]) -> Self {
        let short = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let float = |at: usize| Float(word(at));
        let high = if word(56) == NO_HIGH_SECONDS { 0 } else { word(56) };
        let mut address = [0; 16];
        address.copy_from_slice(&reply[32..48]);
        Self {
            reference_id: word(28),
            address: match short(48) {
                1 => Some(IpAddr::from([reply[32], reply[33], reply[34], reply[35]])),
                2 => Some(IpAddr::from(address)),
                _ => None,
            },
            stratum: short(52),
            leap: TrackingLeap::from_number(short(54)),
            updated: (u64::from(high) << 32 | u64::from(word(60)), word(64)),
            system_offset: float(68),
            last_offset: float(72),
            rms_offset: float(76),
            frequency: float(80),
            residual_frequency: float(84),
            skew: float(88),
            root_delay: float(92),
            root_dispersion: float(96),
            update_interval: float(100),
        }
    }

    /// Whether it follows a source, which may be its own clock (`local`).
    pub const fn is_synchronised(&self) -> bool {
        self.stratum > 0
            && !matches!(self.leap, TrackingLeap::NotSynchronised | TrackingLeap::Other(_))
    }

    /// How far the system clock may be from UTC.
    pub fn error_bound(&self) -> ErrorBound {
        let knows_utc = !matches!(self.reference_id, 0 | LOCAL) && self.is_synchronised();
        let error_ns = self
            .system_offset
            .abs_billionths()
            .saturating_add(self.root_dispersion.abs_billionths())
            .saturating_add(self.root_delay.abs_billionths().div_ceil(2));
        let ppb = |ppm: Float| ppm.abs_billionths().div_ceil(1_000_000);
        let (seconds, nanos) = self.updated;
        ErrorBound {
            error_ns: knows_utc.then_some(error_ns),
            growth_ppb: WANDER_PPB
                .saturating_add(ppb(self.residual_frequency))
                .saturating_add(ppb(self.skew)),
            updated_ns: u128::from(seconds) * 1_000_000_000 + u128::from(nanos),
        }
    }
}
