//! Which PTP clocks this user may open, and their lasting names.

use rustix::fs::Access;

use facts::Fact;

/// Those of the named devices whose file can be opened, one a line.
pub(crate) fn readable(devices: &[String]) -> Fact<String> {
    let can = |name: &&String| rustix::fs::access(format!("/dev/{name}"), Access::READ_OK).is_ok();
    Fact::Known(devices.iter().filter(can).map(|name| format!("{name}\n")).collect())
}

/// The links below `/dev` to the named devices, one a line: the link, the device.
pub(crate) fn links(devices: &[String]) -> Fact<String> {
    let mut text = String::new();
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut links: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    links.sort();
    for link in links.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with("ptp"))
    {
        let Ok(to) = std::fs::read_link(format!("/dev/{link}")) else { continue };
        let to = to.file_name().and_then(|name| name.to_str());
        if let Some(device) = to.filter(|to| devices.iter().any(|device| device == to)) {
            text.push_str(&format!("{link} {device}\n"));
        }
    }
    Fact::Known(text)
}
