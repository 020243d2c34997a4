//! A reader that has gone, and a disk that is full.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::need::Need;
use crate::program::{ProgramOutput, shared};

/// Commands that print a result, quick ones where there is a choice.
const PRINTING: &[&[&str]] = &[
    &["doctor", "--no-measure"],
    &["doctor", "--no-measure", "--verbose", "--format", "json"],
    &["doctor", "--rules"],
    &["bench", "--duration", "50ms", "--only", "monotonic"],
    &["capture", "--dry-run"],
    &["bench", "--list"],
    &["watch", "--duration", "1s"],
    &["completions", "zsh"],
    &["schema", "doctor"],
    &["--help"],
];

#[test]
fn a_closed_pipe_is_no_noise() {
    let Some(program) = &shared(&[]) else { return };
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // Gone before the first byte: `| head -c1` would be a race.
        drop(reader);
        let output = program.command(arguments).stdout(writer).stderr(Stdio::piped()).output();
        let said = ProgramOutput::from(output.expect("the program starts"));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let Some(program) = &shared(&[Need::Path("/dev/full")]) else { return };
    for arguments in PRINTING.iter().filter(|arguments| arguments != &&["--help"]) {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full opens");
        let output = program.command(arguments).stdout(full).stderr(Stdio::piped()).output();
        let said = ProgramOutput::from(output.expect("the program starts"));
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert_eq!(
            said.err, "parachron: cannot write the output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}
