//! A capture takes no secrets: nothing of a machine's owner leaves it.

use std::fs;
use std::path::Path;

use inspect::tree::Tree;

/// Stands for everything that must stay: names, serials, addresses, keys.
const SECRET: &str = "S3CRET";

/// A tree that holds the originals of every file, with secrets in each place
/// where a machine may have one.
const FILES: &[(&str, &str)] = &[
    (
        "proc/cmdline",
        "BOOT_IMAGE=/S3CRET root=UUID=S3CRET quiet tsc=reliable luks.key=S3CRET -- S3CRET\n",
    ),
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nserial\t: S3CRET\nflags\t\t: tsc\n"),
    ("proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\nintr S3CRET\nbtime 5\n"),
    ("proc/loadavg", "0.1 0.2 0.3 1/2 S3CRET\n"),
    ("proc/uptime", "5.0 5.0\n"),
    ("proc/1/environ", "container=lxc\0TOKEN=S3CRET\0"),
    ("proc/1/cgroup", "0::/docker/S3CRET\n"),
    ("proc/7/comm", "S3CRET\n"),
    ("proc/8/comm", "chronyd\n"),
    ("proc/8/cmdline", "chronyd\0-S3CRET\0"),
    ("etc/hostname", "S3CRET\n"),
    ("etc/machine-id", "S3CRET\n"),
    ("etc/chrony/chrony.keys", "S3CRET\n"),
    (
        "etc/chrony/chrony.conf",
        "pool S3CRET iburst\nserver 192.0.2.7 key 1 # S3CRET\nkeyfile /S3CRET\nmailonchange S3CRET 1\n\
         refclock SOCK /S3CRET\nconfdir /etc/S3CRET\nmakestep 1 3\n",
    ),
    ("etc/os-release", "PRETTY_NAME=\"Y\"\nID=y\nBUG_REPORT_URL=S3CRET\n"),
    ("sys/class/dmi/id/product_serial", "S3CRET\n"),
    ("sys/class/dmi/id/product_uuid", "S3CRET\n"),
    ("sys/class/dmi/id/product_name", "Z\n"),
    ("proc/sys/kernel/osrelease", "6.1.0\n"),
    ("boot/config-6.1.0", "CONFIG_HZ=250\nCONFIG_DEFAULT_HOSTNAME=\"S3CRET\"\n"),
    (
        "var/log/kern.log",
        "Nov 21 04:26:01 S3CRET kernel: [    0.0] Linux version 6.1.0 (S3CRET@S3CRET)\n\
         Nov 21 04:26:01 S3CRET kernel: [    0.1] Command line: S3CRET\n\
         Nov 21 04:26:01 S3CRET kernel: [    0.2] clocksource: Switched to clocksource tsc\n\
         Nov 21 04:26:01 S3CRET kernel: [    0.3] usb 1-1: SerialNumber: S3CRET\n\
         Nov 21 04:26:01 S3CRET kernel: [    0.4] systemd[1]: Hostname set to <S3CRET>.\n\
         Nov 21 04:26:01 S3CRET kernel: [    0.5] systemd[1]: clocksource: S3CRET\n\
         Nov 21 04:26:01 S3CRET kernel: [    9.9] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [S3CRET:7]\n",
    ),
];

fn texts(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push((path.display().to_string(), String::new()));
        if path.is_dir() {
            texts(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn no_secret_is_taken() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::captured(root.path()).unwrap().recording();
    let facts = inspect::read(&tree);
    assert_eq!(facts.kernel.log.value().unwrap().len(), 2);
    assert_eq!(facts.steering.keepers.value().unwrap().len(), 1);
    assert_eq!(facts.system.container.value().unwrap(), "lxc");

    let recording = tree.into_recording();
    let place = root.path().join("captured");
    recording.write(&place, &recording.manifest("test", 1)).unwrap();
    let mut found = Vec::new();
    texts(&place, &mut found);
    assert!(found.iter().any(|(path, _)| path.ends_with("proc/cmdline")));
    for (path, text) in found {
        assert!(!text.contains(SECRET) && !path.contains(SECRET), "{path}: {text}");
    }
}
