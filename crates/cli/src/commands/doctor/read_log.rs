//! `--log`: a log alone, from a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use doctor::report::{DoctorReport, Origin};
use doctor::selection::RuleSelection;
use facts::kernel::pasted::{Pasted, PastedLog};

use super::now;
use crate::error::CliError;

/// The report on a log.
pub(super) fn examined(file: &Path, selection: &RuleSelection) -> Result<DoctorReport, CliError> {
    let pasted = if file == Path::new("-") {
        read(io::stdin().lock())
    } else {
        File::open(file).and_then(read)
    };
    let pasted = pasted.map_err(|why| CliError::Failed {
        cause: format!("cannot read {}: {why}", file.display()),
        remedy: "pass --log with a readable file, or with - for standard input".into(),
    })?;
    let report = doctor::log::examine(pasted, selection);
    Ok(report.with_origin(Origin { root: Some(file.display().to_string()), ..now() }))
}

/// A gigabyte takes as much memory as its lines about clocks.
fn read(mut input: impl Read) -> io::Result<Pasted> {
    let (mut log, mut buffer) = (PastedLog::default(), vec![0; 1 << 16]);
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(log.finish()),
            Ok(length) => {
                log.push(&buffer[..length]);
                if log.is_full() {
                    return Ok(log.finish());
                }
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}
