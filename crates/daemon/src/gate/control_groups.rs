//! The control groups that the gate freezes, in cgroup v2 (cgroup-v2.rst, "cgroup.freeze"
//! and "cgroup.events"). Files alone: no system call of its own.
//!
//! A group that was frozen by somebody else stays so: it is not thawed with ours. A group
//! below a frozen parent is frozen too, and our thaw of it leaves the parent's alone.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

/// An entry of `gate`: which groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEntry {
    /// `*`: all at the top but those that hold this daemon and the service manager.
    AllOthers,
    /// `/workload`: a path from the mount point.
    Group(PathBuf),
    /// `workload.slice`, `db.service`, `session-1.scope`: a unit of systemd.
    Unit(String),
}

/// The service manager's own group: frozen, nothing could be started or stopped.
const MANAGER: &str = "init.scope";

/// Kinds of unit that have a control group of processes.
const UNITS: [&str; 3] = [".slice", ".service", ".scope"];

/// How deep units are looked for: user.slice/user-1000.slice/user@1000.service/app.slice/….
const DEEPEST: usize = 8;

impl std::str::FromStr for GateEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let is_plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
        if text == "*" {
            Ok(Self::AllOthers)
        } else if text.contains(['\n', '\0']) || !path.components().all(is_plain) {
            Err(format!("expected a control group without \"..\", found {text:?}"))
        } else if text.starts_with('/') {
            Ok(Self::Group(path.components().skip(1).collect()))
        } else if !text.contains('/') && UNITS.iter().any(|kind| text.ends_with(kind)) {
            Ok(Self::Unit(text.to_owned()))
        } else {
            Err(format!(
                "expected \"/PATH\" below the cgroup mount, \"NAME.slice\", \"NAME.service\", \
                 \"NAME.scope\" or \"*\", found {text:?}"
            ))
        }
    }
}

/// Where the groups are, and which is this process's.
#[derive(Debug, Clone)]
pub struct GroupTree {
    mount: PathBuf,
    /// From the mount point.
    own: PathBuf,
}

/// Why a group cannot be part of the gate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateRefusal {
    /// The daemon would freeze itself.
    #[error("{} contains this daemon, which has to thaw it", .0.display())]
    OwnGroup(PathBuf),
    /// systemd would be frozen.
    #[error("{} contains the service manager", .0.display())]
    Manager(PathBuf),
}

impl GroupTree {
    /// The tree of this process.
    ///
    /// # Errors
    /// No cgroup v2 is mounted.
    pub fn of_this_process() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mount =
            mount_point(&mounts).map_err(|why| io::Error::new(ErrorKind::Unsupported, why))?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        // Above the root of this process's cgroup namespace: its place in the mount is unknown.
        if Path::new(own).components().any(|part| part == Component::ParentDir) {
            return Err(io::Error::new(ErrorKind::Unsupported, OTHER_NAMESPACE));
        }
        Ok(Self { mount, own: own.into() })
    }

    #[cfg(test)]
    pub(crate) fn new(mount: &Path, own: &str) -> Self {
        Self { mount: mount.to_owned(), own: own.into() }
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Whether the entry may be part of the gate.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, entry: &GateEntry) -> Result<(), GateRefusal> {
        match entry {
            GateEntry::AllOthers => Ok(()),
            GateEntry::Group(path) => self.check_group(&self.mount.join(path)),
            GateEntry::Unit(name) => {
                let ours = self.own.ancestors().find(|path| path.ends_with(name));
                self.check_group(&self.mount.join(ours.unwrap_or(Path::new(name))))
            }
        }
    }

    fn check_group(&self, group: &Path) -> Result<(), GateRefusal> {
        match group.to_owned() {
            group if self.mount.join(&self.own).starts_with(&group) => {
                Err(GateRefusal::OwnGroup(group))
            }
            group if group.starts_with(self.mount.join(MANAGER)) => {
                Err(GateRefusal::Manager(group))
            }
            _ => Ok(()),
        }
    }

    /// The folders of the groups that exist now.
    pub fn find(&self, entries: &[GateEntry]) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = entries
            .iter()
            .flat_map(|entry| match entry {
                GateEntry::AllOthers => folders(&self.mount),
                GateEntry::Group(path) => Vec::from([self.mount.join(path)]),
                GateEntry::Unit(name) => {
                    find_unit(&self.mount, name, DEEPEST).into_iter().collect()
                }
            })
            .filter(|path| self.check_group(path).is_ok())
            .filter(|path| path.join("cgroup.freeze").exists())
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// Those of them that this process has the right to freeze.
    pub(super) fn find_writable(&self, entries: &[GateEntry]) -> Vec<PathBuf> {
        let mut groups = self.find(entries);
        groups.retain(|group| access(group.join("cgroup.freeze"), Access::WRITE_OK).is_ok());
        groups
    }

    /// Whether the path names a group below the mount point: what a file says that
    /// another user may have written.
    pub fn contains(&self, path: &Path) -> bool {
        path.strip_prefix(&self.mount).is_ok_and(|below| {
            let is_plain = |component| matches!(component, Component::Normal(_));
            below.components().next().is_some() && below.components().all(is_plain)
        })
    }
}

