//! What a service tells its manager (`man 3 sd_notify`): systemd, or whoever
//! else gave it NOTIFY_SOCKET. Without that, nothing is told and nothing
//! fails.

use std::io;
use std::time::Duration;

use sd_notify::{NotifyState, notify};

/// It does its work from now on, and how that stands.
///
/// # Errors
/// The manager's socket does not take it.
pub fn ready(status: &str) -> io::Result<()> {
    notify(&[NotifyState::Ready, NotifyState::Status(&one_line(status))])
}

/// How it stands: the line that `systemctl status` shows.
///
/// # Errors
/// The manager's socket does not take it.
pub fn status(status: &str) -> io::Result<()> {
    notify(&[NotifyState::Status(&one_line(status))])
}

/// It is alive: to be told more often than [`watchdog`] says.
///
/// # Errors
/// The manager's socket does not take it.
pub fn alive() -> io::Result<()> {
    notify(&[NotifyState::Watchdog])
}

/// It is about to end.
///
/// # Errors
/// The manager's socket does not take it.
pub fn stopping() -> io::Result<()> {
    notify(&[NotifyState::Stopping])
}

/// After how long without [`alive`] the manager takes it for dead; none where
/// it does not watch this process (WATCHDOG_USEC, WATCHDOG_PID).
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Another line would be another message.
fn one_line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}
