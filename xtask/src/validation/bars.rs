//! What this project asks of itself, with the figure that came of it: `validation/results/bars.toml`,
//! a `[[bar]]` each, as most figures are of several results or of a person's trial.

use std::fmt::Write as _;

use super::field;

/// The bars, beside the other results.
pub(super) const BARS: &str = "validation/results/bars.toml";

/// What a bar must state. `why` is asked of one that is not met, too.
const FIELDS: [&str; 6] = ["what", "bar", "found", "command", "date", "commit"];

/// The table of all bars. A row of machines that meets one has its result among `rows`.
pub(super) fn table(
    text: &mut String,
    bars: &toml::Table,
    rows: &[serde_json::Value],
) -> Result<(), String> {
    let bars: &[toml::Value] =
        bars.get("bar").and_then(toml::Value::as_array).map_or(&[], |all| all);
    if bars.is_empty() {
        return Err(format!("{BARS}: no [[bar]]"));
    }
    let met = bars.iter().filter(|bar| is_met(bar)).count();
    let _ = write!(
        text,
        "\n## Bars\n\n{met} of {} are met.\n\n\
         | what | bar | found | command | date, commit |\n| --- | --- | --- | --- | --- |\n",
        bars.len()
    );
    for bar in bars {
        let what = field(bar, "what");
        if let Some(absent) = FIELDS.iter().find(|name| field(bar, name) == "?") {
            return Err(format!("{BARS}: {what}: no {absent}"));
        }
        let without = |row: &&str| rows.iter().all(|result| result["row"] != **row);
        if is_met(bar)
            && let Some(row) = rows_named(field(bar, "command")).find(without)
        {
            return Err(format!("{BARS}: {what}: met, and row {row} has no result"));
        }
        let found = match (is_met(bar), field(bar, "why")) {
            (true, _) => field(bar, "found").to_owned(),
            (false, "?") => return Err(format!("{BARS}: {what}: not met, and no why")),
            (false, why) => format!("**not met**: {}; {why}", field(bar, "found")),
        };
        let [date, commit] = [field(bar, "date"), field(bar, "commit")];
        let command = match field(bar, "command") {
            "" => String::new(),
            command => format!("`{command}`"),
        };
        let bar = field(bar, "bar");
        let _ = writeln!(text, "| {what} | {bar} | {found} | {command} | {date} {commit} |");
    }
    Ok(())
}

/// The rows of machines that a command runs.
fn rows_named(command: &str) -> impl Iterator<Item = &str> {
    let arguments = command.strip_prefix("cargo xtask machines").unwrap_or("");
    arguments.split(" --only ").skip(1).filter_map(|rest| rest.split(' ').next())
}

fn is_met(bar: &toml::Value) -> bool {
    bar.get("met").and_then(toml::Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(bars: &str) -> Result<String, String> {
        let (mut text, row) = (String::new(), serde_json::json!({ "row": "gate-7.3" }));
        table(&mut text, &bars.parse().unwrap(), &[row]).map(|()| text)
    }

    const MET: &str = "[[bar]]\nwhat = 'kills'\nbar = '0 of 1,000'\nfound = '0'\nmet = true\n\
                       command = 'cargo test'\ndate = '2026-11-28'\ncommit = 'aaa'\n";

    #[test]
    fn a_bar_has_its_figure_and_one_that_is_not_met_its_reason() {
        let text = rendered(MET).unwrap();
        assert!(text.contains("1 of 1 are met."));
        assert!(text.ends_with("| kills | 0 of 1,000 | 0 | `cargo test` | 2026-11-28 aaa |\n"));
        let missed = MET.replace("met = true", "met = false\nwhy = 'one CPU'");
        let text = rendered(&missed).unwrap();
        assert!(text.contains("0 of 1 are met.") && text.contains("| **not met**: 0; one CPU |"));
    }

    #[test]
    fn a_bar_without_its_commit_or_reason_is_no_bar() {
        assert!(rendered(&MET.replace("commit = 'aaa'\n", "")).unwrap_err().contains("no commit"));
        assert!(rendered("[[bars]]\n").unwrap_err().contains("no [[bar]]"));
        assert!(rendered(&MET.replace("met = true\n", "")).unwrap_err().contains("no why"));
    }

    #[test]
    fn a_bar_is_not_met_by_a_row_without_a_result() {
        let by = |rows: &str| MET.replace("cargo test", &format!("cargo xtask machines {rows}"));
        assert!(rendered(&by("--only gate-7.3 --restores 12")).is_ok());
        let why = rendered(&by("--only gate-7.3 --only kvm-6.1")).unwrap_err();
        assert!(why.contains("row kvm-6.1 has no result"), "{why}");
    }
}
