//! `cargo xtask arm64`: the tests, built for arm64 and run by QEMU's user mode, with
//! counts for each program of tests as it ends.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use crate::counts::{Counts, Reader};
use crate::outside;
use crate::project::Project;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What runs on the machine that builds, or is of x86-64 alone.
const NOT_HERE: [&str; 8] = [
    "bench",
    "e2e",
    "fuzz",
    "parachron-kvm",
    "parachron-lab",
    "parachron-vmm",
    "xtask",
    "machines",
];

/// Tests that cannot be right in QEMU's user mode (7.2), or in [`BINFMT`]'s namespace, by the
/// reason: they are left out, and named at the end. Each is a name, or a part of several.
const NOT_IN_USER_MODE: [(&str, &[&str]); 7] = [
    (
        "no SO_TIMESTAMPNS, with which the host's socket dates its messages",
        &[
            "the_latest_status_is_read_until_the_daemon_hangs",
            "daemon::guard::tests::",
            "a_daemon_is_beside_only_where_this_one_leaves_the_discipline_to_it",
            "a_source_that_waits_for_the_kernel_is_reported_once_as_the_program_describes_it",
            "a_hosts_time_is_what_it_would_step_by",
            "a_host_that_is_asked_is_right_within_the_way_to_it",
            "without_a_source_it_does_not_start_and_without_a_reply_it_fails",
            "it_says_what_it_knows_and_takes_good_settings_alone",
            "it_looks_between_two_samples_only_where_nothing_else_tells_of_a_pause",
            "host::awaited::tests::",
            "host::local::tests::",
        ],
    ),
    (
        "no time stamps of packets sent",
        &[
            "interleaved::a_prober_goes_by_it",
            "interleaved::a_second_request_learns_when_the_first_reply_was_sent",
        ],
    ),
    (
        "a process has the memory, the start and the errors of the emulator",
        &[
            "it_records_and_goes_on_where_it_was_killed",
            "it_stays_small_and_wakes_for_samples_alone",
            "a_flood_of_connections_to_its_metrics_is_bounded_and_closed",
            "a_missing_partner_and_one_that_sends_nonsense_are_distinguished",
            "a_guard_that_does_not_start_is_an_error",
        ],
    ),
    (
        "promtool, started from there, ends before it reads: not explained",
        &[
            "promtool_has_nothing_to_say_about_the_metrics",
            "promtool_finds_each_fault_and_nothing_in_calm",
        ],
    ),
    (
        "no openat2, with which a tree's links are followed inside it",
        &["tree::tests::links_stay_inside"],
    ),
    (
        "no user but root in the namespace, and the host's socket as above",
        &[
            "a_freeze_of_a_part_is_an_error_and_the_next_request_freezes_the_rest",
            "a_daemon_that_hangs_leaves_nothing_frozen",
            "a_thaw_that_fails_is_tried_again",
            "a_gate_that_another_process_opened_is_open",
            "a_workload_is_frozen_for_a_snapshot_and_thawed_after_the_limit",
            "a_workload_is_thawed_once_the_clock_is_measured",
            "an_ordinary_end_thaws",
            "more_clients_than_may_wait_are_refused",
            "groups_that_vanish_that_are_frozen_and_that_hold_the_daemon",
            "nothing_stays_frozen_after_a_kill_at_any_step",
            "the_next_start_thaws_what_was_left",
        ],
    ),
    (
        "simulations that take over ten minutes there, the same arithmetic on every processor",
        &[
            "the_output_is_that_of_the_program",
            "the_lessons_have_the_figures_of_the_keeper",
            "each_kind_has_words",
        ],
    ),
];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this package; may be repeated [default: all that build for arm64]
    #[arg(long = "package", short = 'p', value_name = "PACKAGE")]
    only: Vec<String>,
    /// Passed on to the test programs, such as --skip NAME
    #[arg(last = true)]
    tests: Vec<String>,
}

/// Runs a command with errors in its output. The kernel is told that QEMU runs programs of
/// arm64, so that tests can start some: for this command alone, in a user namespace (Linux
/// 6.7; the bytes are ELF's, 64 bits, EM_AARCH64). Where that cannot be, those tests fail.
const BINFMT: &str = r#"exec 2>&1
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export RULE=":parachron-arm64:M::$magic:$mask:$(command -v qemu-aarch64-static):F"
place=/proc/sys/fs/binfmt_misc
inner='mount -t binfmt_misc none "$PLACE" && printf %s "$RULE" >"$PLACE/register"; exec "$@"'
if unshare --user --map-root-user --mount true 2>/dev/null; then
    PLACE=$place exec unshare --user --map-root-user --mount sh -c "$inner" sh "$@"
