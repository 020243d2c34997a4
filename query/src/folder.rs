//! The files of a folder of records.
//!
//! ```text
//! date=2026-11-22/host=db-1/part-1795305600.parquet   as parachrond writes them
//! date=2026-11-22/part-0.parquet                      a merged day, host a column of it
//! ```
//!
//! Other names than `*.parquet` are left out: lines of the day, for one.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// What is there.
pub(crate) struct Records {
    /// The columns that folders name: the day, and of files that are not merged the host.
    pub(crate) by_path: &'static [&'static str],
    /// In order.
    pub(crate) files: Vec<PathBuf>,
}

const OF_HOSTS: &[&str] = &["date", "host"];
const MERGED: &[&str] = &["date"];

impl Records {
    /// What the folder has.
    pub(crate) fn find(root: &Path) -> Result<Self, Failure> {
        let (mut of_hosts, mut merged) = (Vec::new(), Vec::new());
        let mut others = Vec::new();
        for day in entries(root)? {
            if !named(&day, "date=") {
                others.extend(parquet(&day));
                continue;
            }
            for entry in entries(&day.path())? {
                if named(&entry, "host=") {
                    of_hosts.extend(entries(&entry.path())?.iter().filter_map(parquet));
                } else {
                    merged.extend(parquet(&entry));
                }
            }
        }
        let expected = "a folder of date=YEAR-MONTH-DAY/host=NAME/part-*.parquet, as parachrond \
                        writes and docs/guide/fleet-records.md gathers them";
        if let Some(other) = others.first() {
            return Err(Failure::new(
                format!("{} is in no folder of a day", other.display()),
                expected,
            ));
        }
        let (by_path, mut files) = match (of_hosts.first(), merged.first()) {
            (None, None) => {
                let cause = format!("{} has no records", root.display());
                return Err(Failure::new(cause, expected));
            }
            (Some(one), Some(other)) => {
                return Err(Failure::new(
                    format!(
                        "{} is a host's and {} a merged day: a folder is either",
                        one.display(),
                        other.display()
                    ),
                    "merged days in another folder, with all that is asked about",
                ));
            }
            (Some(_), None) => (OF_HOSTS, of_hosts),
            (None, Some(_)) => (MERGED, merged),
        };
        files.sort();
        Ok(Self { by_path, files })
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, Failure> {
    let all: io::Result<Vec<DirEntry>> = fs::read_dir(folder).and_then(Iterator::collect);
    all.map_err(|why| {
        let cause = format!("cannot read {}: {why}", folder.display());
        Failure::new(cause, "a folder of records that you may read")
    })
}

fn named(entry: &DirEntry, begin: &str) -> bool {
    entry.file_name().to_str().is_some_and(|name| name.starts_with(begin)) && entry.path().is_dir()
}

fn parquet(entry: &DirEntry) -> Option<PathBuf> {
    Some(entry.path()).filter(|path| path.extension().is_some_and(|end| end == "parquet"))
}
