//! `parachron lab`: a virtual machine whose clock is ours to arrange, put to
//! the test from inside and outside at once.

mod absent;
mod checks;
mod csv;
mod format;
mod guest_image;
mod junit;
mod options;
mod plot;
pub(crate) mod report;
#[cfg(test)]
mod sample;
mod session;
mod summary;
mod tables;
mod tap;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use lab::Experiment;

use crate::error::CliError;
use options::{Agreement, All, Conformance, Cost, Drift, Monotonic, Offset, Restore, Updates};
use session::Order;

/// Put the clock of a virtual machine of our own to the test.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    one: Option<One>,
    #[command(flatten)]
    all: All,
}

/// One experiment, or the guest.
#[derive(Debug, Subcommand)]
enum One {
    /// Guest time against host time, by provider and clock
    Drift(Drift),
    /// What each event does to the clock page, KVM's beside ours
    Updates(Updates),
    /// What reading each clock costs inside the guest
    Cost(Cost),
    /// Whether time ever goes backward from one vCPU to the next
    Monotonic(Monotonic),
    /// The guest's idea of now against the host's
    Offset(Offset),
    /// What a guest sees of having been saved and restored
    Restore(Restore),
    /// The kernel's page against ours, for one guest
    Agreement(Agreement),
    /// What KVM's own tests ask of a clock, check by check
    Conformance(Conformance),
    /// Write the lab's guest to a file, for other hosts to boot
    GuestImage(guest_image::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let order = match &args.one {
        None => args.all.order(),
        Some(One::Drift(args)) => Order::one(Experiment::Drift, args.tuning(), &args.run),
        Some(One::Updates(args)) => Order::one(Experiment::Updates, args.tuning(), &args.run),
        Some(One::Cost(args)) => Order::one(Experiment::Cost, args.tuning(), &args.run),
        Some(One::Monotonic(args)) => Order::one(Experiment::Monotonic, args.tuning(), &args.run),
        Some(One::Offset(args)) => Order::one(Experiment::Offset, args.tuning(), &args.run),
        Some(One::Restore(args)) => Order::one(Experiment::Restore, args.tuning(), &args.run),
        Some(One::Agreement(args)) => Order::one(Experiment::Agreement, args.tuning(), &args.run),
        Some(One::Conformance(args)) => {
            Order::one(Experiment::Conformance, args.tuning(), &args.run)
        }
        Some(One::GuestImage(args)) => return guest_image::run(args),
    };
    order.carry_out()
}

#[cfg(test)]
mod tests;
