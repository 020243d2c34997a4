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

/// The folder of the seeds.
pub(super) struct Machines {
    folder: PathBuf,
}

impl Machines {
    /// Writes them to `folder`, and deletes what was there.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(super) fn prepare(project: &Project, folder: PathBuf) -> io::Result<Self> {
        let (texts, trees) = (folder.join("text"), folder.join("tree"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
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
        Ok(Self { folder })
    }

    /// The folder of seeds for a target, if there is one.
    pub(super) fn seeds(&self, target: &str) -> Option<PathBuf> {
        match target {
            TREE => Some(self.folder.join("tree")),
            _ => target.starts_with(TEXT).then(|| self.folder.join("text")),
        }
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
        let prepare = || Machines::prepare(&Project::here(), folder.clone());
        // Twice: what an earlier run left is not added to.
        prepare().and_then(|_| prepare()).expect("a temporary folder");
        let machines = Machines { folder: folder.clone() };
        let (trees, texts) = (machines.seeds("tree"), machines.seeds("text_kernel_log"));
        assert_eq!(machines.seeds("kvm_time_page"), None);
        let tree = fs::read(trees.expect("trees").join("healthy-kvm-guest")).expect("a machine");
        let tree = String::from_utf8_lossy(&tree).into_owned();
        assert_eq!(tree.matches("-- proc/cmdline --\n").count(), 1, "{tree}");
        let text = texts.expect("texts").join("healthy-kvm-guest-proc-cmdline");
        let command_line = fs::read_to_string(text).expect("its command line");
        assert!(tree.contains(command_line.trim_end()), "{tree}");
        fs::remove_dir_all(folder).expect("our own folder");
    }
}
