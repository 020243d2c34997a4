//! `alerts --runs N [--threads N] [--minutes N] [--into FILE]`: simulates each kind of fault N
//! times under each discipline, and prints the tables.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use alerts::{report, study};

/// Where the tables go: between these lines of a page.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

/// What a program prints, on one line.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let number = |name: &str, default: u64| value(name).map_or(Some(default), |it| it.parse().ok());
    let (Some(runs), Some(threads)) = (number("--runs", 10), number("--threads", 2)) else {
        eprintln!("usage: alerts [--runs N] [--threads N] [--minutes N] [--into FILE]");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let until = number("--minutes", 0).filter(|minutes| *minutes > 0);
    let until = until.map(|minutes| begun + Duration::from_secs(minutes * 60));
    let cells = study::study(runs, threads as usize, until);
    let days = cells.iter().map(|cell| cell.runs).sum::<u64>() * study::DAYS;
    let tables = format!(
        "By `alerts {}` on {}, commit {}: {days} machine-days, each machine watched for {} of \
         them.\n\n\
         {}\n{}\n{}",
        words.join(" "),
        output_of("date", &["-u", "+%F"]),
        output_of("git", &["describe", "--always", "--dirty"]),
        study::DAYS,
        report::recall_table(&cells),
        report::false_table(&cells),
        report::matrix(&cells),
    );
    eprintln!("{days} machine-days in {:.0} s", begun.elapsed().as_secs_f64());
    let (below, loud) = report::missed(&cells);
    below.iter().for_each(|cell| eprintln!("found too seldom: {cell}"));
    loud.iter().for_each(|rule| eprintln!("fires too often: {rule}"));
    match value("--into") {
        None => println!("{tables}"),
        Some(path) => {
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            let Some((before, rest)) = page.split_once(BEGIN) else {
                eprintln!("{path} lacks the line {BEGIN}");
                return ExitCode::from(2);
            };
            let Some((_, after)) = rest.split_once(END) else {
                eprintln!("{path} lacks the line {END}");
                return ExitCode::from(2);
            };
            if let Err(why) = std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}"))
            {
                eprintln!("{path}: {why}");
                return ExitCode::from(2);
            }
        }
    }
    if below.is_empty() && loud.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
