//! SIGHUP to the program.

use std::fs;
use std::time::{Duration, Instant};

use daemon::gate::list_file;
use daemon::gate::socket::GateRequest;
use daemon::status::GateState;

use crate::gated::{Gated, THAWED_IN, workload};
use crate::running::end;

/// Other settings take effect, and what is frozen stays so until the clock is right or the limit
/// has passed.
#[test]
fn a_reload_leaves_a_closed_gate_closed() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), "60s");
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    let text = fs::read_to_string(&gated.file).unwrap() + "ntp = ['127.0.0.1:9']\n";
    fs::write(&gated.file, text).unwrap();
    let id = rustix::process::Pid::from_child(&gated.running.0);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    let begun = Instant::now();
    while gated.status().sources.len() < 2 {
        assert!(begun.elapsed() < THAWED_IN);
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = gated.gate_status();
    assert_eq!((status.state, status.frozen), (GateState::Closed, 1));
    assert!(workload.is_frozen() && list_file(&gated.socket()).exists());
    // The socket is served still, and the workload thawed as the daemon ends.
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    end(&gated.running.0);
    workload.await_thaw("after a reload");
}
