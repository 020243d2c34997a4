//! `parachron fleet query`: hands a question over to `parachron-query`, which has the
//! engine, and shows the answer.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use instruments::figures;
use serde_json::Value;

use crate::error::{CliError, note};
use crate::output::table::{Cell, Column, ReportTable, width};
use crate::output::{self, Format};

/// The program with the engine.
const PROGRAM: &str = "parachron-query";
/// A person reads no more rows.
const MOST_ROWS: usize = 1000;

/// Query the records of a fleet's clocks, by a shipped question or in SQL.
///
/// The records are those of parachrond, collected from many machines: the table `clocks`.
/// Shipped questions: changed-last-night, drift-by-clocksource, margin-by-consumer,
/// restores-by-platform, worst-clocks. Needs the program parachron-query, which contains
/// DataFusion and is built separately.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A shipped question's name, or SQL
    #[arg(value_name = "NAME|SQL")]
    question: String,

    /// A folder of date=DAY/host=NAME/part-*.parquet, or of merged days
    #[arg(long, value_name = "DIR")]
    records: PathBuf,

    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Memory limit of parachron-query, MB
    #[arg(long, value_name = "MB", default_value_t = 2048,
          value_parser = clap::value_parser!(u32).range(256..))]
    memory: u32,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let program = find()?;
    let form = match args.format {
        Format::Json => "json",
        Format::Csv => "csv",
        Format::Text | Format::Markdown => "rows",
    };
    let is_table = form == "rows";
    let mut command = Command::new(&program);
    command.args(["--format", form, "--memory", &args.memory.to_string(), "--records"]);
    command.arg(&args.records).arg("--").arg(&args.question);
    command.stdout(if is_table { Stdio::piped() } else { Stdio::inherit() });
    let failed = |why: std::io::Error| CliError::Failed {
        cause: format!("cannot start {}: {why}", program.display()),
        remedy: format!("run `{PROGRAM} --version`"),
    };
    let mut child = command.spawn().map_err(failed)?;
    let answer = if is_table { Some(answer(&mut child)?) } else { None };
    let status = child.wait().map_err(failed)?;
    let Some(code) = status.code() else {
        return Err(CliError::Failed {
            cause: format!("{PROGRAM} was ended: {status}"),
            remedy: "raise --memory if it reported a failed allocation".into(),
        });
    };
    if let (0, Some(answer)) = (code, answer) {
        output::text(&answer.render(args.format))?;
        answer.note_rest();
    }
    // It has printed its own error.
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The program: beside this one, or else on PATH.
fn find() -> Result<PathBuf, CliError> {
    let here = std::env::current_exe().ok();
    let beside = here.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = beside.into_iter().chain(std::env::split_paths(&path));
    let found = all.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file());
    found.ok_or_else(|| CliError::Failed {
        cause: format!("{PROGRAM} is neither next to parachron nor on PATH"),
        remedy:
            "run `cargo install --locked --path query` in Parachron's repository; or query with \
                 DuckDB, ClickHouse or DataFusion as in docs/guide/fleet-records.md"
                .into(),
    })
}

/// What is shown of an answer.
struct QueryAnswer {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// All of them.
    count: usize,
}

/// Reads it all, so that the child ends.
fn answer(child: &mut Child) -> Result<QueryAnswer, CliError> {
    let mut answer = QueryAnswer { names: Vec::new(), rows: Vec::new(), count: 0 };
    let Some(lines) = child.stdout.take() else { return Ok(answer) };
    for (number, line) in BufReader::new(lines).lines().enumerate() {
        let line = line?;
        if number > MOST_ROWS {
            answer.count += 1;
            continue;
        }
        let wrong = |why: serde_json::Error| CliError::Failed {
            cause: format!("cannot parse the reply of {PROGRAM}: {why}"),
            remedy: format!(
                "install the same version of parachron and {PROGRAM}; check with `{PROGRAM} --version`"
            ),
        };
        if number == 0 {
            answer.names = serde_json::from_str(&line).map_err(wrong)?;
        } else {
            answer.rows.push(serde_json::from_str(&line).map_err(wrong)?);
            answer.count += 1;
        }
    }
    Ok(answer)
}

