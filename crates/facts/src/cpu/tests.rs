use cpuid::*;

use super::*;

const CPUINFO_TEXT: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n\
    flags\t\t: fpu tsc rdtscp constant_tsc hypervisor\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n\
    flags\t\t: fpu tsc\n";

#[test]
fn cpuinfo_is_reduced_once_and_for_all() {
    let reduced = reduce_cpuinfo(CPUINFO_TEXT);
    assert_eq!(
        reduced,
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n\
         flags\t\t: fpu tsc rdtscp constant_tsc hypervisor\nprocessor\t: 1\n"
    );
    assert_eq!(reduce_cpuinfo(&reduced), reduced);
    assert_eq!(parse_model(&reduced), Fact::Known("AMD EPYC".into()));
    assert_eq!(count_processors(&reduced), Fact::Known(2));
    let flags = *parse_flags(&reduced).value().unwrap();
    assert!(flags.tsc && flags.rdtscp && flags.constant_tsc && flags.hypervisor);
    assert!(!flags.nonstop_tsc && !flags.tsc_known_freq && !flags.tsc_adjust);
}

#[test]
fn lists_of_cpus_are_counted() {
    assert_eq!(parse_online("0\n"), Fact::Known(1));
    assert_eq!(parse_online("0-3,8,10-11\n"), Fact::Known(7));
    for bad in ["", "3-0", "a", "0-4294967295,1", "0-", "-1"] {
        assert!(parse_online(bad).unknown().is_some(), "{bad}");
    }
}

const LEAF_1: &str = "0x00000001 0x00: eax=0x00a00f11 ebx=0x0 ecx=0x80000000 edx=0x0\n";

/// Leaf 0 with a highest leaf, leaf 1 with the hypervisor bit, and lines more.
fn with(lines: &str) -> String {
    format!("CPU:\n   0x00000000 0x00: eax=0x00000016 ebx=0x0 ecx=0x0 edx=0x0\n{LEAF_1}{lines}")
}

#[test]
fn kvm_is_found_also_behind_hyperv() {
    let kvm = with(
        "0x40000000 0x00: eax=0x40000001 ebx=0x4b4d564b ecx=0x564b4d56 edx=0x0000004d\n\
         0x40000001 0x00: eax=0x01007efb ebx=0x0 ecx=0x0 edx=0x0\n",
    );
    let hypervisor = parse_hypervisor(&kvm).value().unwrap().clone();
    assert_eq!(
        (hypervisor.signature.as_str(), hypervisor.kind),
        ("KVMKVMKVM", HypervisorKind::Kvm)
    );
    let features = hypervisor.kvm_features.unwrap();
    assert!(features.clocksource && features.clocksource2);
    assert!(features.steal_time && features.clocksource_stable);
    assert_eq!(hypervisor.hyperv, None);

    let disguised = with(
        "0x40000000 0x00: eax=0x40000006 ebx=0x7263694d ecx=0x666f736f edx=0x76482074\n\
         0x40000003 0x00: eax=0x0000aa02 ebx=0x0 ecx=0x0 edx=0x0\n\
         0x40000100 0x00: eax=0x40000101 ebx=0x4b4d564b ecx=0x564b4d56 edx=0x0000004d\n\
         0x40000101 0x00: eax=0x00000008 ebx=0x0 ecx=0x0 edx=0x0\n",
    );
    let hypervisor = parse_hypervisor(&disguised).value().unwrap().clone();
    assert_eq!(
        (hypervisor.signature.as_str(), hypervisor.kind),
        ("KVMKVMKVM", HypervisorKind::Kvm)
    );
    let hyperv = hypervisor.hyperv.unwrap();
    assert!(hyperv.reference_counter && hyperv.reference_tsc_page && hyperv.frequency_msrs);
    assert!(hyperv.reenlightenment && hyperv.invariant_tsc);
    let features = hypervisor.kvm_features.unwrap();
    assert!(features.clocksource2 && !features.clocksource && !features.clocksource_stable);
}

#[test]
fn a_signature_nobody_knows_is_kept() {
    let text = with("0x40000000 0x00: eax=0x40000000 ebx=0x41414141 ecx=0x1 edx=0x0\n");
    let hypervisor = parse_hypervisor(&text).value().unwrap().clone();
    assert_eq!(hypervisor.kind, HypervisorKind::Unrecognised);
    assert_eq!(hypervisor.signature, "AAAA\u{fffd}");
    // The bit without any leaf: contradictory, and still no reason to fail.
    let bare = parse_hypervisor(&with("")).value().unwrap().clone();
    assert_eq!((bare.signature.as_str(), bare.kind), ("", HypervisorKind::Unrecognised));
    let none = LEAF_1.replace("0x80000000", "0x7fffffff");
    let why = parse_hypervisor(&none).unknown().unwrap().to_string();
    assert_eq!(why, "does not apply: CPUID announces no hypervisor (leaf 1, ECX bit 31)");
}

#[test]
fn the_frequency_is_the_hypervisors_then_the_processors() {
    let crystal = "0x00000015 0x00: eax=0x00000002 ebx=0x000000f0 ecx=0x016e3600 edx=0x0\n";
    assert_eq!(parse_tsc_hz(&with(crystal)), Fact::Known(2_880_000_000));
    let base = "0x00000015 0x00: eax=0x2 ebx=0xf0 ecx=0x0 edx=0x0\n\
                0x00000016 0x00: eax=0x00000b54 ebx=0x0 ecx=0x0 edx=0x0\n";
    assert_eq!(parse_tsc_hz(&with(base)), Fact::Known(2_900_000_000));
    let vmware = format!(
        "{crystal}0x40000000 0x00: eax=0x40000010 ebx=0x61774d56 ecx=0x4d566572 edx=0x65726177\n\
         0x40000010 0x00: eax=0x0027ac40 ebx=0x000101d0 ecx=0x0 edx=0x0\n"
    );
    assert_eq!(parse_tsc_hz(&with(&vmware)), Fact::Known(2_600_000_000));
    // The same leaf under Hyper-V is not a frequency.
    let hyperv = vmware.replace("61774d56", "7263694d").replace("4d566572", "666f736f");
    let hyperv = hyperv.replace("65726177", "76482074");
    assert_eq!(parse_tsc_hz(&with(&hyperv)), Fact::Known(2_880_000_000));
    let why = parse_tsc_hz(&with("")).unknown().unwrap().to_string();
    assert_eq!(why, "not there: a TSC frequency in CPUID");
}

#[test]
fn the_registers_are_read_and_junk_is_not() {
    let text = "frequency_hz 24000000\nreadable 1\nself_synchronised 0\n";
    let timer = GenericTimer { hz: 24_000_000, readable: true, self_synchronised: false };
    assert_eq!(parse_generic_timer(text), Fact::Known(timer));
    for junk in ["", "frequency_hz -1\nreadable 1\nself_synchronised 0\n", "readable 2\n"] {
        assert!(parse_generic_timer(junk).value().is_none(), "{junk}");
    }
}
