//! A machine that moves, running, to another QEMU of this system.

use std::mem::swap;
use std::time::Duration;

use crate::checks::Checks;
use crate::machine::{Machine, Start};
use crate::outcome::Result;

use super::Place;
use super::watching::{self, Caused};

/// How long moving all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    watching::start(machine)?;
    let folder = place.folder.join("twin");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let uri = format!("unix:{}", folder.join("memory").display());
    let start = twin(place.start, &folder.join("qmp"), &uri)?;
    let mut other = Machine::start(&start, &folder).map_err(|failure| format!("{failure:?}"))?;
    let qmp = machine.qmp.as_mut().ok_or("a migration needs QMP")?;
    qmp.migrate(&uri, MEMORY)?;
    // From here on it runs there, with its line.
    swap(machine, &mut other);
    drop(other);
    let (soon, late) = watching::told(machine)?;
    // QEMU's VMClock page has a marker, and no generation that would tell a
    // migration from a restored snapshot.
    let told = &["snapshot-restored|migrated"];
    let caused = Caused { what: "live migration", kinds: told, besides: &[], size_s: None };
    checks.push(watching::judge(&caused, &soon, &late));
    watching::end(machine)
}

/// The same machine, which waits for its memory.
pub(super) fn twin(start: &Start, qmp: &std::path::Path, uri: &str) -> Result<Start, String> {
    let mut twin = start.clone();
    let socket = twin.arguments.iter().position(|argument| argument == "-qmp");
    let socket = socket.and_then(|at| twin.arguments.get_mut(at + 1));
    *socket.ok_or("a migration needs QMP")? = format!("unix:{},server=on,wait=off", qmp.display());
    twin.arguments.extend(["-incoming".to_owned(), uri.to_owned()]);
    twin.qmp = Some(qmp.to_owned());
    Ok(twin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twin_has_a_socket_of_its_own() {
        let words = ["-m", "512M", "-qmp", "unix:/a/qmp,server=on,wait=off"];
        let start = Start {
            program: "qemu".into(),
            arguments: words.map(str::to_owned).to_vec(),
            environment: Vec::new(),
            qmp: Some("/a/qmp".into()),
            limit_s: 9,
        };
        let twin = twin(&start, "/b/qmp".as_ref(), "unix:/b/memory").unwrap();
        assert_eq!(twin.qmp, Some("/b/qmp".into()));
        let expected = "-m 512M -qmp unix:/b/qmp,server=on,wait=off -incoming unix:/b/memory";
        assert_eq!(twin.arguments.join(" "), expected);
    }
}
