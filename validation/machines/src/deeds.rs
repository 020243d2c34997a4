//! What is done to a machine beyond the commands that every machine runs: a
//! file each. The truth is what was done, and this system's clock.

pub(crate) mod agreement;
mod announced;
mod changes;
mod chrony;
mod cost;
mod disruptions;
mod domain;
mod drift;
mod drift_once;
mod gate;
mod held;
mod image;
pub(crate) mod intervals;
mod keep;
mod lateness;
mod leap;
mod migration;
pub(crate) mod order;
mod packages;
mod pauses;
mod provider;
mod rules;
mod scale;
mod server;
mod service;
mod snapshot;
mod steal;
mod suspend;
mod timex;
mod true_rate;
pub(crate) mod vmclock;
pub(crate) mod watching;

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::Workshop;
use crate::checks::Check;
use crate::load::{Load, Meter};
use crate::machine::{Machine, Start};
use crate::outcome::{Failure, Result, Unavailable};
use crate::table::{Deed, Row};

pub(crate) use provider::write_results as write_provider_results;
pub(crate) use timex::write_results as write_timekeeper_results;

/// What a deed is done with.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) workshop: &'a Workshop,
    pub(crate) row: &'a Row,
    pub(crate) folder: &'a Path,
    /// How the row's machine was started.
    pub(crate) start: &'a Start,
    /// What this system keeps from the row's machines and servers.
    pub(crate) meter: &'a Meter,
    /// When the row's first machine was started.
    pub(crate) begun: Instant,
}

/// The results of deeds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) checks: Vec<Check>,
    /// What could not run on this system.
    pub(crate) skipped: Vec<Unavailable>,
}

impl Done {
    /// Settles the checks from one on by the load that they were made under.
    pub(crate) fn settle(&mut self, from: usize, load: &Load) {
        self.checks.iter_mut().skip(from).for_each(|check| check.settle(load));
    }
}

/// Does the deeds of a row that have machines of their own.
pub(crate) fn alone(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let (begun, from) = (Instant::now(), done.checks.len());
    let worked = each_alone(place, done);
    done.settle(from, &place.meter.since(begun));
    worked
}

