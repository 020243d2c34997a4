//! A PTP hardware clock as people name it: a device and what it counts,
//! `/dev/ptp0`, `/dev/ptp1,tai`.

use std::path::{Path, PathBuf};

use facts::Fact;
use platform::time_source::{Apparent, NoOffset, PhcScale, PhcTime, UnknownScale, kernels_tai_s};

use crate::error::CliError;
use instruments::figures::time;

/// TAI − UTC that can be meant, s: 10 in 1972, when leap seconds began.
const TAI_S: std::ops::RangeInclusive<i32> = 10..=99;

/// A device, and what it is said to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPhc {
    pub(crate) path: PathBuf,
    pub(crate) scale: PhcScale,
}

/// Whether two paths lead to one device.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole(one) == whole(other)
}

/// For clap's `value_parser`.
pub(crate) fn parse(text: &str) -> Result<NamedPhc, String> {
    let (path, scale) = match text.split_once(',') {
        Some((path, scale)) => (path, scale_named(scale)),
        None => (text, Some(PhcScale::ByName)),
    };
    // Devices' names go into records, whose fields end at commas.
    let is_fit = !path.is_empty()
        && !path.contains(|c: char| c == '"' || c.is_control() || c.is_whitespace());
    match scale {
        Some(scale) if is_fit => Ok(NamedPhc { path: path.into(), scale }),
        _ => Err(format!(
            "expected a device such as /dev/ptp0, /dev/ptp1,utc, /dev/ptp1,tai or \
             /dev/ptp1,tai=37, found {text:?}"
        )),
    }
}

fn scale_named(text: &str) -> Option<PhcScale> {
    match text.split_once('=') {
        None if text == "utc" => Some(PhcScale::Utc),
        None if text == "tai" => Some(PhcScale::Tai),
        Some(("tai", seconds)) => {
            seconds.parse().ok().filter(|s| TAI_S.contains(s)).map(PhcScale::TaiBy)
        }
        _ => None,
    }
}

/// That it is not known what `phc` counts, and what to do about it.
pub(crate) fn unknown_scale(phc: &PhcTime, why: UnknownScale) -> CliError {
    CliError::Failed {
        cause: cause(phc.device(), phc.clock_name(), &why, phc.apparent()),
        remedy: remedy(phc.device(), &why, &kernels_tai_s()),
    }
}

/// Why a source gives no offset, and what to do where more is to be said of a
/// device.
pub(crate) fn silent(why: &NoOffset) -> String {
    match why {
        NoOffset::Scale { device, why: unknown, .. } => {
            format!("{why}; try: {}", remedy(device, unknown, &kernels_tai_s()))
        }
        _ => why.to_string(),
    }
}

fn cause(
    device: &str,
    clock_name: &str,
    why: &UnknownScale,
    apparent: Result<(i64, Apparent), NoOffset>,
) -> String {
    let called = if clock_name.is_empty() { String::new() } else { format!(" ({clock_name:?})") };
    let seems = apparent.map_or(String::new(), |(ahead_ns, apparent)| seems(ahead_ns, apparent));
    format!("cannot take the time of day from {device}{called}: {why}{seems}")
}

fn remedy(device: &str, why: &UnknownScale, tai_s: &Fact<i32>) -> String {
    match why {
        UnknownScale::NotNamed => format!(
            "--phc {device}{} for a network card's clock that ptp4l sets by PTP's own \
             convention, --phc {device},utc for one that counts UTC",
            PhcScale::tai(tai_s)
        ),
        UnknownScale::TaiNotSet => format!(
            "--phc {device},tai=37 (TAI - UTC since 2017); or have the kernel told, by chronyd \
             with `leapsectz right/UTC`"
        ),
        UnknownScale::TaiUnknown(_) => format!("--phc {device},tai=37 (TAI - UTC since 2017)"),
    }
}

