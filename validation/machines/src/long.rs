//! What takes long, and little of this system's time. docs/validation/long.md
//! has what came of it.

use crate::results::{self, Results};
use crate::table::Table;
use crate::{report, setting, write};

/// The page that `--record` writes.
const PAGE: &str = "docs/validation/long.md";

/// The end of the page about the clock kept, for what is on this one.
pub(crate) const ELSEWHERE: &str = "\n## What takes long\n\n\
    A stop of ten minutes, and the RTC that the kernel sets within eleven of a clock\n\
    that it counts as synchronised: [long runs](long.md#ten-minutes-away), row\n\
    `debian-parachrond-host`.\n";

/// Machines at a time: an idle one under emulation takes a twentieth of a CPU.
pub(crate) const AT_ONCE: usize = 8;

/// Writes the page, of the latest visit of each row that has a truth.
pub(crate) fn record(table: &Table, results: &Results) -> Result<(), String> {
    let latest = results.keep(table)?;
    let rows = table.rows.iter().filter(|row| row.has_truth());
    let missing = results::missing(rows.map(|row| row.name.as_str()), &latest);
    write(PAGE, &report::long_page(&setting(&latest), &latest, &missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_is_linked_to() {
        let page = report::long_page(&[], &[], &[]);
        let (_, anchor) = ELSEWHERE.split_once("](long.md#").unwrap();
        let (anchor, _) = anchor.split_once(')').unwrap();
        let anchors = page.lines().filter_map(|line| line.strip_prefix("## "));
        assert!(anchors.map(|title| title.to_lowercase().replace(' ', "-")).any(|it| it == anchor));
    }
}
