//! `cargo xtask arm64`: the tests, built for arm64 and run by QEMU's user mode, with
//! counts for each program of tests as it ends.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use crate::counts::{Counts, Reader};
use crate::outside;
use crate::project::Project;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What runs on the machine that builds, or is of x86-64 alone; `alerts` is a simulation that
/// had not ended there after ten minutes.
const NOT_HERE: [&str; 9] = [
    "alerts",
    "bench",
    "e2e",
    "fuzz",
    "parachron-kvm",
    "parachron-lab",
    "parachron-vmm",
    "xtask",
    "machines",
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
    command.arg("--").args(&args.tests).stdin(Stdio::null()).stdout(Stdio::piped());
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
