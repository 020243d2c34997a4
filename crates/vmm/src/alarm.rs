//! A thread that has the provider's deadlines met: a vCPU that never leaves
//! the guest would not look at them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::board::Board;
use crate::error::MachineError;

/// Deadlines are met no more often than this, whatever period is asked for.
const LEAST: Duration = Duration::from_millis(1);

/// It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Alarm {
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl Alarm {
    pub(crate) fn start(board: &Arc<Board>) -> Result<Self, MachineError> {
        let shared = Arc::clone(board);
        let thread = std::thread::Builder::new()
            .name("deadlines".to_owned())
            .spawn(move || {
                while shared.wait_for_deadline() {
                    shared.meet_deadline();
                    std::thread::sleep(LEAST);
                }
            })
            .map_err(MachineError::Thread)?;
        Ok(Self { board: Arc::clone(board), thread: Some(thread) })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.board.end_deadlines();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
