//! On machines that lack something, or forbid it: clear words, and the rest works.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::need::Need;
use crate::program::{Program, ProgramOutput, project, shared};

use crate::refused::refused;

/// Folders of the system are hidden by mounts of our own.
const MOUNTS: &[Need] = &[Need::Root, Need::Tool("unshare")];

/// What asks the system, each briefly, without changing it.
const COMMANDS: &[&[&str]] = &[
    &["doctor", "--verbose"],
    &["bench", "--list"],
    &["bench", "--duration", "200ms"],
    &["drift", "--duration", "500ms"],
    &["watch", "--duration", "500ms"],
    &["latency", "--only", "timer-wake-up", "--duration", "1s"],
    &["capture", "--dry-run"],
    &["export"],
];

/// Runs each command where `place` puts it, to its end: output by command.
fn each(place: impl Fn(&[&str]) -> Command) -> BTreeMap<String, ProgramOutput> {
    let run = |arguments: &&'static [&'static str]| {
        let said = ended(&mut place(arguments));
        // `bench --list` has nothing to show without /sys, and says so.
        let nothing = said.out.starts_with("No clock source is known.");
        let expected = (Some(if nothing { 2 } else { 0 }), "");
        assert_eq!((said.code, said.err.as_str()), expected, "{arguments:?}\n{}", said.out);
        (arguments.join(" "), said)
    };
    COMMANDS.iter().map(run).collect()
}

fn ended(command: &mut Command) -> ProgramOutput {
    command.output().expect("the command starts").into()
}

/// The program after a script in a name space of mounts of its own.
fn among_mounts(program: &Program, script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{script} && exec \"$@\""), "sh"]);
    command.arg(program.path()).args(arguments).stdin(std::process::Stdio::null());
    command
}

#[test]
fn without_sys_the_rest_works() {
    let Some(program) = &shared(MOUNTS) else { return };
    let said = each(|arguments| among_mounts(program, "mount -t tmpfs none /sys", arguments));
    let [doctor, list] = ["doctor --verbose", "bench --list"].map(|line| &said[line].out);
    assert!(doctor.contains("The kernel's clock sources are not readable"), "{doctor}");
    assert!(doctor.contains("Mount sysfs"), "{doctor}");
    assert!(list.starts_with("No clock source is known."), "{list}");
}

#[test]
fn without_proc_the_rest_works() {
    let Some(program) = &shared(MOUNTS) else { return };
    let hide = "mount -t tmpfs none /proc";
    let said = each(|arguments| among_mounts(program, hide, arguments));
    assert!(
        said["watch --duration 500ms"].out.contains("no steal: not there: /proc/stat"),
        "{}",
        said["watch --duration 500ms"].out
    );
    let doctor = &said["doctor --verbose"].out;
    assert!(!doctor.contains("unrecognised"), "unread namespaces show no container: {doctor}");
    let keep = ended(&mut among_mounts(program, hide, &["keep", "--dry-run"]));
    assert_eq!(keep.code, Some(3), "{}", keep.out);
    assert!(keep.err.contains("which other time daemons run: not there: /proc/"), "{}", keep.err);
}

/// Whoever sees its own processes only must not believe that no daemon runs.
#[test]
fn hidden_processes_are_not_none() {
    let Some(program) = &shared(&[Need::Root, Need::Tool("unshare"), Need::Tool("setpriv")]) else {
        return;
    };
    let run = |arguments: &str| {
        let script = format!(
            "mount -t tmpfs none /run && cp \"$0\" /run/parachron && \
             mount -t proc -o hidepid=2 none /proc && cd / && \
             exec setpriv --reuid 65534 --regid 65534 --clear-groups /run/parachron {arguments}"
        );
        let mut command = Command::new("unshare");
        ended(command.args(["--mount", "sh", "-c", &script]).arg(program.path()))
    };
    let keep = run("keep --dry-run");
    assert_eq!(keep.code, Some(3), "{}{}", keep.out, keep.err);
    assert!(keep.err.contains("not readable: other users' processes"), "{}", keep.err);
    let doctor = run("doctor --no-measure");
    assert_eq!((doctor.code, doctor.err.as_str()), (Some(0), ""), "{}", doctor.out);
    assert!(!doctor.out.contains("No time daemon"), "{}", doctor.out);
}

#[test]
fn a_read_only_root_is_told() {
    let Some(program) = &shared(MOUNTS) else { return };
    // Not over /tmp, where the program itself may be.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!(
        "mount --make-rprivate / && mount -o remount,bind,ro / && \
         mount -t tmpfs -o ro none '{}'",
        folder.path().display()
    );
    each(|arguments| among_mounts(program, &script, arguments));
    for (arguments, file) in [
        (&["drift", "--duration", "500ms", "--plot"][..], "a.svg"),
        (&["capture"], "captured"),
        (&["export", "--textfile"], "a.prom"),
    ] {
        let path = folder.path().join(file).display().to_string();
        let arguments = [arguments, &[path.as_str()]].concat();
        let said = ended(&mut among_mounts(program, &script, &arguments));
        assert_eq!(said.code, Some(2), "{arguments:?} {}", said.out);
        let expected = format!("parachron: cannot write {path}: Read-only file system");
        assert!(said.err.starts_with(&expected), "{arguments:?} {}", said.err);
    }
}

