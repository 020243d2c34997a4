//! How long whole runs take by this system's clock: of all rows, and of the quick ones. The
//! sum of the rows says little of that: several run at a time, and programs are built first.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::results;
use crate::tools;

/// The runs that may not take longer than they promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All rows but those that run only where they are named.
    All,
    /// Those of `--quick`.
    Quick,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::All, Self::Quick];

    const fn file(self) -> &'static str {
        match self {
            Self::All => "whole/all.json",
            Self::Quick => "whole/quick.json",
        }
    }

    /// What it may take on two CPUs, without the downloads.
    pub(crate) const fn allowed(self) -> Duration {
        match self {
            // The rows of 2026-11-23 take 161 min one after another (the sum of `took_s` in
            // validation/results/rows), and about 75 min three at a time: most machines are
            // emulated, and an emulated vCPU takes a CPU. The rest is for the build and for load.
            Self::All => Duration::from_secs(90 * 60),
            Self::Quick => Duration::from_secs(8 * 60),
        }
    }
}

/// One run and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Whole {
    /// When it began, in UTC.
    pub(crate) at: String,
    /// The state of this repository.
    pub(crate) commit: String,
    pub(crate) rows: usize,
    /// Of these, the rows that could not run here.
    pub(crate) skipped: usize,
    pub(crate) at_once: usize,
    pub(crate) cpus: usize,
    /// For the programs that the machines run.
    pub(crate) build_s: f64,
    /// For the rows.
    pub(crate) rows_s: f64,
    /// What such a run may take, where it is of all rows or of the quick ones.
    pub(crate) allowed_s: Option<f64>,
}

impl Whole {
    /// What it took, and whether that is allowed.
    pub(crate) fn judged(&self, kind: Kind) -> String {
        let allowed_s = kind.allowed().as_secs_f64();
        let verdict = if self.build_s + self.rows_s > allowed_s { ": **longer**" } else { "" };
        format!("{self}; {:.0} min are allowed{verdict}", allowed_s / 60.0)
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, skipped, at_once, cpus, build_s, rows_s, .. } = self;
        write!(out, "{rows} rows")?;
        if *skipped > 0 {
            write!(out, ", {skipped} of them skipped")?;
        }
        let minutes = |s: &f64| s / 60.0;
        write!(out, ", {at_once} at a time on {cpus} CPUs, in {:.1} min", minutes(rows_s))?;
        write!(out, ", and {:.1} min to build the programs", minutes(build_s))
    }
}

/// Rows at a time, where nothing else is asked for: two CPUs bear three, as most of a
/// machine's time is waiting (measured 2026-11-23).
pub(crate) fn at_once() -> usize {
    (tools::cpus() * 3 / 2).max(1)
}

/// Remembers a run until it is recorded.
pub(crate) fn remember(kind: Kind, whole: &Whole) -> Result<(), String> {
    write(&ran(), kind, whole)
}

/// The newest of each kind is in the tree then.
pub(crate) fn keep() -> Result<(), String> {
    Kind::BOTH.into_iter().try_for_each(|kind| keep_newest(&ran(), &kept(), kind).map(drop))
}

fn keep_newest(ran: &Path, kept: &Path, kind: Kind) -> Result<Option<Whole>, String> {
    let both = [ran, kept].map(|folder| results::read::<Whole>(&folder.join(kind.file())));
    let [ran, in_tree] = both;
    // By date and time, which sort as text.
    let newest = [in_tree?, ran?].into_iter().flatten().max_by_key(|whole| whole.at.clone());
    newest.as_ref().map_or(Ok(()), |newest| write(kept, kind, newest))?;
    Ok(newest)
}

fn write(folder: &Path, kind: Kind, whole: &Whole) -> Result<(), String> {
    results::write(&folder.join(kind.file()), whole)
}

fn ran() -> PathBuf {
    tools::target_folder().join("machines")
}

fn kept() -> PathBuf {
    tools::root().join(results::FOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(at: &str, rows_s: f64) -> Whole {
        let (at, commit) = (at.to_owned(), "abc".to_owned());
        Whole {
            at,
            commit,
            rows: 9,
            skipped: 1,
            at_once: 3,
            cpus: 2,
            build_s: 60.0,
            rows_s,
            allowed_s: None,
        }
    }

    #[test]
    fn what_took_longer_than_is_allowed_is_told() {
        let said = whole("", 419.0).judged(Kind::Quick);
        let all = "9 rows, 1 of them skipped, 3 at a time on 2 CPUs, in 7.0 min, and 1.0 min to \
                   build the programs; 8 min are allowed";
        assert_eq!(said, all);
        assert_eq!(whole("", 421.0).judged(Kind::Quick), format!("{all}: **longer**"));
        let verdict = |rows_s| whole("", rows_s).judged(Kind::All);
        assert!(verdict(5339.0).ends_with("; 90 min are allowed"));
        assert!(verdict(5341.0).ends_with("; 90 min are allowed: **longer**"));
    }

    #[test]
    fn the_newest_run_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [ran, kept] = ["ran", "kept"].map(|name| folder.path().join(name));
        let newest = || keep_newest(&ran, &kept, Kind::All).unwrap().map(|whole| whole.at);
        assert_eq!(newest(), None);
        write(&kept, Kind::All, &whole("2026-11-23 08:00", 60.0)).unwrap();
        assert_eq!(newest().unwrap(), "2026-11-23 08:00");
        write(&ran, Kind::All, &whole("2026-11-23 09:00", 60.0)).unwrap();
        assert_eq!(newest().unwrap(), "2026-11-23 09:00");
        std::fs::remove_dir_all(&ran).unwrap();
        assert_eq!(newest().unwrap(), "2026-11-23 09:00", "without this target folder");
    }
}