/// What the device shows beside this machine's clock, which need not be right.
fn seems(ahead_ns: i64, apparent: Apparent) -> String {
    let far = time(ahead_ns.unsigned_abs() as f64);
    match apparent {
        Apparent::Utc => format!("; it is within {far} of this clock, as UTC would be"),
        Apparent::Tai => format!("; it is {far} ahead of this clock, as TAI would be"),
        Apparent::LessThanUtc | Apparent::Neither => {
            let side = if ahead_ns < 0 { "behind" } else { "ahead of" };
            format!("; it is {far} {side} this clock")
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::Unknown;

    use super::*;

    #[test]
    fn a_device_may_be_said_to_count_utc_or_tai() {
        let scale = |text: &str| {
            let named = parse(text).unwrap();
            assert_eq!(format!("{}{}", named.path.display(), named.scale), text);
            named.scale
        };
        assert_eq!(scale("/dev/ptp0"), PhcScale::ByName);
        assert_eq!(scale("/dev/ptp1,utc"), PhcScale::Utc);
        assert_eq!(scale("/dev/ptp1,tai"), PhcScale::Tai);
        assert_eq!(scale("/dev/ptp1,tai=37"), PhcScale::TaiBy(37));
    }

    #[test]
    fn nonsense_is_quoted_back() {
        for text in [
            "",
            ",tai",
            "/dev/ptp1,",
            "/dev/ptp1,gps",
            "/dev/ptp1,TAI",
            "/dev/ptp1,tai=",
            "/dev/ptp1,tai=-37",
            "/dev/ptp1,tai=370",
            "/dev/ptp1,tai=37.5",
            "/dev/ptp1,utc=0",
            "/dev/ptp1,tai,utc",
            "/dev/ptp 1",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains(",tai=37"), "{error}");
        }
    }

    #[test]
    fn a_card_of_unknown_scale_is_refused_with_what_it_seems_to_count() {
        let said = |ahead_ns| {
            let apparent = Ok((ahead_ns, Apparent::of(ahead_ns, &Fact::Known(37))));
            cause("/dev/ptp1", "mlx5_ptp", &UnknownScale::NotNamed, apparent)
        };
        assert_eq!(
            said(37_000_002_000),
            "cannot take the time of day from /dev/ptp1 (\"mlx5_ptp\"): its name does not tell \
             whether it counts UTC or TAI; it is 37.0 s ahead of this clock, as TAI would be"
        );
        let near = said(-2_000_000);
        assert!(near.contains("; it is within 2.00 ms of this clock, as UTC would be"), "{near}");
        let far = said(-3_600_000_000_000);
        assert!(far.ends_with(" behind this clock"), "{far}");
        // What cannot be compared either has no more to be said of it.
        let silent = NoOffset::OutOfRange { what: "/dev/ptp1".into() };
        let cause = cause("/dev/ptp1", "", &UnknownScale::NotNamed, Err(silent));
        assert!(cause.ends_with("/dev/ptp1: its name does not tell whether it counts UTC or TAI"));
    }

    #[test]
    fn what_is_advised_does_not_lead_into_the_next_error() {
        let advised = |why, tai_s: i32| remedy("/dev/ptp1", &why, &Fact::Known(tai_s));
        let told = advised(UnknownScale::NotNamed, 37);
        assert!(told.starts_with("--phc /dev/ptp1,tai for a network card's"), "{told}");
        assert!(told.contains("--phc /dev/ptp1,utc for one that counts UTC"), "{told}");
        let not_told = advised(UnknownScale::NotNamed, 0);
        assert!(not_told.starts_with("--phc /dev/ptp1,tai=37 for a network"), "{not_told}");
        let not_set = advised(UnknownScale::TaiNotSet, 0);
        assert!(not_set.starts_with("--phc /dev/ptp1,tai=37 "), "{not_set}");
        assert!(not_set.contains("leapsectz right/UTC"), "{not_set}");
    }

    #[test]
    fn a_kernel_that_does_not_answer_is_not_one_that_was_not_told() {
        let of = |why| {
            let (device, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
            silent(&NoOffset::Scale { device, clock_name, why })
        };
        let not_told = of(UnknownScale::TaiNotSet);
        assert!(not_told.contains("(adjtimex: tai 0); try: --phc /dev/ptp1,tai=37 "), "{not_told}");
        let unread = of(UnknownScale::TaiUnknown(Unknown::not_there("adjtimex")));
        assert!(unread.contains("UTC: not there: adjtimex; try: --phc /dev/ptp1,tai=37"));
        assert!(!unread.contains("nobody has told"), "{unread}");
    }
}
