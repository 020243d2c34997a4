//! The kernel: its version, command line, configuration and log.

use std::io::Read;

use facts::kernel::version::{VERSION, parse_built, reduce_built};
use facts::kernel::{self, Kernel, RELEASE};
use facts::{Fact, Unknown, parse};
use flate2::read::GzDecoder;

use crate::probes::kernel_log::KernelLog;
use crate::tree::{Files, Tree};

/// No kernel's configuration is nearly that long.
const LIMIT_BYTES: u64 = 1 << 22;

const PACKED: &str = "/proc/config.gz";

pub(super) fn kernel(tree: &Tree, log: &KernelLog) -> Kernel {
    let release = tree.text(RELEASE).and_then(|text| parse::line(RELEASE, &text));
    let configuration = tree
        .digest("kernel-config", "options about time", |files| find_configuration(files, &release))
        .and_then(|text| kernel::parse_configuration(&text));
    let kept = "lines about clocks, no program names";
    let log = tree
        .digest("kernel-log", kept, |files| log.text(files).map(|text| kernel::reduce_log(&text)))
        .and_then(|text| kernel::parse_log(&text));
    Kernel {
        release,
        built_s: tree
            .reduced(VERSION, "the date of its build", reduce_built)
            .and_then(|text| parse_built(&text)),
        command_line: tree
            .reduced("/proc/cmdline", "words about time", kernel::reduce_command_line)
            .and_then(|text| kernel::parse_command_line(&text)),
        configuration,
        log,
    }
}

/// The configuration's lines about time, from the running kernel's copy or the
/// distribution's.
fn find_configuration(files: &Files, release: &Fact<String>) -> Fact<String> {
    let packed = files.bytes(PACKED, LIMIT_BYTES);
    if let Fact::Known(packed) = packed {
        return unpack(&packed).map(|text| kernel::reduce_configuration(&text));
    }
    let Fact::Known(release) = release else {
        return packed.map(|_| String::new());
    };
    for path in [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")] {
        match files.bytes(&path, LIMIT_BYTES) {
            Fact::Unknown(Unknown::NotThere { .. }) => {}
            found => {
                return found
                    .map(|bytes| kernel::reduce_configuration(&String::from_utf8_lossy(&bytes)));
            }
        }
    }
    Fact::Unknown(Unknown::not_there(&format!("{PACKED} or /boot/config-{release}")))
}

/// The text in a gzip file, up to the length of a configuration.
pub fn unpack(packed: &[u8]) -> Fact<String> {
    let mut text = Vec::new();
    let read = GzDecoder::new(packed).take(LIMIT_BYTES + 1).read_to_end(&mut text);
    let malformed = |found: &str| Fact::Unknown(Unknown::malformed(PACKED, "gzip", found));
    match read {
        Err(error) => malformed(&error.to_string()),
        Ok(length) if length as u64 > LIMIT_BYTES => malformed("more than 4 MiB"),
        Ok(_) => Fact::Known(String::from_utf8_lossy(&text).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_configuration_is_unpacked_within_bounds() {
        use std::io::Write;
        let pack = |bytes: &[u8]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packer.write_all(bytes).unwrap();
            packer.finish().unwrap()
        };
        let packed = pack(b"CONFIG_HZ=250\n");
        assert_eq!(unpack(&packed), Fact::Known("CONFIG_HZ=250\n".into()));
        for bad in [&packed[..packed.len() / 2], b"plain text", b""] {
            assert!(unpack(bad).unknown().is_some());
        }
        let bomb = pack(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 17);
        let why = unpack(&bomb).unknown().unwrap().to_string();
        assert_eq!(why, "malformed: /proc/config.gz: expected gzip, found \"more than 4 MiB\"");
    }
}
