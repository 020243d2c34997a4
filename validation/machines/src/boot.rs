//! What is shown of a machine that did not get through, and why it did not.

use std::time::Duration;

/// Lines of the console printed after a failure.
const CONSOLE_LINES: usize = 25;

/// QEMU prints this for each CPU feature that it cannot emulate, once per vCPU.
const NOT_EMULATED: &str = "TCG doesn't support requested feature";

/// What an error of the kernel itself prints (Linux: arch/x86/kernel/dumpstack.c, kernel/panic.c,
/// lib/bug.c). No program of a machine prints it, and no program can cause it in a right kernel.
/// A panic for another reason, as an initramfs that ends, prints none of these.
const DEATHS: [&str; 4] =
    ["Oops: ", "general protection fault", "kernel BUG at ", "not syncing: Fatal exception"];

/// Beside these, what tells where it happened.
const WHERE: [&str; 2] = ["RIP: 0010:", "BUG: "];

/// The most lines that are shown of a kernel's death.
const DEATH_LINES: usize = 6;

/// Why a machine did not get through, where the load of this system may be the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It did not answer within this limit.
    Late(Duration),
    /// Its kernel died, with these lines.
    Died(String),
}

/// The lines by which a kernel reports its own death.
pub(crate) fn death(console: &str) -> Option<String> {
    let names = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    if !console.lines().any(|line| names(line, &DEATHS)) {
        return None;
    }
    let lines = console.lines().filter(|line| names(line, &DEATHS) || names(line, &WHERE));
    Some(lines.take(DEATH_LINES).collect::<Vec<_>>().join("\n"))
}

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
    fn only_an_error_of_the_kernel_itself_is_its_death() {
        let oops = "[    9.1] Oops: 0002 [#1] PREEMPT SMP NOPTI\n[    9.1] CPU: 1 PID: 0\n\
            [    9.1] RIP: 0010:ttwu_do_activate+0x5c/0x150\n\
            [    9.2] Kernel panic - not syncing: Fatal exception in interrupt\n";
        let lines = death(oops).unwrap();
        assert_eq!(lines.lines().count(), 3, "{lines}");
        assert!(lines.contains("ttwu_do_activate"), "{lines}");
        for ours in [
            "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
            "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!\nRIP: 0010:queued_spin_lock",
            "",
        ] {
            assert_eq!(death(ours), None, "{ours}");
        }
    }

    #[test]
    fn a_console_cannot_reset_the_terminal() {
        assert_eq!(readable(b"\x1bc\x1b[2Jboot\xff\r\n"), "c[2Jboot\u{fffd}\n");
    }
}