impl QueryAnswer {
    /// A table; where that is wider than a terminal, a table of each row.
    fn render(&self, format: Format) -> String {
        if self.rows.is_empty() {
            return "No rows.\n".to_owned();
        }
        let is_figure: Vec<bool> = (0..self.names.len()).map(|at| self.is_figure(at)).collect();
        let column = |(name, is_figure): (&String, &bool)| {
            let name = shown_name(name);
            if *is_figure { Column::figures(name, "") } else { Column::names(name) }
        };
        let mut table = ReportTable::new("", self.names.iter().zip(&is_figure).map(column));
        for row in &self.rows {
            let cells = self.names.iter().zip(row).map(|(name, value)| cell(name, value));
            table.row(cells);
        }
        let text = table.render(format);
        let fits = |line: &str| line.chars().count() <= width();
        if format == Format::Markdown || text.lines().all(fits) { text } else { self.long() }
    }

    fn long(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let mut table = ReportTable::new("", [Column::names(""), Column::words("")]);
            for (name, value) in self.names.iter().zip(row) {
                table.row([Cell::from(shown_name(name)), cell(name, value)]);
            }
            // Without the rule below an empty heading.
            let lines = table.text();
            text.extend(lines.lines().skip(2).flat_map(|line| [line, "\n"]));
            text.push('\n');
        }
        text
    }

    fn is_figure(&self, at: usize) -> bool {
        self.rows.iter().filter_map(|row| row.get(at)).all(|it| it.is_number() || it.is_null())
    }

    /// Notes how many rows are not shown.
    fn note_rest(&self) {
        if self.count > self.rows.len() {
            note(&format!(
                "showing the first {} of {} rows; --format csv has all",
                self.rows.len(),
                self.count
            ));
        }
    }
}

/// The units that times are in, and how many nanoseconds each is.
const UNITS: [(&str, f64); 3] = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6)];

/// A name without its unit, which each figure has, and that unit: `least_margin` of
/// `least_margin_ns`, `off_after` of `off_ns_after`.
fn unit(name: &str) -> Option<(String, f64)> {
    UNITS.iter().find_map(|(unit, ns)| {
        let at = format!("{name}_").find(&format!("{unit}_"))?;
        Some((format!("{}{}", &name[..at], &name[at + unit.len()..]), *ns))
    })
}

fn shown_name(name: &str) -> String {
    unit(name).map_or_else(|| name.to_owned(), |(name, _)| name).replace('_', " ")
}

/// 5110000 in a column `off_ns` is 5.11 ms.
fn cell(name: &str, value: &Value) -> Cell {
    match (value, unit(name)) {
        (Value::Null, _) => Cell::none(),
        (Value::String(text), _) => Cell::from(text.as_str()),
        (Value::Number(number), Some((_, ns))) => {
            let ns = number.as_f64().unwrap_or_default() * ns;
            Cell::figure_as(figures::time(ns), ns)
        }
        (other, _) => Cell::from(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(names: &[&str], row: Value) -> QueryAnswer {
        let Value::Array(row) = row else { panic!("a row") };
        QueryAnswer {
            names: names.iter().map(|&it| it.to_owned()).collect(),
            rows: vec![row],
            count: 1,
        }
    }

    #[test]
    fn times_have_their_unit_and_wide_rows_a_table_each() {
        let narrow =
            answer(&["host", "off_ns", "minutes"], serde_json::json!(["a", 5_110_000, null]));
        let text = narrow.render(Format::Text);
        assert!(text.starts_with("host      off  minutes\n──"), "{text}");
        assert!(text.ends_with("\na     5.11 ms        –\n"), "{text}");
        let names = ["host", "kernel_before", "kernel_after", "worst_us"];
        let wide = answer(&names, serde_json::json!(["a".repeat(60), "6.1.0-49", "6.1.0-50", 40]));
        assert_eq!(shown_name("off_ns_before"), "off before");
        let text = wide.render(Format::Text);
        assert!(text.contains("\nkernel before  6.1.0-49\nkernel after   6.1.0-50\n"), "{text}");
        assert!(text.contains("\nworst          40.0 µs\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
