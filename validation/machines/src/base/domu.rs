//! Linux as a domain of Xen, beside the control domain (dom0), which starts it
//! with Xen's own tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Workshop;
use super::{emulated, xen};
use crate::drivers;
use crate::initramfs;
use crate::machine::Start;
use crate::outcome::{Failure, Unavailable};
use crate::table::Row;
use crate::tools::{self, read};

/// The first program of the control domain.
const INIT: &[u8] = include_bytes!("domu.sh");

/// Joins the domain's console to the line.
const JOIN: &[u8] = include_bytes!("join.sh");

/// What its tools talk to Xen by.
const MODULES: [&str; 5] = ["xen-privcmd", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xenfs"];

/// Its tools: the store, the consoles, and what creates a domain.
const TOOLS: [&str; 4] = ["xenstored", "xen-init-dom0", "xenconsoled", "xl"];

const UNLISTED: &str = "libgcc_s.so.1";

/// Its console is Xen's: the second serial port is the line.
const CONTROL_PARAMETERS: &str = "console=hvc0 quiet panic=-1";

/// The domain's console is the line.
const PARAMETERS: &str = "console=hvc0 quiet panic=-1";

/// The emulator's machine. Beside Xen's console and the line no interrupt of an ISA port is
/// left: the control domain's shell has a port on the PCI bus.
const HOST: &str = "-machine pc -cpu EPYC,+svm,+npt,-rdtscp -smp 2 -m 2G \
    -chardev socket,id=shell,path={folder}/shell,server=on,wait=off \
    -device pci-serial,chardev=shell";

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let control = row.below.as_ref().and_then(|below| below.control.as_ref());
    let (control, tools) =
        control.ok_or_else(|| "a domain of Xen has [row.below] with control".to_owned())?;
    let kernel = workshop.kernel(&row.kernel)?;
    let initrd = emulated::initrd(workshop, &kernel, &row.modules, row, folder)?;
    let mut files = BTreeMap::from([
        ("domain/kernel".into(), read(&kernel.image)?),
        ("domain/initrd".into(), read(&initrd)?),
        ("domain/settings".into(), settings(row).into_bytes()),
        ("tools/join".into(), JOIN.to_vec()),
    ]);
    add_tools(workshop, tools, &mut files)?;
    let control = workshop.kernel(control)?;
    let modules = drivers::modules(workshop, &control, &MODULES)?;
    let busybox = read(&workshop.busybox(false)?)?;
    let files: Vec<_> = files.into_iter().collect();
    let file = folder.join("control-initrd");
    initramfs::write(&file, INIT, &[("busybox", busybox)], &files, &modules)?;
    xen::start(workshop, row, folder, HOST, (&control.image, &file, CONTROL_PARAMETERS))
}

/// The domain, as xl.cfg(5) says it; what the row says holds.
fn settings(row: &Row) -> String {
    let extra = format!("{PARAMETERS} {} {}", emulated::DISPOSABLE, row.append);
    let fixed = [
        ("name", row.name.as_str()),
        ("kernel", "/domain/kernel"),
        ("ramdisk", "/domain/initrd"),
        ("extra", extra.trim()),
        ("memory", "512"),
        ("on_crash", "destroy"),
    ];
    let more = row.options.split_whitespace().filter_map(|word| word.split_once('='));
    let more: BTreeMap<&str, &str> = more.collect();
    let left = fixed.into_iter().filter(|(key, _)| !more.contains_key(key));
    let lines = left.chain(more.iter().map(|(key, value)| (*key, *value)));
    lines.map(|(key, value)| format!("{key} = \"{value}\"\n")).collect()
}

/// The tools and their libraries, which the linker of their own suite finds.
fn add_tools(
    workshop: &Workshop,
    name: &str,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), Failure> {
    let (one, tree) = workshop.hypervisor(name)?;
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let linker = libraries.join("ld-linux-x86-64.so.2");
    files.insert("lib64/ld-linux-x86-64.so.2".into(), read(&linker)?);
    // The C library loads it as a thread is cancelled.
    let unlisted = Path::new("lib/x86_64-linux-gnu").join(UNLISTED);
    files.insert(unlisted, read(&libraries.join(UNLISTED))?);
    let tools = TOOLS.map(|tool| (tree.join(&one.program).join(tool), format!("tools/{tool}")));
    let more = one.files.iter().map(|name| (tree.join(name), name.clone()));
    for (from, to) in tools.into_iter().chain(more) {
        files.insert(to.into(), read(&from)?);
        let mut list = Command::new(&linker);
        list.arg("--library-path").arg(&libraries).arg("--list").arg(&from);
        // What is no program of this kind has no libraries.
        let listed = tools::output_of(&mut list).unwrap_or_default();
        for line in listed.lines().filter_map(|line| line.split_once(" => ")) {
            let path = Path::new(line.1.split(' ').next().unwrap_or_default());
            if !path.starts_with(&tree) {
                let why = format!("{} needs {}", from.display(), line.0.trim());
                return Err(Unavailable::new(
                    why,
                    "add its package to validation/machines/machines.toml",
                )
                .into());
            }
            let name = path.file_name().unwrap_or_default();
            files.insert(Path::new("lib/x86_64-linux-gnu").join(name), read(path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Base, Table};

    #[test]
    fn each_setting_is_there_once_and_the_rows_hold() {
        let mut rows = Table::read().unwrap().rows;
        rows.retain(|row| row.base == Base::XenGuest);
        for row in &mut rows {
            row.options += " memory=256";
            let settings = settings(row);
            let mut keys: Vec<&str> =
                settings.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), all, "{settings}");
            assert!(settings.contains("memory = \"256\"\n"), "{settings}");
            assert!(settings.contains("vcpus = \"1\"\n"), "{settings}");
        }
        assert!(!rows.is_empty());
    }
}
