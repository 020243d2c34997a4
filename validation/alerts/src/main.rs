//! `alerts --runs N [--threads N] [--minutes N] [--into FILE]`: simulates each kind of fault N
//! times under each discipline, and prints the result, or writes it to a file.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use alerts::{report, study};

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
    let days = report::machine_days(&cells);
    eprintln!("{days} machine-days in {:.0} s", begun.elapsed().as_secs_f64());
    let (below, loud) = report::missed(&cells);
    below.iter().for_each(|cell| eprintln!("found too seldom: {cell}"));
    loud.iter().for_each(|rule| eprintln!("fires too often: {rule}"));
    let result = format!("{:#}\n", report::result(&cells));
    match value("--into") {
        None => print!("{result}"),
        Some(path) => {
            if let Err(why) = std::fs::write(&path, result) {
                eprintln!("{path}: {why}");
                return ExitCode::from(2);
            }
        }
    }
    if below.is_empty() && loud.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