fi
exec "$@""#;

/// What test programs printed so far.
#[derive(Debug, Default)]
struct Tally {
    reader: Reader,
    /// The program that runs.
    program: String,
    /// Its output since the last result.
    output: String,
}

impl Tally {
    /// One more line; at a program's result, its row, after its output if tests failed.
    fn add(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Compiling" | "Finished" | "Downloading" | "Downloaded", ..] => return None,
            ["Running", .., path] => {
                // target/…/deps/parachron_units-0123456789abcdef
                let name = path.trim_matches(['(', ')']).rsplit('/').next().unwrap_or(path);
                self.program = name.rsplit_once('-').map_or(name, |(name, _)| name).to_owned();
            }
            ["Doc-tests", name] => self.program = format!("{name}, examples"),
            _ => {}
        }
        self.output += line;
        self.output.push('\n');
        let Counts { passed, failed, not_measured, skipped } = self.reader.read(line)?;
        let output = std::mem::take(&mut self.output);
        let output = if failed > 0 { output.as_str() } else { "" };
        let program = &self.program;
        Some(format!(
            "{output}{program:<36} {passed:>5} passed {failed:>3} failed {not_measured:>3} not \
             measured {skipped:>3} skipped"
        ))
    }
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    for (tool, package) in [
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        ("qemu-aarch64-static", "qemu-user-static"),
    ] {
        if !outside::is_available(Command::new(tool).arg("--version")) {
            eprintln!("arm64: no {tool}\n  try: apt-get install {package}");
            return ExitCode::FAILURE;
        }
    }
    let mut tally = Tally::default();
    let passed = test(project, args, |line| {
        if let Some(row) = tally.add(line) {
            println!("{row}");
        }
    });
    let Counts { passed: ok, failed, not_measured, skipped } = tally.reader.counts();
    for (why, tests) in NOT_IN_USER_MODE {
        println!("left out: {why}: {}", tests.join(", "));
    }
    println!("arm64: {ok} passed, {failed} failed, {not_measured} not measured, {skipped} skipped");
    match passed {
        Ok(true) if ok > 0 => ExitCode::SUCCESS,
        Ok(_) => {
            // What did not compile, or ended without a result.
            print!("{}", tally.output);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("arm64: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all tests, and hands over what they print as it comes; whether all passed.
fn test(project: &Project, args: &Args, mut hear: impl FnMut(&str)) -> io::Result<bool> {
    let cargo = project.cargo();
    // Their errors belong between what they print.
    let mut command = Command::new("sh");
    command.args(["-c", BINFMT, "sh"]).arg(cargo.get_program());
    command.args(["test", "--no-fail-fast", "--target", TARGET]).current_dir(project.root());
    if args.only.is_empty() {
        command.arg("--workspace");
        command.args(NOT_HERE.iter().flat_map(|package| ["--exclude", package]));
    }
    command.args(args.only.iter().flat_map(|package| ["--package", package]));
    let left_out = NOT_IN_USER_MODE.iter().flat_map(|(_, tests)| *tests);
    command.arg("--").args(left_out.flat_map(|test| ["--skip", test])).args(&args.tests);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    // Programs that a test starts find their libraries as well.
    command.env("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64-static");
    let mut child = command.spawn()?;
    for line in BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).split(b'\n') {
        hear(&String::from_utf8_lossy(&line?));
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_and_skips_counted() {
        let mut tally = Tally::default();
        let text = "   Compiling units v0.1.0\n\
                    \x20    Running unittests src/lib.rs (target/debug/deps/units-01ab)\n\
                    running 3 tests\n..skipped: no /dev/kvm\n.\n\
                    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out\n\
                    \x20  Doc-tests units\n\
                    test [skipped: no chronyd] x ... ignored\n\
                    test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured\n";
        let rows: Vec<String> = text.lines().filter_map(|line| tally.add(line)).collect();
        let expected = Counts { passed: 6, failed: 1, not_measured: 0, skipped: 2 };
        assert_eq!(tally.reader.counts(), expected);
        assert!(rows[0].starts_with("units  ") && rows[0].ends_with(" 2 skipped"), "{rows:?}");
        // What failed is told.
        assert!(
            rows[1].contains("[skipped: no chronyd]") && rows[1].contains("\nunits, examples ")
        );
    }
}
