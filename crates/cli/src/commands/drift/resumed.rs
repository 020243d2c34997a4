//! What an earlier run recorded, to continue or to compute from.

use std::path::Path;

use ::records::{Record, is_unfinished};
use inspect::comparison::{ClockName, stopwatch};

use super::records;
use super::run::DriftRun;
use crate::error::CliError;

/// What is taken of a record, and what for.
#[derive(Debug, Default)]
pub(super) struct Resuming<'a> {
    /// These clocks; all if none is named.
    pub(super) clocks: &'a [ClockName],
    /// Nothing is measured: the file is only read.
    pub(super) only_computes: bool,
    /// A person with a stopwatch continues it.
    pub(super) by_stopwatch: bool,
}

impl DriftRun {
    /// Adds what an earlier run recorded, and continues its file. A run that only
    /// computes leaves the file as it is; but from what a killed run left of a
    /// Parquet file, it makes that.
    pub(super) fn resume(&mut self, path: &Path, how: &Resuming<'_>) -> Result<(), CliError> {
        let (mut last_boot, mut boots) = (None, 0u64);
        let mut references: Vec<String> = Vec::new();
        let take = |clock: ClockName, record: &Record| {
            if last_boot.as_ref() != Some(&record.boot) {
                self.session.interrupt();
                boots += 1;
                last_boot = Some(record.boot.clone());
            }
            if how.clocks.is_empty() || how.clocks.contains(&clock) {
                self.session.add_recorded(clock, &record.reference, record.reading());
                if !references.contains(&record.reference) {
                    references.push(record.reference.clone());
                }
            }
        };
        let note = if how.only_computes && !is_unfinished(path) {
            records::read(path, take)?
        } else {
            let (recorder, note) = records::resume(path, take)?;
            self.recorder = Some(records::Sink::File(recorder));
            note
        };
        self.notes.extend(note);
        if last_boot.is_some_and(|last| last != self.boot) {
            self.session.interrupt();
            boots += 1;
        }
        if boots > 1 {
            let times = if boots > 2 { format!(" {} times", boots - 1) } else { String::new() };
            self.notes.push(format!(
                "This machine was restarted{times} since the record began: frequencies cover \
                 all of it, offsets only the time since the last restart."
            ));
        }
        if !how.only_computes {
            let is_compared = |name: &String| {
                self.session.references().iter().any(|one| one.name() == name)
                    || how.by_stopwatch && name == stopwatch::NAME
            };
            let left_out = references.iter().filter(|name| !is_compared(name));
            let left_out: Vec<String> = left_out.map(|name| left_out_note(name)).collect();
            self.notes.extend(left_out);
        }
        Ok(())
    }
}

/// The note on a reference that this run does not compare with.
fn left_out_note(name: &str) -> String {
    format!(
        "{name} is in the record, but this run did not compare with it: {} continues it.",
        option(name)
    )
}

/// The option of that reference.
fn option(name: &str) -> String {
    match name.split_once(' ') {
        Some(("ntp", server)) => format!("`--ntp {server}`"),
        // What it was specified to count, such as tai=37, after a comma.
        Some(("phc" | "kvm", device)) => format!("`--phc {}`", device.replace(' ', ",")),
        Some((kind, which)) => format!("`--{kind}={which}`"),
        None if name == "raw" => "a run without an option for a reference".into(),
        None => format!("`--{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reference_has_its_option() {
        let names =
            ["ntp [::1]:123", "chrony", "chrony 127.0.0.1:323", "stopwatch", "kvm /dev/ptp0"];
        let options = [
            "--ntp [::1]:123",
            "--chrony",
            "--chrony=127.0.0.1:323",
            "--stopwatch",
            "--phc /dev/ptp0",
        ];
        assert_eq!(names.map(option), options.map(|option| format!("`{option}`")));
        assert_eq!(option("vmclock /dev/vmclock0"), "`--vmclock=/dev/vmclock0`");
        assert_eq!(option("phc /dev/ptp1 tai=37"), "`--phc /dev/ptp1,tai=37`");
    }
}
