//! What the service manager is told: that the daemon runs, and how the clock is.

use keeper::event::KeeperEvent;
use linux::service_manager;

use crate::words::{self, EventDescription};

/// Notifies it of an event. If the manager has gone, the clock is kept all the
/// same.
pub fn notify(event: &KeeperEvent) {
    if let Some(status) = status(event) {
        let _ = match event {
            KeeperEvent::Started(_) => service_manager::ready(&status),
            KeeperEvent::Summary(_) => service_manager::stopping(),
            // Not at READY=1: one that fails soon after its start is backed off from too.
            KeeperEvent::Synchronised(_) => service_manager::well(&status),
            _ => service_manager::status(&status),
        };
    }
}

/// The status after an event, in one line; `None` where it has not changed.
fn status(event: &KeeperEvent) -> Option<String> {
    match event {
        KeeperEvent::Started(started) | KeeperEvent::Reloaded(started) => {
            Some(format!("sources: {}", started.sources.join(", ")))
        }
        KeeperEvent::HostMessageRejected { .. } | KeeperEvent::Cancelled { .. } => None,
        // What leaves the clock right is followed by no other event.
        KeeperEvent::Disruption(disruption) if !disruption.kinds.may_be_wrong() => None,
        _ => {
            let EventDescription { kind, message, .. } = words::describe(event);
            Some(format!("{kind}: {}", message.first()?))
        }
    }
}
