//! `validation/machines/machines.toml`: suites, kernels and rows, with the truth about each.

mod deed;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use deed::Deed;

/// The table, as it stands in the repository.
const TABLE: &str = include_str!("../machines.toml");

/// The kernel that is the lab's guest image.
pub(crate) const LAB_IMAGE: &str = "lab-image";

/// Ends the names of suites and kernels for arm64.
pub(crate) const ARM64: &str = "-arm64";

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Debian's suites by a name for some of them.
    pub(crate) suites: BTreeMap<String, Vec<String>>,
    /// Kernels by name: the suite that each is of.
    pub(crate) kernels: BTreeMap<String, String>,
    /// Hypervisors other than this system's QEMU, by name.
    #[serde(default)]
    pub(crate) hypervisors: BTreeMap<String, Hypervisor>,
    /// Whole systems, each on a disk of its own, by name.
    #[serde(default)]
    pub(crate) systems: BTreeMap<String, System>,
    /// Drivers that Debian's kernels leave out, by the names of their modules.
    #[serde(default)]
    pub(crate) drivers: BTreeMap<String, Driver>,
    /// Findings that several rows share, by name.
    #[serde(default)]
    findings: BTreeMap<String, Vec<String>>,
    /// The machines, in the order they run.
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// A hypervisor of packages that are unpacked and not installed, or of a system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hypervisor {
    /// The system whose tree it is in.
    pub(crate) system: Option<String>,
    /// Without one: the suite of its packages.
    #[serde(default)]
    pub(crate) suite: String,
    /// Its packages, all unpacked into one tree.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// The program in the tree.
    pub(crate) program: String,
    /// What Xen's control domain has of it beside its tools.
    #[serde(default)]
    pub(crate) files: Vec<String>,
    /// Arguments by which it finds its files; `{tree}` is the tree.
    #[serde(default)]
    pub(crate) arguments: String,
}

/// A driver that Debian's kernels leave out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Driver {
    /// The system that has the kernel's headers and source, and a compiler.
    pub(crate) system: String,
    /// The driver's folder in Linux' source; without one the driver is ours, a file of its name
    /// in `validation/machines/src/base`.
    #[serde(default)]
    pub(crate) folder: String,
    /// What is built of the folder.
    pub(crate) makefile: String,
}

/// A system of installed packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct System {
    /// Their suite.
    pub(crate) suite: String,
    /// Those beyond the essential ones.
    pub(crate) packages: Vec<String>,
}

/// One machine: kernel, hypervisor, devices, and what is true of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Its name on the command line and in testdata/machines.
    pub(crate) name: String,
    /// A name among the kernels, or `lab-image`, which `parachron lab` contains.
    pub(crate) kernel: String,
    /// What runs it.
    pub(crate) base: Base,
    /// A name among the hypervisors; none: this system's QEMU.
    pub(crate) hypervisor: Option<String>,
    /// What runs between the emulator and this machine, where its base has
    /// something there.
    pub(crate) below: Option<Below>,
    /// A name among the systems, where its base needs one.
    pub(crate) system: Option<String>,
    /// Further options of the hypervisor: machine, processor, devices. Those of a
    /// domain of Xen are settings of xl.cfg(5): `type=pvh`.
    #[serde(default)]
    pub(crate) options: String,
    /// Further parameters of the kernel; `{tsc_khz}` is the rate of this
    /// system's TSC, which is also TCG's.
    #[serde(default)]
    pub(crate) append: String,
    /// Environment of the hypervisor.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// Programs of this system that it takes along, with their libraries.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    /// Modules that its init loads, with those they need; one that is a driver of
    /// the table is built.
    #[serde(default)]
    pub(crate) modules: Vec<String>,
    /// It has a network on which this machine is 10.0.2.2.
    #[serde(default)]
    pub(crate) network: bool,
    /// Kernels of the table that it takes along as files, /kernels/NAME, with an initramfs for
    /// `stock-linux`, /kernels/NAME.initrd.
    #[serde(default)]
    pub(crate) kernels: Vec<String>,
    /// What is done to it beyond the commands that every machine runs.
    #[serde(default)]
    pub(crate) does: Vec<Deed>,
    /// Runs only where it is named, and why.
    pub(crate) only_named: Option<String>,
    /// Runs with `--quick`: no check of it depends on how busy this system is.
    #[serde(default)]
    pub(crate) quick: bool,
    /// Its limit by this machine's clock, s.
    #[serde(default = "limit_s")]
    pub(crate) limit_s: u32,
    /// What is true of it; a row without one runs none of the commands that
    /// every machine runs.
    truth: Option<Truth>,
}

impl Row {
    /// Whether its processor is arm64's, by its kernel's name.
    pub(crate) fn is_arm64(&self) -> bool {
        self.kernel.ends_with(ARM64)
    }

    /// What is true of it.
    pub(crate) fn truth(&self) -> Result<&Truth, String> {
        self.truth.as_ref().ok_or_else(|| {
            format!("row {}: no truth in validation/machines/machines.toml", self.name)
        })
    }
}

