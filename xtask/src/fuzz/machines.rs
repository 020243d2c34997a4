//! The machines of testdata as seeds: their texts for the parsers, and each
//! whole machine for the target that reads trees. Written again at each
//! run, so that no copy is outdated.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::project::Project;

/// The target that takes a whole machine.
const TREE: &str = "tree";
/// How the targets that take a text begin.
const TEXT: &str = "text_";

/// Writes them to `folder`, and deletes what was there.
pub(super) fn prepare(project: &Project, folder: &Path) -> io::Result<()> {
    let (texts, trees) = (folder.join("text"), folder.join("tree"));
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(&texts)?;
    fs::create_dir_all(&trees)?;
    for path in project.files().iter().filter(|path| path.starts_with("testdata/machines/")) {
        let mut parts = path.splitn(4, '/').skip(2);
        let (Some(machine), Some(inside)) = (parts.next(), parts.next()) else { continue };
        let content = fs::read(project.path(path))?;
        fs::write(texts.join(format!("{machine}-{}", inside.replace('/', "-"))), &content)?;
        append(&trees.join(machine), inside, &content)?;
    }
    Ok(())
}

/// The folder of seeds for a target, if there is one.
pub(super) fn seeds(folder: &Path, target: &str) -> Option<PathBuf> {
    match target {
        TREE => Some(folder.join("tree")),
        _ => target.starts_with(TEXT).then(|| folder.join("text")),
    }
}

/// One more file of a tree, in the form that the target reads.
fn append(tree: &Path, path: &str, content: &[u8]) -> io::Result<()> {
    let mut seed = OpenOptions::new().create(true).append(true).open(tree)?;
    let end = if content.ends_with(b"\n") { "" } else { "\n" };
    seed.write_all(&[format!("-- {path} --\n").as_bytes(), content, end.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_one_seed_and_each_file_too() {
        let folder = std::env::temp_dir().join(format!("xtask-machines-{}", std::process::id()));
        let prepare = || prepare(&Project::here(), &folder);
        // Twice: what an earlier run left is not added to.
        prepare().and_then(|()| prepare()).expect("a temporary folder");
        let (trees, texts) = (seeds(&folder, "tree"), seeds(&folder, "text_kernel_log"));
        assert_eq!(seeds(&folder, "kvm_time_page"), None);
        let tree = fs::read(trees.expect("trees").join("healthy-kvm-guest")).expect("a machine");
        let tree = String::from_utf8_lossy(&tree).into_owned();
        assert_eq!(tree.matches("-- proc/cmdline --\n").count(), 1, "{tree}");
        let text = texts.expect("texts").join("healthy-kvm-guest-proc-cmdline");
        let command_line = fs::read_to_string(text).expect("its command line");
        assert!(tree.contains(command_line.trim_end()), "{tree}");
        fs::remove_dir_all(folder).expect("our own folder");
    }
}
