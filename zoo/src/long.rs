//! What takes long, and little of this system's time. docs/validation/long.md
//! has what came of it.

use std::path::Path;

use crate::table::Table;
use crate::visit::{self, Visit};
use crate::{report, setting, write};

/// The page that `--record` writes.
const PAGE: &str = "docs/validation/long.md";

/// Machines at a time: an idle one under emulation takes a twentieth of a CPU.
pub(crate) const AT_ONCE: usize = 8;

/// Writes the page, of the latest visit of each row that has a truth.
pub(crate) fn record(table: &Table, folder: &Path) -> Result<(), String> {
    let rows = table.rows.iter().filter(|row| row.has_truth());
    let latest: Vec<Visit> = rows.clone().filter_map(|row| visit::latest(row, folder)).collect();
    let missing = rows.filter(|row| latest.iter().all(|visit| visit.row != row.name));
    let missing: Vec<&str> = missing.map(|row| row.name.as_str()).collect();
    write(PAGE, report::long_page(&setting(&latest), &latest, &missing))
}
