use clap::{Arg, Command as Clap, CommandFactory};

use super::*;

/// A value that an option takes: one of its possible ones, its default, or one for its name.
fn value(arg: &Arg) -> String {
    let possible = arg.get_possible_values().first().map(|value| value.get_name().to_owned());
    let default = arg.get_default_values().first().and_then(|value| value.to_str());
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name);
    let by_name = match name {
        "TIME" | "BOUND" => "10s",
        "HOST[:PORT]" | "PEER" => "ntp.example",
        "ADDRESS:PORT" => "127.0.0.1:9975",
        "DEVICE[,utc|,tai]" => "/dev/ptp0",
        "NETWORKS" => "10.0.0.0/8",
        "FIGURE" => "gap",
        "FILE" | "DIR" | "FILE|DIR/" => "run.csv",
        _ => "300",
    };
    possible.or(default.map(str::to_owned)).unwrap_or_else(|| by_name.to_owned())
}

/// What the command line comes to: its commands and options, or the error.
fn parsed(words: &[String]) -> String {
    let command_line = CommandLine::try_parse_from(words);
    command_line.map_or_else(|error| error.to_string(), |parsed| format!("{:?}", parsed.command))
}

/// Compares both forms of each option of a command and of those below it; how many there are.
fn compare(command: &Clap, path: &[String]) -> usize {
    let mut options = 0;
    for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
        let Some(long) = arg.get_long() else { continue };
        let value = value(arg);
        let [spaced, joined] =
            [vec![format!("--{long}"), value.clone()], vec![format!("--{long}={value}")]]
                .map(|option| parsed(&[path, &option].concat()));
        assert_eq!(spaced, joined, "{path:?} --{long} {value}");
        options += 1;
    }
    for below in command.get_subcommands() {
        options += compare(below, &[path, &[below.get_name().to_owned()]].concat());
    }
    options
}

#[test]
fn a_value_may_follow_a_space_as_well_as_an_equals_sign() {
    let options = compare(&CommandLine::command(), &["parachron".to_owned()]);
    // The commands of the lab are of x86-64 alone.
    let more_than = if cfg!(target_arch = "x86_64") { 90 } else { 70 };
    assert!(options > more_than, "{options}");
    let listen = ["parachron", "export", "--listen", "127.0.0.1:9975"].map(str::to_owned);
    assert!(parsed(&listen).contains("listen: Some(Tcp(127.0.0.1:9975))"), "{}", parsed(&listen));
}
