//! A service's notifications, received on a manager's socket. The socket is
//! named in the environment, so the service is a process of its own: this test
//! program once more.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::service_manager;

/// Set in the process that notifies.
const SERVICE: &str = "PARACHRON_TEST_SERVICE";

#[test]
fn a_manager_receives_a_services_notifications() {
    let _alone = crate::alone();
    if std::env::var_os(SERVICE).is_some() {
        return be_a_service();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    assert!(service(|command| command.env("NOTIFY_SOCKET", &path)));
    let expected = [
        "READY=1\nSTATUS=keeping\n",
        "STATUS=a b\n",
        "RESTART_RESET=1\nSTATUS=well\n",
        "WATCHDOG=1\n",
        "STOPPING=1\n",
    ];
    for expected in expected {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        assert_eq!(String::from_utf8_lossy(&message[..length]), expected);
    }
    // Without a manager it succeeds as well; with one that is gone it fails.
    assert!(service(|command| command.env_remove("NOTIFY_SOCKET")));
    drop(manager);
    assert!(!service(|command| command.env("NOTIFY_SOCKET", &path)));
}

fn service(change: impl FnOnce(&mut Command) -> &mut Command) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "service_manager::a_manager_receives_a_services_notifications"])
        .env(SERVICE, "1")
        .env("WATCHDOG_USEC", "20000000")
        .env_remove("WATCHDOG_PID")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    change(&mut command).status().unwrap().success()
}

fn be_a_service() {
    assert_eq!(service_manager::watchdog(), Some(Duration::from_secs(20)));
    service_manager::ready("keeping").unwrap();
    service_manager::status("a\nb").unwrap();
    service_manager::well("well").unwrap();
    service_manager::alive().unwrap();
    service_manager::stopping().unwrap();
}
