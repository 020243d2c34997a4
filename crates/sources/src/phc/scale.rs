//! What a PTP hardware clock counts, UTC or TAI, and how far that is ahead of
//! UTC.

use facts::hardware::{PhcDriver, PhcTime};
use facts::{Fact, Unknown};

/// Whether a clock spreads leap seconds over hours, and is up to half a second
/// off UTC then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smear {
    /// It does.
    Certain,
    /// It may.
    Possible,
}

/// What a device counts by its name, and whether it spreads leap seconds. A
/// VMClock device's name states nothing: UTC before Linux 7.0, TAI since, and
/// distributions take changes back to older kernels. It is measured.
pub(super) fn named(clock_name: &str) -> PhcTime {
    PhcDriver::from_clock_name(clock_name).time(None)
}

pub(super) fn is_vmclock(clock_name: &str) -> bool {
    PhcDriver::from_clock_name(clock_name) == PhcDriver::VmClock
}

/// Whether it spreads leap seconds, by its name.
pub(super) fn smear(clock_name: &str) -> Option<Smear> {
    match named(clock_name) {
        PhcTime::SmearedUtc => Some(Smear::Certain),
        PhcTime::PerhapsSmearedUtc => Some(Smear::Possible),
        _ => None,
    }
}

/// TAI − UTC since 2017, s (IERS Bulletin C 52).
const TAI_SINCE_2017_S: i32 = 37;

/// A clock this near to UTC or TAI, ns, appears to count it: of clocks that are
/// off, few are off by whole seconds.
const NEAR_NS: u64 = 500_000_000;

/// What a device counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcScale {
    /// By its driver's name, where that is known.
    ByName,
    /// UTC.
    Utc,
    /// TAI: ahead of UTC by what the kernel was set to (`adjtimex`'s tai).
    Tai,
    /// TAI: ahead of UTC by so many seconds.
    TaiBy(i32),
}

/// Why it is not known how far a device is ahead of UTC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownScale {
    /// A network card's, of which nothing states what it counts.
    #[error("its name does not show whether it counts UTC or TAI")]
    NotNamed,
    /// A virtio-rtc clock that counts from its host's start.
    #[error("it counts from the host's start, so it shows no time of day")]
    NoTimeOfDay,
    /// A VMClock device that is neither at UTC nor at TAI by its page.
    #[error("it counts UTC or TAI depending on the kernel's version, but its time matches neither")]
    AtNeither,
    /// A VMClock device whose page cannot be read, or shows no time.
    #[error("cannot take the time from its page: {0}")]
    PageTellsNone(String),
    /// `adjtimex`'s tai is 0.
    #[error("it counts TAI, and the kernel has not been set to TAI - UTC (adjtimex: tai 0)")]
    TaiNotSet,
    /// `adjtimex` cannot be read.
    #[error("it counts TAI, and TAI - UTC cannot be read from the kernel: {0}")]
    TaiUnknown(Unknown),
}

/// What a clock appears to count, compared with one of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apparent {
    /// The same.
    Utc,
    /// TAI: it is ahead by as much as TAI is.
    Tai,
    /// UTC less what TAI is ahead: what counts UTC, and was taken for TAI.
    LessThanUtc,
    /// Neither, or the other clock is wrong.
    Neither,
}

impl Apparent {
    /// Of a clock that is ahead of another's UTC by so much, ns; `tai_s` is
    /// what the kernel was set to, TAI − UTC, s; 0 where it was not.
    pub fn from_lead(ahead_ns: i64, tai_s: &Fact<i32>) -> Self {
        let tai_s = set(tai_s).unwrap_or(TAI_SINCE_2017_S);
        let tai_ns = i64::from(tai_s) * 1_000_000_000;
        match ahead_ns {
            ahead if ahead.unsigned_abs() < NEAR_NS => Self::Utc,
            ahead if ahead.abs_diff(tai_ns) < NEAR_NS => Self::Tai,
            ahead if ahead.abs_diff(-tai_ns) < NEAR_NS => Self::LessThanUtc,
            _ => Self::Neither,
        }
    }
}

/// TAI − UTC as the kernel was set, s, if it was and can be read.
fn set(tai_s: &Fact<i32>) -> Option<i32> {
    tai_s.value().copied().filter(|tai_s| *tai_s != 0)
}

/// TAI − UTC as the kernel was set (`adjtimex`), s; 0 where it was not.
pub fn kernels_tai_s() -> Fact<i32> {
    let timex = linux::adjtimex::read().map_err(|error| crate::unknown("adjtimex", &error));
    Fact::from(timex).map(|timex| timex.tai_s)
}

impl PhcScale {
    /// How to specify that a device counts TAI: as the kernel was set, or by a
    /// number where it was not. `tai_s` as in [`Apparent::from_lead`].
    pub fn tai(tai_s: &Fact<i32>) -> Self {
        set(tai_s).map_or(Self::TaiBy(TAI_SINCE_2017_S), |_| Self::Tai)
    }

