//! Which kernel modules a module depends on, and in what order they load.
//!
//! A kernel package holds no `modules.dep`: depmod writes that when the
//! package is installed, which this one is not. Each module names its
//! dependencies in its own `.modinfo` section, where depmod reads them too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules of some kernels, built into others.
const PERHAPS_BUILT_IN: [&str; 2] = ["virtio_pci", "virtio_console"];

/// The modules below a folder, by name.
#[derive(Debug)]
pub(crate) struct Modules {
    folder: PathBuf,
    by_name: BTreeMap<String, PathBuf>,
}

impl Modules {
    /// Finds all below a folder such as `lib/modules/6.1.0-56-amd64`.
    pub(crate) fn below(folder: &Path) -> Self {
        let mut by_name = BTreeMap::new();
        walk(folder, &mut by_name);
        Self { folder: folder.to_owned(), by_name }
    }

    /// One that is elsewhere.
    pub(crate) fn add(&mut self, name: &str, path: PathBuf) {
        self.by_name.insert(plain(name), path);
    }

    /// Modules and all their dependencies, in the order to load them.
    pub(crate) fn with_dependencies(
        &self,
        wanted: &[&str],
    ) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut loaded = Vec::new();
        let built_in =
            |name: &str| PERHAPS_BUILT_IN.contains(&name) && !self.by_name.contains_key(name);
        for name in wanted.iter().filter(|name| !built_in(name)) {
            load(&plain(name), "the initramfs", &mut Vec::new(), &mut loaded, &|name| {
                let path = self.by_name.get(name);
                let path = path.ok_or_else(|| format!("not below {}", self.folder.display()))?;
                contents(path)
            })?;
        }
        Ok(loaded)
    }
}

fn walk(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, found);
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && let Some(name) = name.strip_suffix(".xz").unwrap_or(name).strip_suffix(".ko")
        {
            found.insert(plain(name), path);
        }
    }
}

/// A module's bytes; newer packages compress them.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(path).map_err(cannot);
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().map_err(cannot)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("xz -dc {}: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim()))
}

/// A module's name in the kernel: `kvm-amd.ko` is `kvm_amd`.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The names in a module's `depends=` entry.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let list = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.map(|name| plain(&String::from_utf8_lossy(name))).collect()
}

/// Reads a module after its dependencies, each once; `above` are those that
/// need it.
fn load(
    name: &str,
    required_by: &str,
    above: &mut Vec<String>,
    loaded: &mut Vec<(String, Vec<u8>)>,
    read: &impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    if loaded.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    above.push(name.to_owned());
    if above[..above.len() - 1].iter().any(|waiting| waiting == name) {
        return Err(format!("modules depend on each other in a circle: {}", above.join(" -> ")));
    }
    let bytes =
        read(name).map_err(|why| format!("the module {name}, required by {required_by}: {why}"))?;
    for need in dependencies(&bytes) {
        load(&need, name, above, loaded, read)?;
    }
    above.pop();
    loaded.push((name.to_owned(), bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which a module loads, where these have dependencies.
    fn order_in(tree: &[(&str, &str)], wanted: &str) -> Result<Vec<String>, String> {
        let mut loaded = Vec::new();
        load(&plain(wanted), "the initramfs", &mut Vec::new(), &mut loaded, &|name| {
            let found = tree.iter().find(|(known, _)| *known == name);
            let (_, needs) = found.ok_or("not here")?;
            Ok(format!("\0depends={needs}\0").into_bytes())
        })?;
        Ok(loaded.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let tree =
            [("kvm_amd", "kvm,ccp"), ("kvm", "irqbypass"), ("ccp", "irqbypass"), ("irqbypass", "")];
        assert_eq!(order_in(&tree, "kvm-amd").unwrap(), ["irqbypass", "kvm", "ccp", "kvm_amd"]);
    }

    #[test]
    fn a_missing_module_names_its_dependent_and_a_circle_is_printed() {
        let tree = [("a", "b"), ("b", "c"), ("d", "e"), ("e", "d")];
        assert_eq!(order_in(&tree, "a").unwrap_err(), "the module c, required by b: not here");
        assert_eq!(
            order_in(&tree, "d").unwrap_err(),
            "modules depend on each other in a circle: d -> e -> d"
        );
    }

    #[test]
    fn dependencies_are_read_from_the_module() {
        let module = b"\x7fELF\0license=GPL\0depends=kvm,rng-core\0name=kvm_amd\0";
        assert_eq!(dependencies(module), ["kvm", "rng_core"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
        assert!(dependencies(b"\x7fELF").is_empty());
        assert_eq!(dependencies(b"\0depends=kvm"), ["kvm"]);
    }
}
