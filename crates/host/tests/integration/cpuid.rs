//! What CPUID says of each provider.

use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::{ClockProvider, ClockSettings, GuestClock, HostClocks, Leaf};

fn host(kind: ClockProvider) -> GuestClock {
    let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
    GuestClock::new(ClockSettings::new(kind, Hertz(2_445_428_000)), now).unwrap()
}

fn signature(host: &GuestClock) -> String {
    let Leaf { ebx, ecx, edx, .. } = host.cpuid(0x4000_0000, 0).unwrap();
    [ebx, ecx, edx].iter().flat_map(|word| word.to_le_bytes()).map(char::from).collect()
}

#[test]
fn none_and_legacy_announce_nothing() {
    for kind in [ClockProvider::None, ClockProvider::Legacy] {
        assert!(!kind.has_cpuid());
        assert_eq!(host(kind).cpuid_leaves().count(), 0);
        assert_eq!(host(kind).cpuid(0x4000_0000, 0), None);
        assert_eq!(host(kind).msrs(), []);
    }
}

#[test]
fn minimal_announces_two_frequencies_and_no_more() {
    let host = host(ClockProvider::Minimal);
    assert_eq!(host.cpuid(0x4000_0001, 0), Some(Leaf::default()));
    let frequencies = Leaf { eax: 2_445_428, ebx: 1_000_000, ..Leaf::default() };
    assert_eq!(host.cpuid(0x4000_0010, 0), Some(frequencies));
    assert_eq!(host.msrs(), []);
}

#[test]
fn kvm_is_found_as_linux_looks_for_it() {
    let host = host(ClockProvider::Kvm);
    assert_eq!(signature(&host), "KVMKVMKVM\0\0\0");
    let features = host.cpuid(0x4000_0001, 0).unwrap().eax;
    for bit in [0, 3, 5, 24] {
        assert!(features & 1 << bit != 0, "bit {bit}");
    }
    assert_eq!(features.count_ones(), 4);
    assert_eq!(host.cpuid(0x4000_0010, 0).unwrap().eax, 2_445_428);
    assert_eq!(host.cpuid(0x4000_0000, 0).unwrap().eax, 0x4000_0010);
}

#[test]
fn hyperv_is_found_as_the_tlfs_says() {
    let host = host(ClockProvider::HyperV);
    assert_eq!(signature(&host), "Microsoft Hv");
    assert_eq!(host.cpuid(0x4000_0001, 0).unwrap().eax, 0x3123_7648);
    let Leaf { eax, edx, .. } = host.cpuid(0x4000_0003, 0).unwrap();
    for bit in [1, 6, 9, 11, 13] {
        assert!(eax & 1 << bit != 0, "bit {bit}");
    }
    assert_eq!((eax.count_ones(), edx), (5, 1 << 8));
    let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
    let settings = ClockSettings::new(ClockProvider::HyperV, Hertz(2_445_428_000));
    let invariant = GuestClock::new(settings.changed(|new| new.tsc_invariant = true), now).unwrap();
    assert_eq!(invariant.cpuid(0x4000_0003, 0).unwrap().eax, eax | 1 << 15);
    let highest = host.cpuid(0x4000_0000, 0).unwrap().eax;
    assert_eq!(host.cpuid_leaves().map(|(function, _)| function).max(), Some(highest));
}

#[test]
fn what_is_not_the_providers_is_the_vmms() {
    for kind in ClockProvider::ALL {
        let host = host(kind);
        for function in [0, 1, 0x3fff_ffff, 0x4000_0100, 0x8000_0000, u32::MAX] {
            assert_eq!(host.cpuid(function, 0), None);
        }
        for (function, leaf) in host.cpuid_leaves() {
            assert_eq!(host.cpuid(function, 3), Some(leaf), "no index matters");
        }
    }
}