/// Xen, or a host with KVM, itself on the emulator.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Below {
    /// A name among the hypervisors for Xen, among the kernels for KVM.
    pub(crate) program: String,
    /// Xen's control domain where it is another one: a name among the kernels,
    /// and one among the hypervisors for Xen's tools.
    pub(crate) control: Option<(String, String)>,
    /// Further options of the emulator.
    #[serde(default)]
    pub(crate) options: String,
    /// Its parameters.
    #[serde(default)]
    pub(crate) append: String,
    /// Modules of a host with KVM beyond those it needs for that.
    #[serde(default)]
    pub(crate) modules: Vec<String>,
    /// Programs of ours in a host with KVM.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
}

/// What runs a machine; one file each below `validation/machines/src/base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Base {
    /// QEMU's software emulation, an initramfs.
    Emulated,
    /// The same, and a whole Debian on a disk.
    Debian,
    /// Linux as the control domain of Xen, on QEMU's software emulation.
    Xen,
    /// Linux as another domain of that Xen.
    XenGuest,
    /// KVM of an emulated host.
    Kvm,
    /// User-mode Linux, of the package of the kernel's suite.
    Uml,
}

/// What is true of a machine, by the hand that wrote the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Truth {
    /// The current clock source.
    pub(crate) clocksource: String,
    /// All that are offered, the current one among them.
    pub(crate) available: Vec<String>,
    /// Offered in addition, unless the kernel gave it up on a busy system.
    #[serde(default)]
    pub(crate) may_offer: Vec<String>,
    /// Where CLOCK_MONOTONIC is read.
    pub(crate) read: Read,
    /// What `watch` may tell where nothing is caused.
    #[serde(default)]
    pub(crate) may_tell: Vec<String>,
    /// What the line on the hardware must contain.
    pub(crate) machine: String,
    /// The doctor's findings, each `severity rule: reason`, or `@` and the name
    /// of a list of them.
    pub(crate) findings: Vec<String>,
    /// Findings that are true now and then: in addition, or not.
    #[serde(default)]
    pub(crate) may_find: Vec<String>,
}

/// Where a clock is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Read {
    /// In user space: no call enters the kernel.
    User,
    /// Each call enters the kernel.
    Kernel,
}

fn limit_s() -> u32 {
    240
}

impl Table {
    /// The table of this repository.
    pub(crate) fn read() -> Result<Self, String> {
        let wrong =
            |why: &dyn std::fmt::Display| format!("validation/machines/machines.toml: {why}");
        let mut table: Self = toml::from_str(TABLE).map_err(|error| wrong(&error))?;
        let lists = &table.findings;
        for row in &mut table.rows {
            let Some(truth) = &mut row.truth else { continue };
            let mut findings = Vec::new();
            for finding in &truth.findings {
                match finding.strip_prefix('@') {
                    None => findings.push(finding.clone()),
                    Some(name) => {
                        let list = lists.get(name);
                        findings.extend(
                            list.ok_or_else(|| wrong(&format!("no list {finding}")))?.clone(),
                        );
                    }
                }
            }
            truth.findings = findings;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_a_kernel_of_a_suite() {
        let table = Table::read().unwrap();
        let mut names: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for row in &table.rows {
            let suite = table.kernels.get(&row.kernel);
            let known = suite.is_some_and(|suite| table.suites.contains_key(suite));
            assert!(known || row.kernel == LAB_IMAGE, "{}", row.name);
            let hypervisor = row.hypervisor.as_ref();
            assert!(hypervisor.is_none_or(|name| table.hypervisors.contains_key(name)));
            let Ok(truth) = row.truth() else { continue };
            assert!(truth.available.contains(&truth.clocksource), "{}", row.name);
            for finding in &truth.findings {
                let (begin, reason) = finding.split_once(": ").unwrap_or_default();
                let severity = begin.split(' ').next().unwrap_or_default();
                assert!(
                    ["note", "warning", "error"].contains(&severity),
                    "{}: {finding}",
                    row.name
                );
                assert!(!reason.is_empty(), "{}: {finding}", row.name);
            }
        }
    }

    #[test]
    fn few_rows_are_quick_and_none_of_them_waits_for_a_clock() {
        let table = Table::read().unwrap();
        let quick: Vec<&Row> = table.rows.iter().filter(|row| row.quick).collect();
        assert!(quick.len() <= 6, "{}", quick.len());
        // In virtual time, or without a machine that is watched.
        let free = [Deed::Calm, Deed::LeapSecond, Deed::Image];
        for row in quick {
            assert!(row.does.iter().all(|deed| free.contains(deed)), "{}", row.name);
        }
    }

    /// The trees replay in `cargo test` what `doctor` says of each machine.
    #[test]
    fn every_machine_is_kept_as_a_tree() {
        let trees = crate::tools::root().join("testdata/machines");
        for row in Table::read().unwrap().rows.iter().filter(|row| row.truth.is_some()) {
            let tree = trees.join(&row.name).join("expected-findings");
            assert!(tree.is_file(), "{}: no tree", row.name);
        }
    }
}
