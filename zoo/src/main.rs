//! `cargo xtask machines`: virtual machines in QEMU's software emulation, and
//! what is checked in them. A stock Debian kernel has what a cloud machine's
//! lacks (HPET, ACPI PM timer, a CMOS RTC, all of KVM's clocks), and the guest
//! is deleted afterwards, so its clock and its clock source may be changed.

mod args;
mod artifacts;
mod boot;
mod checks;
mod commands;
mod disruptions;
mod image;
mod initramfs;
mod modules;
mod outcome;
mod packages;
mod parts;
mod qemu;
mod qmp;
mod records;
mod report;
mod tools;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::checks::Check;
use crate::outcome::{Failure, Unavailable};

/// Exit code of a skip under `--require`.
const SKIPPED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    match parts::run(&args) {
        Ok((checks, skipped)) => {
            let passed = checks.iter().filter(|check| check.passed).count();
            for Check { what, found, passed } in &checks {
                if !passed || args.verbose {
                    let verdict = if *passed { "passed" } else { "FAILED" };
                    println!("{verdict}  {what}\n        {found}");
                }
            }
            skipped.iter().for_each(print_skip);
            println!("machines: {passed} of {} checks passed", checks.len());
            exit_code(passed == checks.len(), skipped.is_empty(), args.require)
        }
        Err(Failure::Unavailable(unavailable)) => {
            print_skip(&unavailable);
            exit_code(true, false, args.require)
        }
        Err(Failure::Failed(why)) => {
            println!("{}\nmachines: FAILED", why.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// One line, which `.ci/run` counts.
fn print_skip(Unavailable { why, remedy }: &Unavailable) {
    println!("machines: SKIPPED: {why}; try: {remedy}");
}

/// A failed check fails the run; a skip does only where nothing may be skipped.
fn exit_code(all_passed: bool, all_ran: bool, require: bool) -> ExitCode {
    if !all_passed {
        ExitCode::FAILURE
    } else if require && !all_ran {
        ExitCode::from(SKIPPED)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_fails_only_if_nothing_may_be_skipped() {
        assert_eq!(exit_code(true, true, true), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, false), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, true), ExitCode::from(2));
        assert_eq!(exit_code(false, false, true), ExitCode::FAILURE);
    }
}
