//! Notifications to the service manager (`man 3 sd_notify`): systemd, or
//! another that set NOTIFY_SOCKET. Without that variable nothing is sent and
//! nothing fails.

use std::io;
use std::time::Duration;

use sd_notify::{NotifyState, notify};

/// READY=1: the service is up, and its status.
///
/// # Errors
/// The manager's socket does not take it.
pub fn ready(status: &str) -> io::Result<()> {
    notify(&[NotifyState::Ready, NotifyState::Status(&one_line(status))])
}

/// STATUS=: the line that `systemctl status` shows.
///
/// # Errors
/// The manager's socket does not take it.
pub fn status(status: &str) -> io::Result<()> {
    notify(&[NotifyState::Status(&one_line(status))])
}

/// RESTART_RESET=1, and its status: the service does what it is for, so that another
/// failure is the first again. systemd counts automatic restarts, by which
/// `RestartSteps=` makes the delays longer, and before 258, which knows this message, it
/// never starts the count anew by itself (systemd/systemd#43813); older ones ignore it.
///
/// # Errors
/// The manager's socket does not take it.
pub fn well(status: &str) -> io::Result<()> {
    notify(&[NotifyState::Custom("RESTART_RESET=1"), NotifyState::Status(&one_line(status))])
}

/// WATCHDOG=1: due more often than [`watchdog`] returns.
///
/// # Errors
/// The manager's socket does not take it.
pub fn alive() -> io::Result<()> {
    notify(&[NotifyState::Watchdog])
}

/// STOPPING=1: the service is ending.
///
/// # Errors
/// The manager's socket does not take it.
pub fn stopping() -> io::Result<()> {
    notify(&[NotifyState::Stopping])
}

/// The time without [`alive`] after which the manager kills the service;
/// `None` where it does not watch this process (WATCHDOG_USEC, WATCHDOG_PID).
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// A second line would be a second message.
fn one_line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}
