//! A machine that moves, running, to another QEMU of this system.

use std::mem::swap;
use std::path::Path;
use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::machine::{Machine, Start};
use crate::outcome::Result;

use super::Place;
use super::watching::{self, Caused, Seen};

/// How long moving all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// Less than this does not show in an RTC of whole seconds, and need not be told.
const RTC_SEES_S: f64 = 1.0;

const WHAT: &str = "live migration";

/// The row's generation ID, and that of a copy (Microsoft: Virtual Machine Generation ID; Linux:
/// drivers/virt/vmgenid.c): what may be told of each. QEMU's VMClock page has a marker, and no
/// generation that would tell a migration from a restored snapshot.
const GENERATION: &str = "324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87";
const MOVES: [(&str, &str, &str); 2] = [
    ("twin", GENERATION, "snapshot-restored|migrated"),
    ("copy", "ad1b3c4e-94b5-4a8c-8d23-000000000001", "snapshot-restored"),
];

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    MOVES.iter().try_for_each(|to| moved(place, machine, to, checks))
}

/// From here on it runs in another QEMU, which gives it this generation ID.
fn moved(
    place: &Place<'_>,
    machine: &mut Machine,
    (name, generation, kinds): &(&str, &str, &str),
    checks: &mut Checks,
) -> Result {
    let (_, seen) = watching::during(machine, |machine| {
        let folder = place.folder.join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let uri = format!("unix:{}", folder.join("memory").display());
        let start = twin(place.start, generation, &folder.join("qmp"), &uri)?;
        let mut other = Machine::start(&start, &folder)?;
        let qmp = machine.qmp.as_mut().ok_or("a migration needs QMP")?;
        qmp.migrate(&uri, MEMORY)?;
        // From here on it runs there, with its line.
        swap(machine, &mut other);
        Ok(())
    })?;
    // Of how long it took the page tells nothing.
    let caused = Caused { what: WHAT, kinds: &[kinds], besides: &[], size_s: None };
    checks.push(watching::judge(&caused, &seen));
    checks.push(size(&seen));
    Ok(())
}

/// A size is told of neither more nor less than what was lost; none where it does not show.
fn size(seen: &Seen) -> Check {
    let lost = seen.lost;
    if lost.0 - lost.1 >= RTC_SEES_S || seen.all().any(|one| one.behind_s.is_some()) {
        return watching::behind(WHAT, seen, 0.0);
    }
    let found = match seen.all().find_map(|one| one.size_s) {
        None => "not stated".to_owned(),
        Some((s, bound_s)) => format!("{s:.3} ± {bound_s:.6} s"),
    };
    let miss_s = |(s, bound_s): (f64, f64)| (s.abs() - lost.0).abs() - bound_s - lost.1;
    let largest_s = seen.all().filter_map(|one| one.size_s).map(miss_s).fold(0.0, f64::max);
    Check::new(
        format!("watch: {WHAT}: {:.2} ± {:.2} s lost, or no size", lost.0, lost.1),
        found,
        largest_s <= 0.0,
    )
}

/// The same machine, which waits for its memory.
fn twin(start: &Start, generation: &str, qmp: &Path, uri: &str) -> Result<Start, String> {
    let mut twin = start.clone();
    for argument in &mut twin.arguments {
        *argument = argument.replace(GENERATION, generation);
    }
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
    use crate::deeds::watching::Told;

    #[test]
    fn the_twin_has_a_socket_of_its_own() {
        let guid = "vmgenid,guid=324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87";
        let words = ["-device", guid, "-qmp", "unix:/a/qmp,server=on,wait=off"];
        let start = Start {
            program: "qemu".into(),
            arguments: words.map(str::to_owned).to_vec(),
            environment: Vec::new(),
            qmp: Some("/a/qmp".into()),
            limit_s: 9,
        };
        let twin = twin(&start, "other", "/b/qmp".as_ref(), "unix:/b/memory").unwrap();
        assert_eq!(twin.qmp, Some("/b/qmp".into()));
        let expected = "-device vmgenid,guid=other -qmp unix:/b/qmp,server=on,wait=off -incoming unix:/b/memory";
        assert_eq!(twin.arguments.join(" "), expected);
    }

    #[test]
    fn what_was_lost_and_shows_is_told() {
        let told = |size_s, behind_s| Told { kinds: String::new(), size_s, behind_s };
        let passed = |lost_s, one: Told| {
            size(&Seen { soon: vec![one], lost: (lost_s, 0.1), ..Seen::default() }).passed
        };
        assert!(passed(0.3, told(None, None)) && passed(0.3, told(Some((-0.35, 0.0)), None)));
        assert!(!passed(0.3, told(Some((0.5, 0.0)), None)), "another size");
        assert!(!passed(2.0, told(None, None)), "the RTC shows it");
        assert!(passed(2.0, told(None, Some((1.8, 0.2)))));
        assert!(!passed(0.3, told(None, Some((1.8, 0.2)))), "nothing was lost");
    }
}
