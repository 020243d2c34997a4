//! A thread that meets the provider's deadlines: a vCPU that never leaves the
//! guest would not.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::MachineError;
use crate::shared::Shared;

/// The shortest time between two deadlines, whatever the configured period.
const LEAST: Duration = Duration::from_millis(1);

/// The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Alarm {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, MachineError> {
        let waited_on = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("deadlines".to_owned())
            .spawn(move || {
                while waited_on.wait_for_deadline() {
                    waited_on.meet_deadline();
                    std::thread::sleep(LEAST);
                }
            })
            .map_err(MachineError::Thread)?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.end_deadlines();
        if let Some(thread) = self.thread.take() {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}
