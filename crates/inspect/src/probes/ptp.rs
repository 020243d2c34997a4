//! Which PTP clocks this user may open.

use rustix::fs::Access;

use facts::Fact;

/// Those of the named devices whose file can be opened, one a line.
pub(crate) fn readable(devices: &[String]) -> Fact<String> {
    let can = |name: &&String| rustix::fs::access(format!("/dev/{name}"), Access::READ_OK).is_ok();
    Fact::Known(devices.iter().filter(can).map(|name| format!("{name}\n")).collect())
}
