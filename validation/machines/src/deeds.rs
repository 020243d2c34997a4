//! What is done to a machine beyond the commands that every machine runs: a
//! file each. The truth is what was done, and this system's clock.

mod agreement;
mod changes;
mod doctor;
mod domain;
mod drift;
mod gate;
mod held;
mod host_time;
mod image;
mod keep;
mod leap;
mod line;
mod migration;
pub(crate) mod order;
mod packages;
mod pauses;
mod provider;
mod scale;
mod server;
mod service;
mod snapshot;
mod steal;
mod suspend;
mod ticks;
mod true_rate;
pub(crate) mod vmclock;
pub(crate) mod watching;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::Workshop;
use crate::checks::Check;
use crate::machine::{Machine, Start};
use crate::outcome::{Failure, Result, Unavailable};
use crate::table::{Deed, Row};

/// What a deed is done with.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) workshop: &'a Workshop,
    pub(crate) row: &'a Row,
    pub(crate) folder: &'a Path,
    /// How the row's machine was started.
    pub(crate) start: &'a Start,
}

/// The results of deeds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) checks: Vec<Check>,
    /// What could not run on this system.
    pub(crate) skipped: Vec<Unavailable>,
}

/// Does the deeds of a row that have machines of their own.
pub(crate) fn alone(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    for deed in &place.row.does {
        match deed {
            Deed::Gate => gate::run(place, done)?,
            Deed::Image => image::run(place, done)?,
            Deed::LinuxAgain => provider::run(place, &provider::AGAIN, done)?,
            Deed::LinuxMoved => provider::run(place, &provider::MOVED, done)?,
            Deed::LinuxOnProvider => provider::run(place, &provider::BOOTED, done)?,
            Deed::Line | Deed::ServiceOnFullDisk => {
                let run = if *deed == Deed::Line { line::run } else { service::disk::run };
                let mut machine = Machine::start(place.start, place.folder)?;
                let ready = machine.line.ready(place.workshop.boot);
                let worked = ready.and_then(|_| run(&mut machine, &mut done.checks));
                worked.map_err(|why| machine.failure(&why))?;
            }
            other => {
                let name = &place.row.name;
                return Err(format!(
                    "row {name}: {other:?} needs a truth in validation/machines/machines.toml"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Does all of a row's deeds, in their order.
pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    for deed in &place.row.does {
        one(place, *deed, machine, done)?;
    }
    Ok(())
}

fn one(place: &Place<'_>, deed: Deed, machine: &mut Machine, done: &mut Done) -> Result {
    let checks = &mut done.checks;
    match deed {
        Deed::Calm => watching::calm(place, machine, checks),
        Deed::Changes => changes::run(machine, checks),
        Deed::Drift => drift::run(place, machine, checks),
        Deed::HostTime => host_time::run(place, machine, checks),
        Deed::KeepByPage => held::run(machine, checks),
        Deed::KeepByPtp => service::stops::by_ptp(place, machine, checks),
        Deed::KeepByVsock => service::stops::by_vsock(place, machine, checks),
        Deed::KeepByServers => keep::by_servers(place, machine, checks),
        Deed::KeepRtcAlone => keep::with_rtc_alone(machine, checks),
        Deed::Lab => agreement::run(machine, done),
        Deed::LeapSecond => leap::run(machine, checks),
        Deed::Migration => migration::run(place, machine, checks),
        Deed::Packages => packages::run(place, machine, checks),
        Deed::Pauses => pauses::run(place, machine, checks),
        Deed::Phc => keep::by_phc(machine, checks),
        Deed::Scale => scale::run(place, machine, checks),
        Deed::Service => service::run(place, machine, checks),
        Deed::ServiceBesideChronyd => service::beside::run(place, machine, checks),
        Deed::ServiceByPort => service::host::by_the_port(place, machine, checks),
        Deed::ServiceByServers => service::servers::run(place, machine, checks),
        Deed::ServiceOfChronyd => service::beside::by_chronyd(place, machine, checks),
        Deed::Snapshot => snapshot::run(place, machine, checks),
        Deed::Steal => steal::run(place, machine, checks),
        Deed::StopsByXen => domain::run(place, machine, checks),
        Deed::Suspend => suspend::run(machine, checks),
        Deed::TscOrder => order::run(machine, checks),
        Deed::Vmclock => vmclock::run(place, machine, checks),
        deed => Err(format!("row {}: {deed:?} takes no truth", place.row.name)),
    }
}