/// As container managers forbid them: Docker's profile refuses perf_event_open, and
/// adjtimex to those that may not set the clock.
#[test]
fn forbidden_calls_are_told() {
    let Some(program) = &shared(&[]) else { return };
    let calls = [libc::SYS_perf_event_open, libc::SYS_adjtimex, libc::SYS_clock_adjtime];
    let forbid = |arguments: &[&str]| refused(program, &calls, libc::EPERM, arguments);
    let said = each(forbid);
    for command in ["doctor --verbose", "watch --duration 500ms"] {
        let out = &said[command].out;
        // Not root, they ask for it; the words wrap.
        let why = ["not permitted", "adjtimex needs"];
        let why = if rustix::process::geteuid().is_root() { &why[..1] } else { &why[..] };
        let is_reported = why.iter().any(|why| out.contains(why));
        assert!(out.contains("adjtimex") && is_reported, "{out}");
    }
    let keep = ended(&mut forbid(&["keep", "--dry-run", "--force", "--duration", "1s"]));
    assert!(!keep.err.contains("panicked") && keep.code.is_some(), "{}", keep.err);
}

/// Linux 4.18 has no system call of these numbers, which are the same on all processors:
/// pidfd_send_signal (5.1) is 424.
#[test]
fn a_kernel_as_of_4_18_does() {
    let Some(program) = &shared(&[]) else { return };
    let calls: Vec<i64> = (424..500).collect();
    let said = each(|arguments| refused(program, &calls, libc::ENOSYS, arguments));
    assert!(said["doctor --verbose"].has_verdict(), "{}", said["doctor --verbose"].out);
}

#[test]
fn no_terminal_and_no_locale_do() {
    let Some(program) = &shared(&[]) else { return };
    let said = each(|arguments| {
        let mut command = program.command(arguments);
        command.env_clear().env("LC_ALL", "C");
        command
    });
    for (command, said) in said {
        assert!(!said.out.is_empty() && !said.out.contains('\u{1b}'), "{command}: {}", said.out);
    }
}

#[test]
fn forty_columns_do() {
    let Some(program) = &shared(&[Need::Tool("script")]) else { return };
    let tree = project().join("testdata/machines/debian-systemd-chrony");
    let (program, tree) = (program.path().display(), tree.display());
    // Quoted: a path may hold a space.
    let typed = format!("stty cols 40; NO_COLOR=1 '{program}' doctor --verbose --root '{tree}'");
    let said = ended(Command::new("script").args(["-qec", &typed, "/dev/null"]));
    assert_eq!(said.code, Some(0), "{}", said.out);
    // A word is not broken: paths, and what is to be copied.
    let is_broken = |line: &&str| {
        let long = line.split_whitespace().map(|word| word.chars().count()).max();
        let long = long.filter(|long| *long > 16).unwrap_or(0);
        line.trim_end().chars().count() > 40 + long
    };
    let broken: Vec<&str> = said.out.lines().filter(is_broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(said.out.lines().count() > 40, "{}", said.out);
}

/// 256 processors, numbered with a gap as where half the threads are offline.
#[test]
fn many_cpus_do() {
    let Some(program) = &shared(&[]) else { return };
    let tree = tempfile::tempdir().expect("a temporary folder");
    let from = project().join("testdata/machines/kvm-6.1");
    let copied = Command::new("cp").arg("-R").arg(from.join(".")).arg(tree.path()).status();
    assert!(copied.expect("cp starts").success());
    let put = |path: &str, text: &str| {
        fs::write(tree.path().join(path), text).unwrap_or_else(|error| panic!("{path}: {error}"));
    };
    let cpuinfo = fs::read_to_string(from.join("proc/cpuinfo")).expect("a captured machine");
    let one = cpuinfo.lines().skip(1).take_while(|line| !line.starts_with("processor"));
    let one = one.collect::<Vec<_>>().join("\n");
    let each =
        |line: &dyn Fn(u32) -> String| (0..128).chain(256..384).map(line).collect::<String>();
    put("proc/cpuinfo", &each(&|cpu| format!("processor\t: {cpu}\n{one}\n")));
    let stat = each(&|cpu| format!("cpu{cpu} 1 0 1 9 0 0 0 0 0 0\n"));
    put("proc/stat", &format!("cpu  256 0 256 2304 0 0 0 0 0 0\n{stat}"));
    put("sys/devices/system/cpu/online", "0-127,256-383\n");
    // It has the size of each file as it was captured.
    fs::remove_file(tree.path().join("parachron/manifest.json")).expect("the capture's list");
    let root = tree.path().to_str().expect("UTF-8");
    let said = program.run(&["doctor", "--verbose", "--root", root]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.contains("256 CPUs"), "{}", said.out);
}
