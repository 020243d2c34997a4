//! Parachron compared with its peers, results asserted: `cargo xtask bench NAME`.

#[cfg(target_arch = "x86_64")]
mod c_calls;
mod doctor;
mod host;
mod read;
mod rounds;
mod sources;

use std::process::ExitCode;

/// Exit code when a bar is not met.
const NOT_MET: u8 = 1;
/// Exit code when it could not be measured.
const COULD_NOT: u8 = 2;

/// Rounds of the host's code.
const ROUNDS: u32 = 2_000;

const USAGE: &str = "\
usage: cargo xtask bench NAME
  read [--each-source] [--rounds N]   a clock read, compared with the peers'
  host [update|entry] [--rounds N]    a page update by a host's code, and a vCPU's entry
  doctor [--runs N]                   `parachron doctor` as a whole process
--each-source measures under each of the kernel's clocksources (as root), and
restores the first.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let met = match words.as_slice() {
        ["read", options @ ..] => read::Options::parse(options).map(|options| read::run(&options)),
        ["host"] => Some(host::run(host::Part::Both, ROUNDS)),
        ["host", "--rounds", rounds] => {
            rounds.parse().ok().map(|rounds| host::run(host::Part::Both, rounds))
        }
        ["host", part] => host::Part::parse(part).map(|part| host::run(part, ROUNDS)),
        ["host", part, "--rounds", rounds] => host::Part::parse(part)
            .zip(rounds.parse().ok())
            .map(|(part, rounds)| host::run(part, rounds)),
        ["doctor"] => Some(doctor::run(10)),
        ["doctor", "--runs", runs] => runs.parse().ok().map(doctor::run),
        [sources::GUARD, source] => Some(sources::stand_guard(source)),
        _ => None,
    };
    match met {
        Some(Ok(true)) => ExitCode::SUCCESS,
        Some(Ok(false)) => ExitCode::from(NOT_MET),
        Some(Err(error)) => {
            eprintln!("bench: {error}");
            ExitCode::from(COULD_NOT)
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(COULD_NOT)
        }
    }
}

/// Prints a figure and its bar; whether it is met, by the figure itself and not
/// by what is printed of it.
fn judge(what: &str, figure: f64, bar: f64, unit: &str) -> bool {
    let met = figure <= bar;
    let word = if met { "met" } else { "NOT MET" };
    println!("{what:<46} {figure:>9.4}{unit}  at most {bar:.2}{unit}  {word}");
    met
}
