//! `parachron lab`: experiments on the clock of a virtual machine, from inside
//! and outside at once.

mod checks;
mod csv;
mod format;
mod guest_image;
mod linux;
mod options;
mod plot;
mod remedies;
pub(crate) mod report;
mod session;
mod summary;
mod tables;
mod text;

use std::process::ExitCode;

use crate::error::CliError;
use clap::Subcommand;
use options::{
    Agreement, All, Conformance, Cost, Drift, Locks, Monotonic, Network, Offset, Restore, Ticks,
    Updates,
};

/// Test the clock of a small virtual machine from inside and outside.
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
    /// What each event does to the clock page, KVM's and Parachron's
    Updates(Updates),
    /// Cost of reading each clock inside the guest
    Cost(Cost),
    /// Whether time ever goes backward from one vCPU to the next
    Monotonic(Monotonic),
    /// Offset between the guest's clock and the host's
    Offset(Offset),
    /// What a guest sees of being saved and restored
    Restore(Restore),
    /// What a guest that counts timer ticks loses while it is not run, by policy
    Ticks(Ticks),
    /// What a spin lock does when vCPUs outnumber CPUs, by how its waiters wait
    Locks(Locks),
    /// What a packet costs, by how guest and host wait for it
    Network(Network),
    /// KVM's clock page against Parachron's, for one guest
    Agreement(Agreement),
    /// The checks of KVM's own tests of guest clocks
    Conformance(Conformance),
    /// What a stock Linux kernel makes of each provider: clock source, time, log
    Linux(linux::Args),
    /// Write the lab's guest to a file, to boot it elsewhere
    GuestImage(guest_image::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = match &args.one {
        None => args.all.plan(),
        Some(One::Drift(args)) => args.plan(),
        Some(One::Updates(args)) => args.plan(),
        Some(One::Cost(args)) => args.plan(),
        Some(One::Monotonic(args)) => args.plan(),
        Some(One::Offset(args)) => args.plan(),
        Some(One::Restore(args)) => args.plan(),
        Some(One::Ticks(args)) => args.plan(),
        Some(One::Locks(args)) => args.plan(),
        Some(One::Network(args)) => args.plan(),
        Some(One::Agreement(args)) => args.plan(),
        Some(One::Conformance(args)) => args.plan(),
        Some(One::Linux(args)) => args.plan()?,
        Some(One::GuestImage(args)) => return guest_image::run(args),
    };
    session::run(&plan)
}

#[cfg(test)]
mod tests;
