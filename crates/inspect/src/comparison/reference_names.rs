//! The references' names, in results and records, and what a name states of its
//! reference: records have nothing else.

use sources::phc::PhcScale;

/// What ptp_kvm calls its device (drivers/ptp/ptp_kvm_common.c): the host's
/// clock, by KVM clock pairing.
const KVM_CLOCK: &str = "KVM virtual PTP";

/// The name of a PTP hardware clock, with what it was specified to count: a
/// resumed record joins comparisons by the name, and must not join times that
/// differ by `ahead_s`. No comma, which ends a record's fields.
pub(super) fn phc_name(
    clock_name: &str,
    device: &str,
    scale: PhcScale,
    ahead_s: Option<i32>,
) -> String {
    let kind = if clock_name == KVM_CLOCK { "kvm" } else { "phc" };
    match (scale, ahead_s) {
        (PhcScale::ByName, _) | (_, None) => format!("{kind} {device}"),
        (PhcScale::Utc, _) => format!("{kind} {device} utc"),
        (PhcScale::Tai | PhcScale::TaiBy(_), Some(ahead_s)) => {
            format!("{kind} {device} tai={ahead_s}")
        }
    }
}

/// A PTP hardware clock's device and what it was specified to count.
fn phc_named(name: &str) -> Option<(&str, &str)> {
    let device = name.strip_prefix("kvm ").or(name.strip_prefix("phc "))?;
    Some(device.split_once(' ').unwrap_or((device, "")))
}

/// The device of a PTP hardware clock, where a reference of that name is one.
pub(super) fn phc_device(name: &str) -> Option<&str> {
    phc_named(name).map(|(device, _)| device)
}

/// Whether it is a PTP hardware clock from which TAI - UTC is subtracted.
pub(super) fn is_less_tai(name: &str) -> bool {
    phc_named(name).is_some_and(|(_, scale)| scale.starts_with("tai="))
}

/// Whether a reference gives UTC, by its name: a network card's clock that is
/// not specified may count TAI.
pub(super) fn gives_utc(name: &str) -> bool {
    let kinds = ["ntp ", "chrony", "vmclock ", "kvm "];
    let is_specified = phc_named(name).is_some_and(|(_, scale)| !scale.is_empty());
    kinds.iter().any(|kind| name.starts_with(kind)) || is_specified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_subtracted_is_in_the_name_and_a_hosts_clock_keeps_its_own() {
        let card = |scale, ahead_s| phc_name("mlx5_ptp", "/dev/ptp1", scale, ahead_s);
        assert_eq!(card(PhcScale::ByName, None), "phc /dev/ptp1");
        assert_eq!(card(PhcScale::Utc, Some(0)), "phc /dev/ptp1 utc");
        assert_eq!(card(PhcScale::Tai, Some(37)), "phc /dev/ptp1 tai=37");
        assert_eq!(card(PhcScale::TaiBy(38), Some(38)), "phc /dev/ptp1 tai=38");
        let host = |name| phc_name(name, "/dev/ptp0", PhcScale::ByName, Some(0));
        assert_eq!(host("hyperv"), "phc /dev/ptp0");
        assert_eq!(host(KVM_CLOCK), "kvm /dev/ptp0");
        let specified = phc_name(KVM_CLOCK, "/dev/ptp0", PhcScale::TaiBy(37), Some(37));
        assert_eq!(specified, "kvm /dev/ptp0 tai=37");
    }

    #[test]
    fn a_name_states_the_device_and_whether_it_gives_utc() {
        let of = |name| (phc_device(name), gives_utc(name), is_less_tai(name));
        assert_eq!(of("phc /dev/ptp1"), (Some("/dev/ptp1"), false, false));
        assert_eq!(of("phc /dev/ptp1 utc"), (Some("/dev/ptp1"), true, false));
        assert_eq!(of("phc /dev/ptp1 tai=37"), (Some("/dev/ptp1"), true, true));
        assert_eq!(of("kvm /dev/ptp0"), (Some("/dev/ptp0"), true, false));
        assert_eq!(of("ntp tai=37"), (None, true, false));
        assert_eq!(of("raw"), (None, false, false));
    }
}
