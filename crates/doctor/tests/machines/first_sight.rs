//! The set-ups of docs/validation/first-sight.md: what each must say, and must not.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::trees::diagnosis_of;

/// Round and folder, what the report has, and what it has not.
type SetUp = (&'static str, &'static [&'static str], &'static [&'static str]);

const SET_UPS: &[SetUp] = &[
    (
        "2/cb2-rtc-2017",
        &["not synchronised, although systemd-timesyncd runs", "behind the system clock"],
        &["hwclock --systohc"],
    ),
    (
        "2/podman-machine-12-hours",
        &["12.3 h ahead of the system clock", "not synchronised"],
        &["hwclock --systohc"],
    ),
    ("2/qubes-dom0-rtc-6-hours", &["No time daemon", "5.98 h ahead"], &["hwclock --systohc"]),
    (
        "2/adjtime-local-rtc-utc",
        &["states that the RTC holds local time, and the RTC holds UTC"],
        &[],
    ),
    ("2/balena-not-flagged", &["counts it as not synchronised"], &["The time is right"]),
    ("2/buildroot-pi-no-rtc", &["not synchronised, although systemd-timesyncd runs"], &[]),
    (
        "2/nixos-network-state-off",
        &["systemd-timesyncd runs, but has no time source", "netif/state: offline"],
        &[],
    ),
    (
        "2/container-chrony-127-127",
        &["this machine itself alone (127.127.1.1)", "container"],
        &["The time is right"],
    ),
    (
        "2/lxc-chrony-failed",
        &["clock of its host", "run parachron doctor on the host"],
        &["enable --now"],
    ),
    ("2/pi-rtc-not-read-at-boot", &["hctosys 0", "No time daemon"], &[]),
    ("2/jetson-condition-container", &["ConditionVirtualization=!container"], &[]),
    ("2/wsl-7-percent-fast", &["3.98 s ahead", "443 ppm"], &[]),
    ("2/cm4-chrony-healthy", &["The time is right to 5.78 ms"], &["At risk", "Besides"]),
    ("3/debian-timesyncd-masked", &["it is masked", "systemctl unmask"], &[]),
    ("3/minikube-virtualbox-nobody", &["ConditionVirtualization=!oracle", "systemctl edit"], &[]),
    ("3/wsl-chronyd-without-right", &["nothing here sets it"], &["makestep", "enable --now"]),
    ("3/openbsd-vmm-256-seconds", &["256 s ahead of the system clock"], &["hwclock --systohc"]),
    (
        "3/bottlerocket-no-rtcsync",
        &["not synchronised, although chronyd runs", "rtcsync"],
        &["install chrony"],
    ),
    ("3/ntpd-rs-flag-unset", &["not synchronised, although ntpd-rs runs"], &["install chrony"]),
    ("3/pi5-stale-netif-state", &["netif/state: offline"], &["The time is right"]),
    ("3/ntptime-esterror-minus-4", &["± 496 µs"], &["At risk", "Besides"]),
    ("3/photon-two-enabled", &["chronyd runs"], &["at the same time"]),
    ("3/eks-sources-elsewhere", &[], &["one server", "without a server"]),
    ("4/telegraf-two-hours-slow", &["2.08 h behind"], &["The time is right"]),
    ("4/rockstor-healthy-18-ppm", &["The time is right to 6.92 ms"], &["At risk", "Besides"]),
    ("4/nitro-tsc-not-kvm-clock", &["It is not known"], &["kvm-clock", "At risk"]),
    ("4/fcos-azure-other-file", &["chronyd runs"], &["smear", "ptp_hyperv"]),
    ("4/strom-timesyncd-tai-0", &["± 940 ms"], &["not synchronised", "At risk"]),
    (
        "4/vagrant-16-seconds",
        &["not synchronised, although systemd-timesyncd runs"],
        &["The time is right"],
    ),
    (
        "4/debian11-rtc-2012",
        &["no program sets it", "3574 days behind the system clock"],
        &["hwclock --hctosys", "hwclock --systohc"],
    ),
    (
        "4/openvz-ntpd-refused",
        &["clock of its host", "installed, not running: ntpd"],
        &["enable --now"],
    ),
    ("4/unifi-container-no-daemon", &["clock of its host"], &["apt install", "At risk"]),
    (
        "4/rook-node-prefers",
        &["prefers is no option (prefer is)", "does not start"],
        &["The time is right"],
    ),
    (
        "4/aks-one-server",
        &["only during its first 3 updates", "one server alone", "whether chronyd runs"],
        &["The time is wrong"],
    ),
    (
        "4/pgenerator-pi-ntpd-never-starts",
        &["installed, not running: ntpd"],
        &["The time is right"],
    ),
    ("4/debian-chrony-and-timesyncd", &["at the same time"], &["The time is wrong"]),
    ("5/amplipi-healthy", &["systemd-timesyncd runs"], &["not readable", "sysfs"]),
    ("5/ubuntu-kvm-host-on-hpet", &["hpet is in use", "this KVM host"], &["invtsc", "operator"]),
    ("5/homestead-hyperv-clock", &["hyperv", "is not known"], &["does not use it"]),
    ("5/mt6000-500-ppm", &["500 ppm", "limit"], &["tick 0"]),
];

#[test]
fn each_set_up_gets_the_answer_that_was_written_before() {
    let rounds = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/first-sight"));
    let mut wrong = String::new();
    for (case, has, lacks) in SET_UPS {
        let diagnosis = diagnosis_of(&rounds.join(format!("round-{case}")));
        let report = serde_json::to_string(&(&diagnosis.verdict, &diagnosis.findings));
        let report = report.expect("JSON");
        for text in has.iter().filter(|text| !report.contains(**text)) {
            let _ = writeln!(wrong, "{case}: lacks {text:?}: {}", diagnosis.verdict);
        }
        for text in lacks.iter().filter(|text| report.contains(**text)) {
            let _ = writeln!(wrong, "{case}: has {text:?}: {}", diagnosis.verdict);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
