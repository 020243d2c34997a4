//! What this project asks of itself, with the figure that came of it: `validation/results/bars.toml`,
//! a `[[bar]]` each, as most figures are of several results or of a person's trial.

use std::fmt::Write as _;

use super::field;

/// The bars, beside the other results.
pub(super) const BARS: &str = "validation/results/bars.toml";

/// What a bar must state. `why` is asked of one that is not met, too.
const FIELDS: [&str; 6] = ["what", "bar", "found", "command", "date", "commit"];

/// The table of all bars.
pub(super) fn table(text: &mut String, bars: &toml::Table) -> Result<(), String> {
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

fn is_met(bar: &toml::Value) -> bool {
    bar.get("met").and_then(toml::Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(bars: &str) -> Result<String, String> {
        let mut text = String::new();
        table(&mut text, &bars.parse().unwrap()).map(|()| text)
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
}
