//! A thread that has the provider's deadlines met: a vCPU that never leaves
//! the guest would not look at them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::MachineError;
use crate::shared::Shared;

/// Deadlines are met no more often than this, whatever period is asked for.
const LEAST: Duration = Duration::from_millis(1);

/// It ends when it is dropped.
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
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
