//! What takes long, and little of this system's time: some machines run it at
//! once. docs/validation/long.md has what came of it.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use crate::args::Args;
use crate::base::Workshop;
use crate::table::Row;
use crate::visit::{self, Visit};
use crate::{print, report, setting, write};

/// The page that `--record` writes.
const PAGE: &str = "docs/validation/long.md";

/// Machines at a time: an idle one under emulation takes a twentieth of a CPU.
const AT_ONCE: usize = 8;

/// Visits the rows that have a truth.
pub(crate) fn run(
    workshop: &Workshop,
    rows: &[Row],
    folder: &Path,
    args: &Args,
) -> Result<Vec<Visit>, String> {
    let waiting = Mutex::new(rows.iter().filter(|row| row.has_truth()));
    let visits = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = next() {
                    let visit = visit::long(workshop, row, folder);
                    print(&visit, args.verbose);
                    if let Ok(mut all) = visits.lock() {
                        all.push(visit);
                    }
                }
            });
        }
    });
    if args.record {
        let rows = workshop.table.rows.iter().filter(|row| row.has_truth());
        let latest: Vec<Visit> =
            rows.clone().filter_map(|row| visit::latest(row, folder)).collect();
        let missing = rows.filter(|row| latest.iter().all(|visit| visit.row != row.name));
        let missing: Vec<&str> = missing.map(|row| row.name.as_str()).collect();
        write(PAGE, report::long_page(&setting(&latest), &latest, &missing))?;
    }
    visits.into_inner().map_err(|error| error.to_string())
}