const NOT_MOUNTED: &str = "no cgroup v2 is mounted; boot with \
                           systemd.unified_cgroup_hierarchy=1, or run `mount -t cgroup2 none \
                           /sys/fs/cgroup`";
const OTHER_NAMESPACE: &str = "the mounted cgroup v2 is not that of this process's cgroup \
                               namespace; run parachrond on the host, not in a container";

/// A line of /proc/self/mountinfo has its type after " - ", and before that which folder of the
/// file system is mounted where (proc_pid_mountinfo(5)). `/proc/self/cgroup` has paths from the
/// folder `/` alone: in another one this process's own group could not be told from others.
fn mount_point(mounts: &str) -> Result<PathBuf, &'static str> {
    let mut mounted = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        after.starts_with("cgroup2 ").then(|| (root, at.replace("\\040", " ")))
    });
    match mounted.next() {
        None => Err(NOT_MOUNTED),
        Some(("/", at)) => Ok(at.into()),
        Some(_) => Err(OTHER_NAMESPACE),
    }
}

fn folders(at: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(at) else { return Vec::new() };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_folder).map(|entry| entry.path()).collect()
}

/// Breadth first: a unit is near the top.
fn find_unit(mount: &Path, name: &str, deepest: usize) -> Option<PathBuf> {
    let mut level = Vec::from([mount.to_owned()]);
    for _ in 0..deepest {
        level = level.iter().flat_map(|at| folders(at)).collect();
        if let Some(found) = level.iter().find(|path| path.ends_with(name)) {
            return Some(found.clone());
        }
    }
    None
}

/// Whether the group itself was asked to freeze, by whoever. `None`: it is gone.
///
/// # Errors
/// The system's.
pub(crate) fn is_asked_to_freeze(group: &Path) -> io::Result<Option<bool>> {
    gone_as_none(fs::read(group.join("cgroup.freeze")))
        .map(|text| text.map(|text| text[..] == *b"1\n"))
}

/// Gives a group of users the right to freeze this control group, and no other right.
///
/// # Errors
/// The system's.
pub fn give_right(control_group: &Path, to: u32) -> io::Result<()> {
    let file = control_group.join("cgroup.freeze");
    chown(&file, None, Some(to))?;
    fs::set_permissions(&file, Permissions::from_mode(0o664))
}

/// Asks the group to freeze, or to thaw; whether it was there.
///
/// # Errors
/// The system's.
pub(crate) fn set_frozen(group: &Path, frozen: bool) -> io::Result<bool> {
    let value: &[u8] = if frozen { b"1" } else { b"0" };
    let mut options = fs::OpenOptions::new();
    let file = gone_as_none(options.write(true).open(group.join("cgroup.freeze")))?;
    let Some(mut file) = file else { return Ok(false) };
    Ok(gone_as_none(io::Write::write_all(&mut file, value))?.is_some())
}

/// Whether the group is frozen, by the kernel: a frozen parent counts. `None` once it is gone.
pub fn is_frozen(group: &Path) -> Option<bool> {
    let events = fs::read_to_string(group.join("cgroup.events")).ok()?;
    events.lines().find_map(|line| match line {
        "frozen 0" => Some(false),
        "frozen 1" => Some(true),
        _ => None,
    })
}

