//! Network namespaces, one for each node, on one bridge.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::servers::ADDRESSES;

/// Runs this program again in namespaces of its own.
pub(crate) fn enter(arguments: &[String]) -> io::Result<ExitStatus> {
    // Root of this user namespace: whoever is root outside keeps no right there.
    let own = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"];
    // The first process of a PID namespace and `unshare` heed no Ctrl-C: they end with this one.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(own)
        .args(["--kill-child", "--mount-proc"])
        .arg(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).status()
}

/// Where a node is, on the bridge.
pub(crate) fn address(node: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(node + 1).unwrap_or(u16::MAX).to_be_bytes();
    Ipv4Addr::new(10, 9, 1 + high, low)
}

/// Makes the bridge with the servers' addresses, and so many nodes.
pub(crate) fn make(nodes: usize) -> io::Result<()> {
    // `ip netns` names them there.
    run(Command::new("mount").args(["-t", "tmpfs", "none", "/run"]))?;
    let mut batch = String::from("link set lo up\nlink add bridge type bridge\n");
    batch.push_str("link set bridge up\n");
    for address in ADDRESSES {
        let _ = writeln!(batch, "address add {address}/16 dev bridge");
    }
    for node in 0..nodes {
        let _ = writeln!(batch, "netns add n{node}");
        let _ = writeln!(batch, "link add h{node} type veth peer name eth0 netns n{node}");
        let _ = writeln!(batch, "link set h{node} master bridge up");
    }
    ip(&["-batch", "-"], &batch)?;
    for node in 0..nodes {
        let inside = format!("address add {}/16 dev eth0\nlink set eth0 up\n", address(node));
        ip(&["-netns", &format!("n{node}"), "-batch", "-"], &inside)?;
    }
    Ok(())
}

/// A program inside a node.
pub(crate) fn command(node: usize, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &format!("n{node}")]).arg(program).stdin(Stdio::null());
    command
}

/// Takes a node off the bridge.
pub(crate) fn cut_off(node: usize) -> io::Result<()> {
    ip(&["link", "set", &format!("h{node}"), "down"], "")
}

fn ip(arguments: &[&str], batch: &str) -> io::Result<()> {
    let mut child = Command::new("ip").args(arguments).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let status = child.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("ip {arguments:?}: {status}")))
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}
