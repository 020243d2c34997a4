//! Beside chronyd, in a machine that is saved and put back, copied, and moved to
//! another QEMU: right each time, both of a fork.

use std::mem::swap;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::checks::Checks;
use crate::deeds::server::Server;
use crate::deeds::{Place, migration, snapshot};
use crate::machine::Machine;
use crate::outcome::Result;

use super::beside::{CHRONYD, follows, frequency_ppm, kept};
use super::setup::{INSTALL, configuration, configure};
use super::world::soon_right;

/// How long it runs on after it was saved.
const BETWEEN: Duration = Duration::from_secs(5);

/// How long saving, loading or moving all of its memory may take.
const MEMORY: Duration = Duration::from_secs(120);

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    checks.push(follows(machine, &CHRONYD, &servers[0])?);
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute("systemctl enable --now parachrond; sleep 3")?;
    let before_ppm = frequency_ppm(machine, &CHRONYD)?;

    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    snapshot::create_disk(qmp, &place.folder.join("snapshots.qcow2").display().to_string())?;
    let arguments = json!({ "tag": "a", "vmstate": snapshot::DISK, "devices": [snapshot::DISK] });
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    for time in ["once", "twice"] {
        sleep(BETWEEN);
        let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
        qmp.job("snapshot-load", arguments.clone(), MEMORY)?;
        let when = format!("beside chronyd, savevm, {} s later loadvm, {time}", BETWEEN.as_secs());
        checks.push(soon_right(&when, machine)?);
    }
    checks.push(kept(&CHRONYD, machine, before_ppm)?);

    checks.push(super::found_by_the_doctor(place, machine)?);
    let uri = format!("unix:{}", place.folder.join("moves").display());
    let mut other = incoming(place, "moved", &uri)?;
    machine.qmp.as_mut().ok_or("a migration needs QMP")?.migrate(&uri, MEMORY)?;
    swap(machine, &mut other);
    drop(other);
    checks.push(soon_right("beside chronyd, live migration", machine)?);
    checks.push(kept(&CHRONYD, machine, before_ppm)?);

    let qmp = machine.qmp.as_mut().ok_or("a fork needs QMP")?;
    let uri = format!("file:{}", place.folder.join("memory").display());
    qmp.stop()?;
    qmp.migrate(&uri, MEMORY)?;
    sleep(BETWEEN);
    let (mut first, mut second) = (copy(place, "first", &uri)?, copy(place, "second", &uri)?);
    for (one, name) in [(&mut first, "first"), (&mut second, "second")] {
        checks.push(soon_right(&format!("beside chronyd, the {name} of a fork"), one)?);
    }
    for (one, name) in [(&mut first, "first"), (&mut second, "second")] {
        let mut check = kept(&CHRONYD, one, before_ppm)?;
        check.what = format!("{}, in the {name} of a fork", check.what);
        checks.push(check);
    }
    swap(machine, &mut first);
    Ok(())
}

/// Another QEMU, which waits for a machine's memory.
fn incoming(place: &Place<'_>, name: &str, uri: &str) -> Result<Machine, String> {
    let folder = place.folder.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Machine::start(&migration::twin(place.start, &folder.join("qmp"), uri)?, &folder)
}

/// One that runs on from a file.
fn copy(place: &Place<'_>, name: &str, uri: &str) -> Result<Machine, String> {
    let mut machine = incoming(place, name, uri)?;
    let qmp = machine.qmp.as_mut().ok_or("a fork needs QMP")?;
    qmp.loaded(MEMORY)?;
    qmp.cont()?;
    Ok(machine)
}
