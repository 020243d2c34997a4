//! What a run does not show, by the table's own word and by what a machine can know: a part
//! of docs/validation/machines.md.

use crate::report::paragraph;
use crate::table::Table;

/// What no program in such a machine can see, and is right there.
const OF_WATCH: [&str; 2] = [
    "a stop of 0.3 s under emulation is not reported, and that counts as right: every counter of \
    the machine stops with it except the RTC, which `watch` reads in whole seconds, so that only \
    a stop of a second or more shows. Under KVM the TSC keeps counting, and the stop is reported.",
    "a snapshot that is restored under emulation and leaves the time of day less than a second \
    behind the RTC, as both are read from outside, may be unreported for the same reason. A live \
    migration, which its page names, may be reported without a size then.",
];

/// The part of the page.
pub(crate) fn text(table: &Table) -> String {
    let mut text = String::from("\n## What `watch` cannot detect\n\n");
    OF_WATCH.iter().for_each(|limit| paragraph(&mut text, "- ", limit));

    text.push_str("\n## Rows that run only where they are named\n\n");
    for row in &table.rows {
        if let Some(why) = &row.only_named {
            paragraph(&mut text, "- ", &format!("{}: {why}", row.name));
        }
    }

    text.push_str("\n## Rows with a network that leave `drift` to another\n\n");
    paragraph(&mut text, "", "The other row is the same kernel on the same machine.");
    text.push('\n');
    for row in &table.rows {
        if let Some(other) = &row.drift_as {
            paragraph(&mut text, "- ", &format!("{}: {other}", row.name));
        }
    }

    text.push_str("\n## Machines without a row\n\n");
    for absent in &table.absent {
        paragraph(&mut text, "- ", &format!("{}: {}", absent.machine, absent.why));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_that_is_left_out_somewhere_is_told_with_the_reason() {
        let table = Table::read().unwrap();
        let text = text(&table).split_whitespace().collect::<Vec<_>>().join(" ");
        for row in &table.rows {
            for word in row.only_named.iter().chain(&row.drift_as) {
                assert!(text.contains(&format!("- {}: {word}", row.name)), "{}", row.name);
            }
        }
        for absent in &table.absent {
            assert!(text.contains(&absent.why), "{}", absent.machine);
        }
    }
}
