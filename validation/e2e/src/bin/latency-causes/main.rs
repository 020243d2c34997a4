//! Forces each cause of lateness that this machine lets itself be forced to, counts how often
//! `inspect::latency` names it, and how often where it was not forced:
//!
//! ```sh
//! cargo run -p e2e --bin latency-causes -- [--tries N] [--only CAUSE] [--into FOLDER]
//! ```
//!
//! A cause is named right where it explains at least half of the time that was forced, or
//! where the comparison that proves it holds. What else the machine does meanwhile (other
//! threads, its host) may be named beside it. A run in which the cause could not be forced, or
//! kept out, does not count and is repeated, up to twice as many in all.
//!
//! The result is JSON on standard output. With `--into` each cause's result is also kept in
//! that folder with its date, commit and load, and causes that are right at this commit are not
//! repeated. Exit code 1: a cause was named in less than 95 % of the runs that forced it, or in
//! more than 2 % of those that did not; 2: a usage error. Where no run counts the cause is
//! `not-measured`, with the reason.

mod cases;
mod children;
mod idle_cost;
mod machine;
mod plan;
mod results;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use cases::{CASES, Case};
use results::{Results, load};
use tally::{Tally, Verdict};

const USAGE: &str = "usage: latency-causes [--tries N] [--only CAUSE] [--into FOLDER]";
const USAGE_ERROR: u8 = 2;

struct Options {
    tries: usize,
    only: Option<String>,
    into: Option<PathBuf>,
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { tries: 20, only: None, into: None };
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--tries" => {
                options.tries = value.parse().ok().filter(|tries| *tries > 0)?;
            }
            [name, value] if name == "--only" => {
                CASES.iter().find(|case| case.name == value)?;
                options.only = Some(value.clone());
            }
            [name, value] if name == "--into" => options.into = Some(value.into()),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if children::run(&arguments) {
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    };
    let mut results = options.into.as_deref().map(Results::read);
    let (mut causes, mut is_wrong) = (Vec::new(), false);
    for case in chosen(&options) {
        if results.as_ref().is_some_and(|results| results.has(case.name, options.tries)) {
            eprintln!("{}: right at this commit already", case.name);
            continue;
        }
        let before = load();
        let tally = Tally::take(case, options.tries);
        is_wrong |= tally.verdict() == Verdict::Wrong;
        let result = tally.to_json();
        if let Some(results) = &mut results
            && let Err(error) = results.keep(result.clone(), [before, load()])
        {
            eprintln!("latency-causes: {error}");
            return ExitCode::FAILURE;
        }
        causes.push(result);
    }
    let causes: Value = causes.into();
    println!("{:#}", json!({ "tries": options.tries, "causes": causes }));
    if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn chosen(options: &Options) -> impl Iterator<Item = &'static Case> {
    let only = options.only.as_ref();
    CASES.iter().filter(move |case| only.is_none_or(|only| only == case.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_causes_and_a_folder() {
        let parsed =
            |words: &[&str]| parse(&words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
        let all = parsed(&["--tries", "200", "--only", "quota", "--into", "docs"]);
        let all = all.expect("options");
        assert_eq!((all.tries, all.into), (200, Some("docs".into())));
        assert!(parsed(&[]).is_some_and(|options| options.tries == 20));
        for wrong in [&["--tries", "0"][..], &["--only", "sundial"], &["200"], &["--tries"]] {
            assert!(parsed(wrong).is_none(), "{wrong:?}");
        }
    }
}
