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
    /// Effect of each event on the clock page, KVM's and Parachron's
    Updates(Updates),
    /// Cost of reading each clock inside the guest
    Cost(Cost),
    /// Check that time never goes backward between vCPUs
    Monotonic(Monotonic),
    /// Offset between the guest's clock and the host's
    Offset(Offset),
    /// What a guest notices after save and restore
    Restore(Restore),
    /// Timer ticks lost while a vCPU is held, by policy
    Ticks(Ticks),
    /// Spin locks when vCPUs outnumber CPUs, by how waiters wait
    Locks(Locks),
    /// Cost of a packet, by how guest and host wait for it
    Network(Network),
    /// KVM's clock page against Parachron's, for one guest
    Agreement(Agreement),
    /// Run the checks of KVM's own guest-clock tests
    Conformance(Conformance),
    /// Boot a stock Linux kernel on each provider: clock source, time, log
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
