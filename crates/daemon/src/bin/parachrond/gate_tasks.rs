//! What the unit does for the gate, as root: the right to freeze before the daemon starts, and
//! the thaw after it has ended, however that was.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use daemon::gate::{self, GroupTree, left_lists, thaw_listed};
use daemon::{DaemonError, GateSettings, configuration};

use crate::arguments::{Arguments, print};
use crate::error::ProgramError;

/// Gives the group of the socket's folder, which is the daemon's, the right to write
/// `cgroup.freeze` of what `gate` lists, and no other right.
pub(crate) fn prepare(arguments: &Arguments) -> Result<(), ProgramError> {
    let gate = crate::settings(arguments)?.0.gate;
    if gate.entries.is_empty() {
        return Ok(());
    }
    let tree = GroupTree::of_this_process().map_err(ProgramError::Gate)?;
    // What the daemon refuses gets no right that outlives the refusal.
    gate.entries.iter().try_for_each(|entry| tree.check(entry)).map_err(DaemonError::Gate)?;
    give_rights(&tree, &gate).map_err(ProgramError::Gate)
}

fn give_rights(tree: &GroupTree, settings: &GateSettings) -> io::Result<()> {
    let folder = settings.socket.parent().unwrap_or(&settings.socket);
    let group = fs::metadata(folder)?.gid();
    for path in tree.find(&settings.entries) {
        gate::give_right(&path, group)?;
        print(&format!("{}: group {group} may freeze it\n", path.display()));
    }
    Ok(())
}

/// Thaws by the list of what is frozen; a mistake in the configuration does not keep it
/// from that.
pub(crate) fn thaw(arguments: &Arguments) -> Result<(), ProgramError> {
    let loaded = configuration::load_or_default(arguments.file(), arguments.config.is_none());
    let gate = loaded.map(|(settings, _)| settings.gate).unwrap_or_default();
    let mut thawed: Option<usize> = None;
    for list in left_lists(&gate.socket) {
        let tree = GroupTree::of_this_process().map_err(ProgramError::Gate)?;
        let more = thaw_listed(&tree, &list).map_err(ProgramError::Gate)?;
        thawed = Some(thawed.unwrap_or_default() + more);
    }
    if let Some(thawed) = thawed {
        let groups = if thawed == 1 { "control group" } else { "control groups" };
        print(&format!("{thawed} {groups} thawed\n"));
    }
    Ok(())
}
