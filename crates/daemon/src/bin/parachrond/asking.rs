//! What metrics and records share: both are made of the daemon's status, asked for at its
//! socket by a thread of their own, so that neither holds it up.

use std::io;
use std::thread;

use daemon::{Settings, program};
use exporter::{Answer, Scrapes};

use crate::Failure;

/// What is known of this machine's clock, for `what` is made of it.
pub(crate) fn scrapes(
    what: &str,
    settings: &Settings,
    consumers: &[String],
) -> Result<Scrapes, Failure> {
    let Some(socket) = settings.status_socket.clone() else {
        let cause = format!("{what} are made of what is told at status-socket, which is empty");
        return Err((cause, "name a status-socket".into(), program::USAGE));
    };
    let ask = move || {
        let (knows, status) = daemon::metrics::ask(&socket).unzip();
        Answer { knows, status, is_expected: true }
    };
    Ok(Scrapes::new(env!("CARGO_PKG_VERSION"), consumers, ask))
}

/// Works in a thread until the process ends.
pub(crate) fn begin<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(), Failure> {
    let thread = thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    let failed =
        |why: io::Error| (format!("no thread: {why}"), "ulimit -u".into(), program::FAILED);
    thread.spawn(work).map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_is_made_without_a_status() {
        for what in ["metrics", "records"] {
            let (cause, remedy, code) = scrapes(what, &Settings::default(), &[]).err().unwrap();
            assert!(cause.starts_with(&format!("{what} are made of")), "{cause}");
            assert_eq!((remedy.as_str(), code), ("name a status-socket", program::USAGE));
        }
    }
}