fn each_alone(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    for deed in &place.row.does {
        match deed {
            Deed::Disruptions => disruptions::run(place, done)?,
            Deed::Image => image::run(place, done)?,
            Deed::LinuxOnProvider => provider::run(place, &provider::BOOTED, done)?,
            Deed::LinuxMoved => provider::run(place, &provider::MOVED, done)?,
            Deed::LinuxAgain => provider::run(place, &provider::AGAIN, done)?,
            Deed::LinuxKept => provider::run(place, &provider::KEPT, done)?,
            Deed::LinuxSilent => provider::run(place, &provider::SILENT, done)?,
            Deed::WatchCost => cost::run(place, done)?,
            Deed::ServiceOnFullDisk => {
                by_itself(place, |machine| service::disk::run(machine, &mut done.checks))?
            }
            Deed::ServiceAsShipped => by_itself(place, |machine| {
                service::shipped::alone(place, machine, &mut done.checks)
            })?,
            Deed::ServiceAsShippedBesideChronyd => by_itself(place, |machine| {
                service::shipped::beside(place, machine, &mut done.checks)
            })?,
            Deed::ServiceDisruptedBesideChronyd => by_itself(place, |machine| {
                service::disrupted::run(place, machine, &mut done.checks)
            })?,
            Deed::Gate => gate::run(place, done)?,
            Deed::KeepByPage => held::for_an_hour(place, done)?,
            Deed::Lateness => by_itself(place, |machine| lateness::run(place, machine, done))?,
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

/// In the row's machine, of which nothing else is checked.
fn by_itself(place: &Place<'_>, work: impl FnOnce(&mut Machine) -> Result) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    let worked = machine.line.ready(place.workshop.boot).and_then(|_| work(&mut machine));
    Ok(worked.map_err(|why| machine.failure(&why))?)
}

/// Of what takes long: calm, and ten minutes away in the row that wants it, which
/// leave this system idle.
pub(crate) fn calm(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    watching::calm(place, machine, &mut done.checks)?;
    if place.row.does.contains(&Deed::ServiceForLong) {
        service::stops::for_long(place, machine, &mut done.checks)?;
    }
    Ok(())
}

/// Does all of a row's deeds, in their order.
pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    for deed in &place.row.does {
        let (begun, from) = (Instant::now(), done.checks.len());
        let worked = one(place, *deed, machine, done);
        done.settle(from, &place.meter.since(begun));
        worked?;
    }
    Ok(())
}

fn one(place: &Place<'_>, deed: Deed, machine: &mut Machine, done: &mut Done) -> Result {
    let checks = &mut done.checks;
    match deed {
        Deed::Agreement => agreement::run(machine, &agreement::ALL[..1], done)?,
        Deed::Changes => changes::run(machine, checks)?,
        Deed::Chrony => chrony::run(place, machine, checks)?,
        Deed::Calm => watching::calm(place, machine, checks)?,
        Deed::Disruptions
        | Deed::Gate
        | Deed::Image
        | Deed::LinuxOnProvider
        | Deed::LinuxMoved
        | Deed::LinuxAgain
        | Deed::LinuxKept
        | Deed::LinuxSilent
        | Deed::ServiceAsShipped
        | Deed::ServiceAsShippedBesideChronyd
        | Deed::ServiceOnFullDisk
        | Deed::ServiceDisruptedBesideChronyd
        | Deed::WatchCost => {
            return Err(format!("row {}: {deed:?} takes no truth", place.row.name));
        }
        Deed::Drift => drift::run(place, machine, checks)?,
        Deed::DriftOnce => drift_once::run(place, machine, drift_once::FREE, checks)?,
        Deed::DriftRaw => drift_once::run(place, machine, drift_once::STEERED, checks)?,
        // `--long` does it.
        Deed::ServiceForLong => {}
        Deed::Keep => keep::run(place, machine, checks)?,
        Deed::KeepByPage => held::in_calm(machine, done)?,
        Deed::KeepAnnounced => announced::run(place, machine, checks)?,
        Deed::KeepRtcAlone => keep::with_rtc_alone(machine, checks)?,
        Deed::Lateness => lateness::run(place, machine, done)?,
        Deed::Lab => agreement::run(machine, &agreement::ALL, done)?,
        Deed::Migration => migration::run(place, machine, checks)?,
        Deed::Phc => keep::by_phc(machine, checks)?,
        Deed::Packages => packages::run(place, machine, checks)?,
        Deed::Pauses => pauses::run(place, machine, checks)?,
        Deed::LeapSecond => leap::run(machine, checks)?,
        Deed::Rules => rules::run(machine, checks)?,
        Deed::Scale => scale::run(place, machine, checks)?,
        Deed::Service => service::run(place, machine, checks)?,
        Deed::ServiceBesideChronyd => {
            service::beside::run(place, machine, &service::other::CHRONYD, done)?
        }
        Deed::ServiceBesideTimesyncd => {
            service::beside::run(place, machine, &service::other::TIMESYNCD, done)?
        }
        Deed::ServiceBesideNtpsec => {
            service::beside::run(place, machine, &service::other::NTPSEC, done)?
        }
        Deed::ServiceBesideNtpdRs => {
            service::beside::run(place, machine, &service::other::NTPD_RS, done)?
        }
        Deed::ServiceOfChronyd => service::chrony_unit::run(place, machine, checks)?,
        Deed::ServiceByPort => service::stops::by_the_port(place, machine, done)?,
        Deed::ServiceByServers => service::servers::run(place, machine, checks)?,
        Deed::ServiceMoved => service::moved::run(place, machine, done)?,
        Deed::KeepByPtp => service::stops::by_ptp(place, machine, done)?,
        Deed::KeepByVsock => service::stops::by_vsock(place, machine, checks)?,
        Deed::Snapshot => snapshot::run(place, machine, checks)?,
        Deed::Steal => steal::run(place, machine, done)?,
        Deed::StopsByXen => domain::run(place, machine, checks)?,
        Deed::Suspend => suspend::run(machine, checks)?,
        Deed::TscOrder => order::run(machine, checks)?,
        Deed::Timex => timex::run(place, machine, checks)?,
        Deed::Vmclock => vmclock::run(place, machine, checks)?,
    }
    Ok(())
}
