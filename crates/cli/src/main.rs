//! Parachron: time in virtual machines.

use std::process::ExitCode;

fn main() -> ExitCode {
    parachron::run()
}
