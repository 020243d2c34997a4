//! A machine that moves, running, to another QEMU of this system.

use std::mem::swap;
use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::machine::{Machine, Start};
use crate::outcome::Result;

use super::Place;
use super::watching::{self, Caused, Told};

/// How long moving all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// Less than this does not show in an RTC of whole seconds, and need not be told.
const RTC_SEES_S: f64 = 1.0;

/// What QEMU takes beside the time in which it says that the machine ran nowhere: it begins to
/// count as it stops it, and ends as it has sent all. The other has still to take it over.
const TAKEN_OVER_S: f64 = 0.5;

const WHAT: &str = "live migration";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    watching::start(machine)?;
    let (before_s, before_bound_s) = machine.ahead_s()?;
    let folder = place.folder.join("twin");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let uri = format!("unix:{}", folder.join("memory").display());
    let start = twin(place.start, &folder.join("qmp"), &uri)?;
    let mut other = Machine::start(&start, &folder).map_err(|failure| format!("{failure:?}"))?;
    let qmp = machine.qmp.as_mut().ok_or("a migration needs QMP")?;
    let down_s = qmp.migrate(&uri, MEMORY)?;
    // From here on it runs there, with its line.
    swap(machine, &mut other);
    drop(other);
    let (soon, late) = watching::told(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    // QEMU's VMClock page has a marker, and no generation that would tell a
    // migration from a restored snapshot. Of how long it took the page tells nothing.
    let told = &["snapshot-restored|migrated"];
    let caused = Caused { what: WHAT, kinds: told, besides: &[], size_s: None };
    checks.push(watching::judge(&caused, &soon, &late));
    let lost = (before_s - after_s, before_bound_s + after_bound_s);
    checks.push(stood(lost, down_s));
    checks.push(size(lost, &soon, &late));
    watching::end(machine)
}

/// Its clocks stood while it ran nowhere, and at no other time.
fn stood((lost_s, bound_s): (f64, f64), down_s: f64) -> Check {
    let (least_s, most_s) = (down_s - bound_s, down_s + bound_s + TAKEN_OVER_S);
    let right = (least_s..=most_s).contains(&lost_s);
    Check::new(
        format!("watch: {WHAT}: the clocks stopped while QEMU ran it nowhere, {down_s:.3} s"),
        format!("{lost_s:.3} ± {bound_s:.3} s"),
        right,
    )
}

/// A size is told of neither more nor less than what was lost; none where it does not show.
fn size(lost: (f64, f64), soon: &[Told], late: &[Told]) -> Check {
    let told = || soon.iter().chain(late);
    if lost.0 - lost.1 >= RTC_SEES_S || told().any(|one| one.behind_s.is_some()) {
        return watching::behind(WHAT, lost, soon, late);
    }
    let found = match told().find_map(|one| one.size_s) {
        None => "not stated".to_owned(),
        Some((s, bound_s)) => format!("{s:.3} ± {bound_s:.6} s"),
    };
    let miss_s = |(s, bound_s): (f64, f64)| (s.abs() - lost.0).abs() - bound_s - lost.1;
    let largest_s = told().filter_map(|one| one.size_s).map(miss_s).fold(0.0, f64::max);
    Check::new(
        format!("watch: {WHAT}: {:.2} ± {:.2} s lost, or no size", lost.0, lost.1),
        found,
        largest_s <= 0.0,
    )
}

/// The same machine, which waits for its memory.
fn twin(start: &Start, qmp: &std::path::Path, uri: &str) -> Result<Start, String> {
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

    #[test]
    fn the_clocks_lose_what_qemu_says_and_what_shows_is_told() {
        assert!(stood((0.31, 0.05), 0.3).passed && stood((0.7, 0.05), 0.3).passed);
        assert!(!stood((0.2, 0.05), 0.3).passed && !stood((0.9, 0.05), 0.3).passed);
        let told = |size_s, behind_s| Told { kinds: String::new(), size_s, behind_s };
        let passed = |lost_s, one: Told| size((lost_s, 0.1), &[one], &[]).passed;
        assert!(passed(0.3, told(None, None)) && passed(0.3, told(Some((-0.35, 0.0)), None)));
        assert!(!passed(0.3, told(Some((0.5, 0.0)), None)), "another size");
        assert!(!passed(2.0, told(None, None)), "the RTC shows it");
        assert!(passed(2.0, told(None, Some((1.8, 0.2)))));
        assert!(!passed(0.3, told(None, Some((1.8, 0.2)))), "nothing was lost");
    }
}
