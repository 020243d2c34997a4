//! What is shown of a machine that did not get through.

/// Lines of the console printed after a failure.
const CONSOLE_LINES: usize = 25;

/// QEMU prints this for each CPU feature that it cannot emulate, once per vCPU.
const NOT_EMULATED: &str = "TCG doesn't support requested feature";

/// What happened, QEMU's own errors, and the end of the guest's console.
pub(crate) fn failure(what: &str, qemu_errors: &str, console: &str) -> String {
    let errors = qemu_errors.lines().filter(|line| !line.contains(NOT_EMULATED));
    let lines: Vec<&str> = console.lines().filter(is_text).collect();
    let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
    let heading = format!("the last {} lines of its console:", last.len());
    let all = [what].into_iter().chain(errors).chain([heading.as_str()]);
    all.chain(last.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// A line to show: not empty, and no packed record.
fn is_text(line: &&str) -> bool {
    !line.is_empty() && !line.contains(char::REPLACEMENT_CHARACTER)
}

/// Text without what would move a terminal's cursor.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|&letter| letter == '\n' || !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_end_of_the_console_and_qemus_errors() {
        let console: String = (1..=40).map(|line| format!("line {line}\r\n\r\n")).collect();
        let message = failure(
            "it hung",
            "warning: TCG doesn't support requested feature: x\nterminating on signal 15\n",
            &readable(console.as_bytes()),
        );
        let lines: Vec<&str> = message.lines().collect();
        let start = "it hung|terminating on signal 15|the last 25 lines of its console:|line 16";
        assert_eq!(lines[..4].join("|"), start);
        assert_eq!((lines.len(), lines[27]), (28, "line 40"));
    }

    #[test]
    fn a_console_cannot_reset_the_terminal() {
        assert_eq!(readable(b"\x1bc\x1b[2Jboot\xff\r\n"), "c[2Jboot\u{fffd}\n");
    }
}
