//! Which kernel modules a module depends on, and in what order they load.
//!
//! A kernel package holds no `modules.dep`: depmod writes that when the
//! package is installed, which this one is not. Each module names its
//! dependencies in its own `.modinfo` section, where depmod reads them too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why modules cannot be loaded.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ModuleError {
    #[error("no module {name}.ko below {folder}; required by {required_by}")]
    Missing { name: String, folder: String, required_by: String },
    #[error("{path} cannot be read: {error}")]
    Unreadable { path: String, error: String },
    #[error("modules depend on each other in a circle: {}", .0.join(" -> "))]
    Circle(Vec<String>),
}

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

    /// Modules and all their dependencies, in the order to load them.
    pub(crate) fn with_dependencies(
        &self,
        wanted: &[&str],
    ) -> Result<Vec<(String, Vec<u8>)>, ModuleError> {
        let mut bytes_by_name = BTreeMap::new();
        let order = order(wanted, &mut |name, required_by| {
            let bytes = self.read(name, required_by)?;
            let needs = dependencies(&bytes);
            bytes_by_name.insert(name.to_owned(), bytes);
            Ok(needs)
        })?;
        let loaded = |name: String| bytes_by_name.remove(&name).map(|bytes| (name, bytes));
        Ok(order.into_iter().filter_map(loaded).collect())
    }

    fn read(&self, name: &str, required_by: &str) -> Result<Vec<u8>, ModuleError> {
        let path = self.by_name.get(name).ok_or_else(|| ModuleError::Missing {
            name: name.to_owned(),
            folder: self.folder.display().to_string(),
            required_by: required_by.to_owned(),
        })?;
        fs::read(path).map_err(|error| ModuleError::Unreadable {
            path: path.display().to_string(),
            error: error.to_string(),
        })
    }
}

fn walk(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ko")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
        {
            found.insert(plain(name), path);
        }
    }
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

/// Each module once, after its dependencies.
fn order(
    wanted: &[&str],
    dependencies_of: &mut impl FnMut(&str, &str) -> Result<Vec<String>, ModuleError>,
) -> Result<Vec<String>, ModuleError> {
    let mut done = Vec::new();
    for wanted in wanted {
        visit(&plain(wanted), &mut vec!["the initramfs".to_owned()], &mut done, dependencies_of)?;
    }
    Ok(done)
}

fn visit(
    name: &str,
    above: &mut Vec<String>,
    done: &mut Vec<String>,
    dependencies_of: &mut impl FnMut(&str, &str) -> Result<Vec<String>, ModuleError>,
) -> Result<(), ModuleError> {
    if done.iter().any(|known| known == name) {
        return Ok(());
    }
    if let Some(at) = above.iter().position(|waiting| waiting == name) {
        let mut circle = above[at..].to_vec();
        circle.push(name.to_owned());
        return Err(ModuleError::Circle(circle));
    }
    let needs = dependencies_of(name, above.last().map_or("", String::as_str))?;
    above.push(name.to_owned());
    for need in needs {
        visit(&need, above, done, dependencies_of)?;
    }
    above.pop();
    done.push(name.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_in(tree: &[(&str, &[&str])], wanted: &str) -> Result<Vec<String>, ModuleError> {
        order(&[wanted], &mut |name, required_by| {
            let found = tree.iter().find(|(known, _)| *known == name);
            found.map(|(_, needs)| needs.iter().map(|&need| need.to_owned()).collect()).ok_or_else(
                || ModuleError::Missing {
                    name: name.to_owned(),
                    folder: "here".to_owned(),
                    required_by: required_by.to_owned(),
                },
            )
        })
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let tree: &[(&str, &[&str])] = &[
            ("kvm_amd", &["kvm", "ccp"]),
            ("kvm", &["irqbypass"]),
            ("ccp", &["irqbypass"]),
            ("irqbypass", &[]),
        ];
        assert_eq!(order_in(tree, "kvm-amd").unwrap(), ["irqbypass", "kvm", "ccp", "kvm_amd"]);
    }

    #[test]
    fn a_missing_module_names_its_dependent_and_a_circle_is_printed() {
        let tree: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["c"]), ("d", &["e"]), ("e", &["d"])];
        assert_eq!(
            order_in(tree, "a").unwrap_err().to_string(),
            "no module c.ko below here; required by b"
        );
        assert_eq!(
            order_in(tree, "d").unwrap_err().to_string(),
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