/// Waits until each of the groups is frozen or gone; those that are not in time.
pub(crate) fn wait_until_frozen(groups: &[PathBuf], limit: Duration) -> Vec<PathBuf> {
    let begun = Instant::now();
    let mut left = groups.to_vec();
    loop {
        left.retain(|group| is_frozen(group) == Some(false));
        if left.is_empty() || begun.elapsed() >= limit {
            return left;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A group that was removed has no file any more, or one that is dead (ENODEV).
fn gone_as_none<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(why)
            if why.kind() == ErrorKind::NotFound
                || why.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
        {
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> GateEntry {
        text.parse().unwrap()
    }

    #[test]
    fn an_entry_is_a_path_a_unit_or_all_others() {
        assert_eq!(entry("*"), GateEntry::AllOthers);
        assert_eq!(entry("/workload/db"), GateEntry::Group("workload/db".into()));
        assert_eq!(entry("db.service"), GateEntry::Unit("db.service".into()));
        for wrong in ["", "db", "a/db.service", "/a/../b", "..", "/a\nb", "x.mount"] {
            assert!(wrong.parse::<GateEntry>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_holds_the_daemon_or_the_manager_is_refused() {
        let tree = GroupTree::new(Path::new("/c"), "system.slice/parachrond.service");
        for own in ["/", "/system.slice", "system.slice", "parachrond.service"] {
            let refused = tree.check(&entry(own)).unwrap_err();
            assert!(matches!(refused, GateRefusal::OwnGroup(_)), "{own}: {refused}");
        }
        let refused = tree.check(&entry("init.scope")).unwrap_err();
        assert_eq!(refused.to_string(), "/c/init.scope contains the service manager");
        for other in ["*", "/workload", "/system.slice/db.service", "user.slice"] {
            assert_eq!(tree.check(&entry(other)), Ok(()), "{other}");
        }
    }

    #[test]
    fn all_others_are_those_at_the_top_without_the_daemons_and_the_managers() {
        let folder = tempfile::tempdir().unwrap();
        for group in ["init.scope", "system.slice/db.service", "user.slice/app.slice", "w"] {
            fs::create_dir_all(folder.path().join(group)).unwrap();
        }
        for group in ["init.scope", "system.slice", "system.slice/db.service", "user.slice", "w"] {
            fs::write(folder.path().join(group).join("cgroup.freeze"), "0\n").unwrap();
        }
        let tree = GroupTree::new(folder.path(), "system.slice/parachrond.service");
        let found = |entries: &[&str]| {
            let entries: Vec<_> = entries.iter().map(|text| entry(text)).collect();
            let found = tree.find(&entries);
            let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().to_owned();
            found.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(found(&["*"]), [Path::new("user.slice"), Path::new("w")]);
        assert_eq!(
            found(&["db.service", "/w", "/gone"]),
            [Path::new("system.slice/db.service"), Path::new("w")]
        );
        // It cannot be frozen even where the check was passed before a move.
        assert!(found(&["/system.slice", "none.service"]).is_empty());
        assert!(found(&["/init.scope", "init.scope"]).is_empty());
    }

    #[test]
    fn the_mount_is_the_first_of_cgroup2() {
        let mounts = "24 1 0:22 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      25 1 0:23 / /sys/fs/cgroup\\040two rw,relatime shared:4 - cgroup2 none rw\n";
        assert_eq!(mount_point(mounts), Ok("/sys/fs/cgroup two".into()));
        let v1 = "24 1 0:22 / /x rw - cgroup cgroup rw";
        assert_eq!(mount_point(v1), Err(NOT_MOUNTED));
        // cgroup_namespaces(7): a mount of before unshare(2), in the new namespace.
        let of_host = "24 1 0:22 /../../.. /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(mount_point(of_host), Err(OTHER_NAMESPACE));
    }

    #[test]
    fn only_groups_below_the_mount_are_thawed_for_a_file() {
        let tree = GroupTree::new(Path::new("/c"), "");
        assert!(tree.contains(Path::new("/c/a/b")));
        for other in ["/c", "/etc", "/c/../etc", "c/a", "/c/a/../../etc"] {
            assert!(!tree.contains(Path::new(other)), "{other}");
        }
    }
}