    /// How far a device of that driver's name is ahead of UTC, s; `tai_s`
    /// queries the kernel, which returns 0 where it was not set.
    pub(super) fn ahead_of_utc_s(
        self,
        clock_name: &str,
        tai_s: impl FnOnce() -> Fact<i32>,
    ) -> Result<i32, UnknownScale> {
        match self {
            Self::Utc => Ok(0),
            Self::ByName if is_vmclock(clock_name) => Err(UnknownScale::AtNeither),
            Self::ByName => match named(clock_name) {
                PhcTime::Utc | PhcTime::SmearedUtc | PhcTime::PerhapsSmearedUtc => Ok(0),
                PhcTime::Tai => Self::Tai.ahead_of_utc_s(clock_name, tai_s),
                PhcTime::Monotonic => Err(UnknownScale::NoTimeOfDay),
                PhcTime::Unknown => Err(UnknownScale::NotNamed),
            },
            Self::TaiBy(seconds) => Ok(seconds),
            Self::Tai => match tai_s() {
                Fact::Known(0) => Err(UnknownScale::TaiNotSet),
                Fact::Known(tai_s) => Ok(tai_s),
                Fact::Unknown(why) => Err(UnknownScale::TaiUnknown(why)),
            },
        }
    }
}

impl std::fmt::Display for PhcScale {
    /// As a person would type it, after the device: `,tai`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ByName => Ok(()),
            Self::Utc => f.write_str(",utc"),
            Self::Tai => f.write_str(",tai"),
            Self::TaiBy(seconds) => write!(f, ",tai={seconds}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_clocks_count_utc_and_others_must_be_specified() {
        let ahead =
            |scale: PhcScale, name, tai_s| scale.ahead_of_utc_s(name, || Fact::Known(tai_s));
        let virtio = ["Virtio PTP type 0/variant 0", "Virtio PTP type 4/variant 1"];
        let others = ["KVM virtual PTP", "hyperv", "ptp_vmw", "ena-ptp-05"];
        for name in others.into_iter().chain(virtio) {
            assert_eq!(ahead(PhcScale::ByName, name, 0), Ok(0), "{name}");
        }
        let of_tai = "Virtio PTP type 1/variant 0";
        assert_eq!(ahead(PhcScale::ByName, of_tai, 37), Ok(37));
        assert_eq!(ahead(PhcScale::ByName, of_tai, 0), Err(UnknownScale::TaiNotSet));
        let monotonic = ahead(PhcScale::ByName, "Virtio PTP type 2/variant 0", 37);
        assert_eq!(monotonic, Err(UnknownScale::NoTimeOfDay));
        assert_eq!(smear("Virtio PTP type 3/variant 2"), Some(Smear::Certain));
        // By its name alone it may count either.
        assert!(ahead(PhcScale::ByName, "vmclock0", 37).is_err());
        let card = "mlx5_ptp";
        assert_eq!(ahead(PhcScale::ByName, card, 37), Err(UnknownScale::NotNamed));
        assert_eq!(ahead(PhcScale::ByName, "", 37), Err(UnknownScale::NotNamed));
        assert_eq!(ahead(PhcScale::Utc, card, 37), Ok(0));
        assert_eq!(ahead(PhcScale::Tai, card, 37), Ok(37));
        assert_eq!(ahead(PhcScale::Tai, card, 0), Err(UnknownScale::TaiNotSet));
        assert_eq!(ahead(PhcScale::TaiBy(38), card, 37), Ok(38));
        let why = Unknown::not_there("adjtimex");
        let unread = PhcScale::Tai.ahead_of_utc_s(card, || Fact::Unknown(why.clone()));
        assert_eq!(unread, Err(UnknownScale::TaiUnknown(why)));
        // What is specified outweighs a name.
        assert_eq!(ahead(PhcScale::Tai, "KVM virtual PTP", 37), Ok(37));
    }

    #[test]
    fn what_is_ahead_as_tai_is_appears_to_be_tai() {
        let of =
            |ahead_s: f64, tai_s| Apparent::from_lead((ahead_s * 1e9) as i64, &Fact::Known(tai_s));
        for tai_s in [0, 37] {
            assert_eq!(of(0.0, tai_s), Apparent::Utc);
            assert_eq!(of(-0.4, tai_s), Apparent::Utc);
            assert_eq!(of(37.2, tai_s), Apparent::Tai);
            assert_eq!(of(36.6, tai_s), Apparent::Tai);
            assert_eq!(of(-36.9, tai_s), Apparent::LessThanUtc);
            for ahead_s in [0.6, 36.4, 38.0, -35.0, 3600.0] {
                assert_eq!(of(ahead_s, tai_s), Apparent::Neither, "{ahead_s}");
            }
        }
        assert_eq!((of(37.0, 38), of(38.0, 38)), (Apparent::Neither, Apparent::Tai));
        assert_eq!(Apparent::from_lead(i64::MIN, &Fact::Known(37)), Apparent::Neither);
    }

    #[test]
    fn tai_is_a_number_where_the_kernel_has_none() {
        let of = |tai_s| PhcScale::tai(&tai_s);
        assert_eq!(of(Fact::Known(37)), PhcScale::Tai);
        assert_eq!(of(Fact::Known(0)), PhcScale::TaiBy(37));
        assert_eq!(of(Fact::Unknown(Unknown::not_there("adjtimex"))), PhcScale::TaiBy(37));
    }

    #[test]
    fn a_scale_reads_as_it_is_typed() {
        use PhcScale::{ByName, Tai, TaiBy, Utc};
        let typed = [ByName, Utc, Tai, TaiBy(37)].map(|scale| format!("/dev/ptp1{scale}"));
        assert_eq!(typed, ["/dev/ptp1", "/dev/ptp1,utc", "/dev/ptp1,tai", "/dev/ptp1,tai=37"]);
    }
}
