//! The latest result of each row, kept in `validation/results`: a run is of some rows, on a machine
//! that has not run the others. `cargo xtask validation` renders the page of all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::table::Table;
use crate::tools;
use crate::visit::{self, End, Visit};

/// Where results are kept, below the root.
pub(crate) const FOLDER: &str = "validation/results";

/// The results of one kind of run: those of this target folder, and those of the tree.
pub(crate) struct Results {
    ran: PathBuf,
    kept: PathBuf,
}

impl Results {
    /// Those of a row's usual run.
    pub(crate) fn of_rows() -> Self {
        Self {
            ran: tools::target_folder().join("machines"),
            kept: tools::root().join(FOLDER).join("rows"),
        }
    }

    /// Those of its long run.
    pub(crate) fn of_long_runs() -> Self {
        Self {
            ran: tools::target_folder().join("machines/long"),
            kept: tools::root().join(FOLDER).join("long"),
        }
    }

    /// Where a run leaves its files, in a folder of each row's name.
    pub(crate) fn folder(&self) -> &Path {
        &self.ran
    }

    /// The newest of each row that has one, in the table's order; all are in the tree then.
    pub(crate) fn keep(&self, table: &Table) -> Result<Vec<Visit>, String> {
        let latest = table.rows.iter().map(|row| self.latest(&row.name));
        let latest: Vec<Visit> = latest.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        for visit in &latest {
            write(&self.kept.join(file_of(&visit.row)), visit)?;
        }
        self.forget_rows_but(&latest)?;
        Ok(latest)
    }

    /// A row that could not run here takes no result from one that did.
    fn latest(&self, row: &str) -> Result<Option<Visit>, String> {
        let paths = [self.kept.join(file_of(row)), self.ran.join(row).join(visit::RESULT)];
        let [kept, ran] = paths.map(|path| read::<Visit>(&path));
        let both = [kept?, ran?].into_iter().flatten();
        // By date and time, which sort as text.
        Ok(both.max_by_key(|visit| (!matches!(visit.end, End::Skipped(_)), visit.at.clone())))
    }

    /// A row that the table no longer has leaves nothing.
    fn forget_rows_but(&self, latest: &[Visit]) -> Result<(), String> {
        let Ok(files) = fs::read_dir(&self.kept) else { return Ok(()) };
        let names: Vec<String> = latest.iter().map(|visit| file_of(&visit.row)).collect();
        let strays = files.flatten().filter(|file| {
            names.iter().all(|name| file.file_name().to_str() != Some(name.as_str()))
        });
        strays.map(|file| file.path()).try_for_each(|path| {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
        })
    }
}

fn file_of(row: &str) -> String {
    format!("{row}.json")
}

/// None where there is none; one that cannot be read is not taken for none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|why| told(&why)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(told(&why)),
    }
}

/// A result as people read it, which names no folder of this machine.
pub(crate) fn write(path: &Path, result: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(result).map_err(|error| error.to_string())?;
    let text = text.replace(&format!("{}/", tools::root().display()), "");
    let text = match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => text.replace(&home, "~"),
        _ => text,
    };
    tools::write(path, &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Unavailable;
    use crate::visit::{Host, Ran};

    const EARLY: &str = "2026-11-22 16:05";
    const LATE: &str = "2026-11-23 01:00";

    struct Folder {
        folder: tempfile::TempDir,
        results: Results,
        table: Table,
    }

    impl Folder {
        /// Of three rows.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let [ran, kept] = ["ran", "kept"].map(|name| folder.path().join(name));
            let mut table = Table::read().unwrap();
            table.rows.truncate(3);
            Self { folder, results: Results { ran, kept }, table }
        }

        fn row(&self, index: usize) -> String {
            self.table.rows[index].name.clone()
        }

        fn put(&self, is_kept: bool, row: &str, at: &str, end: End) {
            let path = if is_kept {
                self.results.kept.join(file_of(row))
            } else {
                self.results.ran.join(row).join(visit::RESULT)
            };
            let (kernel, commit) = (String::new(), String::new());
            let (row, at) = (row.into(), at.into());
            let host = Host::default();
            let visit = Visit { row, at, commit, host, kernel, took_s: 1.0, end };
            tools::write(&path, &serde_json::to_string(&visit).unwrap()).unwrap();
        }

        fn kept(&self) -> Result<Vec<(String, String)>, String> {
            let latest = self.results.keep(&self.table)?;
            Ok(latest.into_iter().map(|visit| (visit.row, visit.at)).collect())
        }
    }

    fn ran() -> End {
        End::Ran(Ran::default())
    }

    #[test]
    fn the_newest_result_is_kept_and_none_of_a_row_that_is_gone() {
        let folder = Folder::new();
        let [first, second, third] = [0, 1, 2].map(|index| folder.row(index));
        folder.put(true, &first, EARLY, ran());
        folder.put(false, &first, "2026-11-22 16:04", ran());
        folder.put(true, &second, EARLY, ran());
        folder.put(false, &second, LATE, End::Broken(String::new()));
        folder.put(true, "a-row-of-old", LATE, ran());

        let expected = [(first, EARLY.to_owned()), (second, LATE.to_owned())];
        assert_eq!(folder.kept().unwrap(), expected);
        let latest = folder.results.keep(&folder.table).unwrap();
        assert!(latest.iter().all(|visit| visit.row != third), "it has never run");
        assert!(!folder.results.kept.join("a-row-of-old.json").exists());
        fs::remove_dir_all(&folder.results.ran).unwrap();
        assert_eq!(folder.kept().unwrap(), expected, "without this target folder");
    }

    #[test]
    fn a_row_that_cannot_run_here_keeps_its_result() {
        let folder = Folder::new();
        let skipped = || End::Skipped(Unavailable::new("no KVM", "another machine"));
        let (first, second) = (folder.row(0), folder.row(1));
        folder.put(true, &first, EARLY, ran());
        folder.put(false, &first, LATE, skipped());
        folder.put(false, &second, LATE, skipped());
        let expected = [(first, EARLY.to_owned()), (second, LATE.to_owned())];
        assert_eq!(folder.kept().unwrap(), expected);
    }

    #[test]
    fn a_result_that_cannot_be_read_is_told_and_left() {
        let folder = Folder::new();
        let path = folder.results.kept.join(file_of(&folder.row(0)));
        folder.put(true, &folder.row(1), EARLY, ran());
        tools::write(&path, "{}").unwrap();
        assert!(folder.kept().unwrap_err().starts_with(&path.display().to_string()));
        assert_eq!(fs::read_dir(&folder.results.kept).unwrap().count(), 2);
        drop(folder.folder);
    }
}
