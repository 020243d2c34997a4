//! docs/validation/timekeeper.md: what each kernel has shown, and whether the
//! model agrees.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::replay::{Counter, Outcome, replay};
use super::seen::{ROWS, SET};
use crate::tools;

/// The page.
const PAGE: &str = "docs/validation/timekeeper.md";

const HEAD: &str = "# The timekeeper and real kernels

`cargo xtask machines --timekeeper FOLDER` writes this page. It replays each
transcript of the folder, `*.txt`, on the model of `crates/kernel-clock`. A transcript is
what `guest-timex` did and saw in user-mode Linux (rows `uml-*` of
`validation/machines/machines.toml` write one to `target/machines/ROW/timex.txt`): random programs of
`adjtimex` and `clock_settime`, with each tick seen as it came. A part of each is
in `testdata/timekeeper`, and `cargo test -p machines` replays that.

Every field that `adjtimex` returns has to be equal, its result too. The time of
day and the other clocks have to be within the bracket of their reading, a unit
of the counter (256 ns), and what a change of rate makes of not knowing a tick's
moment better than the guest saw it. A reading is *close* where the last was not
needed. Between two ticks that change no rate, `CLOCK_MONOTONIC_COARSE` has to move
as the model's does, but for the cut of its readings to whole ns (2 ns in 10 ms).
";

const FOOT: &str = "
## Not seen here

| what | why | from |
| --- | --- | --- |
| the negative offset cast to 32 bits | cured in all three kernels | f5807b0606da |
| the watchdog, failover, `acpi_pm`, `hpet` and TSC | user-mode Linux has one clock source, and no watchdog; the watchdog is held against logs that people published, and the sources of 6.1, 6.12 and 7.2 | `crates/kernel-clock/src/watchdog/tests.rs` |
| sleep without ticks for longer than half a second | the guest does not | |
| the multiplier's last bit, which makes good what a whole multiplier misses | 0.005 ns a tick: a model without it passes as well | `timekeeping_adjust` |
| a second that begins twice, as the clock was steered to before it | a model without it passes as well | `timekeeping_adjust` |
| suspend | user-mode Linux of Debian has none that a program can start | |
| PPS | needs a kernel without `CONFIG_NO_HZ` | |
| other ticks than 100 Hz | Debian's configuration of user-mode Linux | |
";

/// Writes the page from the transcripts of a folder; fails if one differs.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let cannot = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut files: Vec<_> = fs::read_dir(folder)
        .map_err(|error| cannot(folder, error))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let mut columns: Vec<(String, Outcome)> = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| cannot(&path, error))?;
        let counter = Counter::of(&text).ok_or_else(|| format!("{}: no kernel", path.display()))?;
        let version = counter.kernel.version;
        let name = format!("{}.{}.{}", version.0, version.1, version.2);
        columns.push((name, replay(&text, counter)));
    }
    let page = tools::root().join(PAGE);
    fs::write(&page, text(&columns)).map_err(|error| cannot(&page, error))?;
    let all = columns.iter().flat_map(|(_, outcome)| &outcome.differences);
    let differences: Vec<&str> = all.map(String::as_str).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

fn text(columns: &[(String, Outcome)]) -> String {
    let mut text = HEAD.to_owned();
    let row = |text: &mut String, name: &str, cell: &dyn Fn(&Outcome) -> String| {
        let _ = write!(text, "| {name} |");
        for (_, outcome) in columns {
            let _ = write!(text, " {} |", cell(outcome));
        }
        text.push('\n');
    };
    let _ = write!(text, "\nRecorded until {}.\n\n| kernel |", tools::now_utc());
    for (name, _) in columns {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(columns.len()));
    row(&mut text, "programs", &|one| one.programs.to_string());
    row(&mut text, "of them ended early, as the guest was delayed", &|one| one.delayed.to_string());
    row(&mut text, "**different from the model**", &|one| one.differences.len().to_string());
    row(&mut text, "calls of `adjtimex`", &|one| one.calls.to_string());
    row(&mut text, "ticks followed", &|one| one.ticks.to_string());
    row(&mut text, "of them several at once, late or after a sleep without ticks", &|one| {
        format!("{} (up to {})", one.several, one.most)
    });
    row(&mut text, "of them compared to the ns", &|one| one.exact.to_string());
    row(&mut text, "times compared", &|one| one.readings.to_string());
    row(&mut text, "of them close", &|one| one.close.to_string());
    row(&mut text, "furthest beyond its bracket, µs", &|one| (one.worst_ns / 1000).to_string());
    row(&mut text, "largest allowance, µs", &|one| (one.allowed_ns / 1000).to_string());
    text.push_str("\n## What was seen on which kernel\n\nHow often, and the model agreed.\n\n| |");
    for (name, _) in columns {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(columns.len()));
    for name in SET.into_iter().chain(ROWS.map(|(name, _)| name)) {
        row(&mut text, name, &|one| one.seen.get(name).unwrap_or(&0).to_string());
    }
    text.push_str(FOOT);
    text
}
