//! Two processes that pass a counter back and forth through two pipes:
//! UnixBench's 'pipe-based context switching' (context1). A round trip is one
//! loop.
//!
//! As there, the counter is 8 bytes, each side checks what arrives, and
//! neither is bound to a CPU: which CPUs the two share is the scheduler's
//! choice, and part of what is measured.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Why a pair does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The partner could not be started.
    #[error("cannot start {program:?}: {error}")]
    Start {
        /// Its program.
        program: std::ffi::OsString,
        /// The system's error.
        error: std::io::Error,
    },
    /// A pipe failed.
    #[error("the pipe to the other process failed: {0}")]
    Pipe(#[from] std::io::Error),
    /// The partner sent something else back.
    #[error("sent {sent} through the pipe and received {back}")]
    Garbled {
        /// What was sent.
        sent: u64,
        /// What came back.
        back: u64,
    },
}

/// This process's side, and the process of the other.
#[derive(Debug)]
pub struct PipePair {
    partner: Child,
    /// Closed first when this is dropped, which ends the partner.
    to: Option<ChildStdin>,
    from: ChildStdout,
    loops: u64,
}

impl PipePair {
    /// Starts `partner`, which runs [`echo`] on its standard input and output.
    ///
    /// # Errors
    /// [`PairError::Start`].
    pub fn start(mut partner: Command) -> Result<Self, PairError> {
        let program = partner.get_program().to_owned();
        let start = |error| PairError::Start { program: program.clone(), error };
        let mut partner =
            partner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(start)?;
        match (partner.stdin.take(), partner.stdout.take()) {
            (to @ Some(_), Some(from)) => Ok(Self { partner, to, from, loops: 0 }),
            _ => Err(start(ErrorKind::BrokenPipe.into())),
        }
    }

    /// One loop: the counter there and back. Returns the loops so far.
    ///
    /// # Errors
    /// [`PairError::Pipe`], [`PairError::Garbled`].
    #[inline]
    pub fn pass(&mut self) -> Result<u64, PairError> {
        let mut back = [0; 8];
        let to = self.to.as_mut().ok_or(ErrorKind::BrokenPipe).map_err(std::io::Error::from)?;
        to.write_all(&self.loops.to_ne_bytes())?;
        self.from.read_exact(&mut back)?;
        let back = u64::from_ne_bytes(back);
        if back != self.loops {
            return Err(PairError::Garbled { sent: self.loops, back });
        }
        self.loops += 1;
        Ok(self.loops)
    }
}

impl Drop for PipePair {
    fn drop(&mut self) {
        self.to = None;
        // The end of its input ends the partner; nobody needs its status.
        let _ = self.partner.wait();
    }
}

/// The partner's side: sends back each counter, which must be the one after
/// the last, until `input` ends.
///
/// # Errors
/// [`PairError::Pipe`], [`PairError::Garbled`].
pub fn echo(mut input: impl Read, mut output: impl Write) -> Result<(), PairError> {
    let mut token = [0; 8];
    for loops in 0.. {
        match input.read_exact(&mut token) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            other => other?,
        }
        let back = u64::from_ne_bytes(token);
        if back != loops {
            return Err(PairError::Garbled { sent: loops, back });
        }
        output.write_all(&token)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_count_up_through_another_process() {
        // `cat` sends back what it is sent, and ends with its input.
        let mut pair = PipePair::start(Command::new("cat")).unwrap();
        assert_eq!([pair.pass().unwrap(), pair.pass().unwrap(), pair.pass().unwrap()], [1, 2, 3]);
    }

    #[test]
    fn a_missing_partner_and_one_that_sends_nonsense_are_distinguished() {
        let none = PipePair::start(Command::new("/no/such/program"));
        assert!(matches!(none, Err(PairError::Start { .. })));
        let mut nonsense = Command::new("printf");
        nonsense.arg("12345678");
        // It may be gone before it is written to.
        let passed = PipePair::start(nonsense).unwrap().pass();
        assert!(matches!(passed, Err(PairError::Garbled { .. } | PairError::Pipe(_))));
    }

    #[test]
    fn the_echo_checks_the_count() {
        let mut back = Vec::new();
        let tokens = [0u64.to_ne_bytes(), 1u64.to_ne_bytes()].concat();
        echo(&tokens[..], &mut back).unwrap();
        assert_eq!(back, tokens);
        let skipped = 7u64.to_ne_bytes();
        let error = echo(&skipped[..], Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "sent 0 through the pipe and received 7");
    }
}
