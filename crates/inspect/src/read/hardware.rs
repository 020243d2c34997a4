//! The RTC, PTP clocks, shared pages, and KVM.

use facts::clocksource::Clocksources;
use facts::hardware::{
    ADJTIME, KvmHost, Phc, PvclockPage, Rtc, RtcDevice, VmClock, link_of, parse_convention,
    parse_kvm_host, parse_pvclock_page, parse_vmclock, reduce_clock_name,
};
use facts::parse;
use facts::{Fact, Unknown};

use crate::probes::{self, kvm, pvclock_page};
use crate::tree::Tree;

/// More clocks of one kind than any machine has.
const MAX_DEVICES: usize = 64;

pub(super) fn real_time_clock(tree: &Tree) -> Rtc {
    let devices = tree.names("/sys/class/rtc").map(|names| -> Vec<_> {
        names.into_iter().take(MAX_DEVICES).map(|device| rtc_device(tree, device)).collect()
    });
    let time_of = |device: &str| {
        let text = tree.probe("rtc-minus-system", || probes::rtc_minus_system(device));
        text.and_then(|text| parse::number("parachron/rtc-minus-system", &text))
    };
    let minus_system_s = match devices.value().and_then(|devices| preferred(devices)) {
        Some(device) => time_of(&device.device),
        None => {
            let why = devices.unknown().cloned().unwrap_or(Unknown::not_there("an RTC"));
            // A capture made by hand may have its time alone.
            let alone = (!tree.is_live()).then(|| time_of("rtc0"));
            alone.filter(|time| time.value().is_some()).unwrap_or(Fact::Unknown(why))
        }
    };
    Rtc {
        devices,
        convention: tree.text(ADJTIME).and_then(|text| parse_convention(&text)),
        minus_system_s,
    }
}

/// The RTC that the kernel set its time from, or else the first.
fn preferred(devices: &[RtcDevice]) -> Option<&RtcDevice> {
    devices.iter().find(|device| device.hctosys).or(devices.first())
}

fn rtc_device(tree: &Tree, device: String) -> RtcDevice {
    let text = |file: &str| {
        let text = tree.text(&format!("/sys/class/rtc/{device}/{file}"));
        text.value().map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    RtcDevice { name: text("name"), hctosys: text("hctosys") == "1", device }
}

/// The PTP clocks.
pub(super) fn phcs(tree: &Tree) -> Fact<Vec<Phc>> {
    tree.names("/sys/class/ptp").and_then(|mut names| {
        // A name stands in commands, also where a shell's quotes do not help (sed).
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        names.retain(|name| name.strip_prefix("ptp").is_some_and(is_number));
        names.truncate(MAX_DEVICES);
        let readable = tree.probe("ptp-readable", || probes::readable_ptp(&names));
        let readable = readable.value().cloned().unwrap_or_default();
        let links = tree.probe("ptp-links", || probes::ptp_links(&names));
        let links = links.value().cloned().unwrap_or_default();
        let phc = |name: String| -> Result<Phc, Unknown> {
            let clock_name = tree.reduced(
                &format!("/sys/class/ptp/{name}/clock_name"),
                "the name, unless it is a network address",
                reduce_clock_name,
            );
            let clock_name = clock_name.as_result().map_err(|why| match why {
                // The clock is there.
                Unknown::NotThere { what } => {
                    Unknown::Unreadable { what: what.clone(), error: "no such file".to_owned() }
                }
                other => other.clone(),
            });
            Ok(Phc {
                clock_name: clock_name?.trim().to_owned(),
                link: link_of(&links, &name),
                readable: readable.lines().any(|line| line.trim() == name),
                device: format!("/dev/{name}"),
            })
        };
        names.into_iter().map(phc).collect::<Result<_, _>>().into()
    })
}

/// The VMClock page.
pub(super) fn vmclock(tree: &Tree) -> Fact<VmClock> {
    tree.probe("vmclock", probes::vmclock_page).and_then(|text| parse_vmclock(&text))
}

/// The kvm-clock page. It stays mapped, and the host keeps writing it, under
/// another clock source too.
pub(super) fn pvclock_page(tree: &Tree, sources: &Clocksources) -> Fact<PvclockPage> {
    match &sources.available {
        Fact::Known(names) if !names.iter().any(|name| name == "kvm-clock") => {
            Fact::Unknown(Unknown::not_applicable("this kernel has no clock source kvm-clock"))
        }
        _ => tree
            .probe("pvclock-page", pvclock_page::fields)
            .and_then(|text| parse_pvclock_page(&text)),
    }
}

/// KVM's clock on this machine.
pub(super) fn kvm_host(tree: &Tree) -> Fact<KvmHost> {
    tree.probe("kvm-host", kvm::host).and_then(|text| parse_kvm_host(&text))
}
