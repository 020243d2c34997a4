//! The diagnosis of machines in testdata/machines, as a person reads it.

mod bad_input;
mod expected;
mod first_sight;
mod hidden;
mod quoting;
mod remedies;
mod trees;

use doctor::finding::{CheckState, Diagnosis};

/// The diagnosis in few lines: verdict, findings, what could not be checked.
fn in_short(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n", diagnosis.verdict);
    for finding in &diagnosis.findings {
        text += &format!("{:?} {}: {}\n", finding.severity, finding.rule, finding.what);
        for line in &finding.evidence {
            text += &format!("  | {line}\n");
        }
    }
    for entry in diagnosis.checked.iter().filter(|entry| entry.state == CheckState::NotChecked) {
        text += &format!("not checked {}: {}\n", entry.rule, entry.outcome);
    }
    text
}

macro_rules! machines {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            insta::assert_snapshot!(in_short(&trees::diagnosis($name)));
        }
    )*};
}

machines! {
    container_in_vm: "container-in-vm",
    contradictory: "contradictory",
    ec2_xen: "ec2-xen",
    firecracker_kvm_debian12: "firecracker-kvm-debian12",
    hyperv_guest: "hyperv-guest",
    kvm_guest_hpet_tsc_unstable: "kvm-guest-hpet-tsc-unstable",
    no_sys: "no-sys",
    vendor_aws_phc: "vendor-aws-phc",
    vendor_aws_phc_alone: "vendor-aws-phc-alone",
    vendor_azure: "vendor-azure",
    virtualbox_acpi_pm: "virtualbox-acpi-pm",
    vmware_guest: "vmware-guest",
}
