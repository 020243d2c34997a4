//! What people type, and what the documents have them type.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::need::Need;
use crate::program::{Program, project, shared};

/// The commands that `--help` names.
fn commands(program: &Program) -> Vec<String> {
    let help = program.run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{}", help.out);
    let (_, list) = help.out.split_once("Commands:\n").expect("a list of commands");
    let (list, _) = list.split_once("\n\n").expect("options follow the commands");
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn help_names_every_command() {
    let Some(program) = &shared(&[]) else { return };
    let commands = commands(program);
    for wanted in ["doctor", "bench", "watch", "lab", "capture", "completions"] {
        assert!(commands.iter().any(|name| name == wanted), "{wanted}: {commands:?}");
    }
    for command in commands.iter().filter(|name| *name != "help") {
        let help = program.run(&[command, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{command}");
        assert!(help.out.contains(&format!("Usage: parachron {command}")), "{}", help.out);
    }
}

#[test]
fn a_wrong_word_is_explained() {
    let Some(program) = &shared(&[]) else { return };
    for (arguments, named) in [
        (&["dokter"][..], "dokter"),
        (&["doctor", "--verbos"], "--verbos"),
        (&["completions"], "SHELL"),
    ] {
        let said = program.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(said.err.contains(named), "{}", said.err);
    }
}

#[test]
fn what_was_removed_is_named_with_its_successor() {
    let Some(program) = &shared(&[]) else { return };
    for (arguments, first, remedy) in [
        (&["clocks", "--all"][..], "clocks was removed after 0.1.0", "`parachron bench --list`"),
        (&["bench", "--primes"], "--primes was removed after 0.1.0", "`parachron latency`"),
        (&["drift", "--format", "csv"], "csv was removed after 0.1.0", "`--format json`"),
        (&["lab", "--only", "drift"], "--only was removed after 0.1.0", "`parachron lab offset"),
        (&["doctor", "--only", "dear-exits"], "dear-exits was removed after 0.1.0", "expensive"),
    ] {
        let said = program.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(said.err.starts_with(&format!("parachron: {first}\n  try: ")), "{}", said.err);
        assert!(said.err.contains(remedy), "{}", said.err);
    }
}

/// Every `parachron …` in a code block of a document parses: with `--help` behind its own
/// words it does nothing else.
#[test]
fn documented_commands_parse() {
    let Some(program) = &shared(&[]) else { return };
    let mut documents = Vec::new();
    collect_documents(&project(), &mut documents);
    let mut tried = 0;
    for path in documents {
        let text = fs::read_to_string(&path).expect("a document can be read");
        for line in shell_lines(&text) {
            let Some(mut arguments) = arguments(line) else { continue };
            // Behind `--` stands the command that it would run.
            let end = arguments.iter().position(|word| *word == "--");
            arguments.insert(end.unwrap_or(arguments.len()), "--help");
            let said = program.run(&arguments);
            assert_eq!(said.code, Some(0), "{}: {line}\n{}", path.display(), said.err);
            tried += 1;
        }
    }
    assert!(tried > 0, "no document shows a command");
}

fn collect_documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let ours = path.parent() != Some(&project()) || name == "docs" || name == "README.md";
        if path.is_dir() && ours {
            collect_documents(&path, found);
        } else if ours && path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Lines of the fenced blocks that are a shell's.
fn shell_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut shell = false;
    text.lines().filter(move |line| match line.trim_start().strip_prefix("```") {
        Some(kind) => {
            shell = matches!(kind, "sh" | "console" | "bash");
            false
        }
        None => shell,
    })
}

/// The words after `parachron`, up to where the shell takes over.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let line = line.trim_start_matches(['$', '#', ' ']);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let beginnings = ["parachron ", "./target/release/parachron ", "cargo run --release -- "];
    let rest = beginnings.iter().find_map(|beginning| line.strip_prefix(beginning))?;
    let shell = ["|", ">", "#", "&&", "2>&1", ";"];
    Some(rest.split_whitespace().take_while(|word| !shell.contains(word)).collect())
}

#[test]
fn bash_takes_its_completions() {
    let Some(program) = &shared(&[Need::Tool("bash")]) else { return };
    let script = program.run(&["completions", "bash"]);
    assert_eq!((script.code, script.err.as_str()), (Some(0), ""));
    // A shell that loads the script and completes `parachron do`.
    let query = "COMP_WORDS=(parachron do); COMP_CWORD=1; \
                 _parachron parachron do parachron; echo \"offers ${COMPREPLY[*]}\"\n";
    let mut bash = std::process::Command::new("bash")
        .args(["--norc", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash is there");
    let mut stdin = bash.stdin.take().expect("a pipe");
    stdin.write_all((script.out + query).as_bytes()).expect("bash reads its script");
    drop(stdin);
    let output = bash.wait_with_output().expect("bash ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "offers doctor\n");
}
