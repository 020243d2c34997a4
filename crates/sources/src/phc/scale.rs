//! What a PTP hardware clock counts, UTC or TAI, and how far that is ahead of
//! UTC.

use facts::{Fact, Unknown};

/// How the names of those begin that count UTC: the hosts' clocks, after
/// `ptp_clock_info.name` in drivers/ptp/{ptp_kvm_common,ptp_vmclock,ptp_vmw}.c
/// and drivers/hv/hv_util.c, and that of Amazon's network card, which chronyd
/// is configured to take as it is ("Set the time reference on your EC2 instance to
/// use the Amazon Time Sync Service").
const UTC_NAMES: [&str; 5] = ["KVM virtual PTP", "vmclock", "ptp_vmw", "hyperv", "ena-ptp"];

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
    pub fn of(ahead_ns: i64, tai_s: &Fact<i32>) -> Self {
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
    tai_s.known().copied().filter(|tai_s| *tai_s != 0)
}

/// Whether a device of that driver's name counts UTC.
pub(super) fn counts_utc(clock_name: &str) -> bool {
    UTC_NAMES.iter().any(|name| clock_name.starts_with(name))
}

/// TAI − UTC as the kernel was set (`adjtimex`), s; 0 where it was not.
pub fn kernels_tai_s() -> Fact<i32> {
    let timex = linux::adjtimex::read().map_err(|error| crate::unknown("adjtimex", &error));
    Fact::from(timex).map(|timex| timex.tai_s)
}

impl PhcScale {
    /// How to specify that a device counts TAI: as the kernel was set, or by a
    /// number where it was not. `tai_s` as in [`Apparent::of`].
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
            Self::ByName if counts_utc(clock_name) => Ok(0),
            Self::ByName => Err(UnknownScale::NotNamed),
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
        for name in ["KVM virtual PTP", "hyperv", "vmclock0", "ptp_vmw", "ena-ptp-05"] {
            assert_eq!(ahead(PhcScale::ByName, name, 0), Ok(0), "{name}");
        }
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
        let of = |ahead_s: f64, tai_s| Apparent::of((ahead_s * 1e9) as i64, &Fact::Known(tai_s));
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
        assert_eq!(Apparent::of(i64::MIN, &Fact::Known(37)), Apparent::Neither);
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
