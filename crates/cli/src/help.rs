//! The end of each command's help and manual page: exit codes, and examples to copy.

use clap::Command;

/// The end of a command's help.
#[derive(Debug, Clone, Copy)]
pub struct HelpEnd {
    /// The words of the command after `parachron`, joined as in the manual page's name.
    name: &'static str,
    /// Exit codes, and when each is returned.
    pub exits: &'static [(u8, &'static str)],
    /// Commands, and what each is for.
    pub examples: &'static [(&'static str, &'static str)],
}

const DONE: (u8, &str) = (0, "done");
const FAILED: (u8, &str) = (2, "usage error, or the command failed; standard error has the reason");
const PLAIN: &[(u8, &str)] = &[DONE, FAILED];

/// All commands. A command of `lab` that is missing here ends as `lab` does.
const ENDS: &[HelpEnd] = &[
    HelpEnd {
        name: "",
        exits: PLAIN,
        examples: &[
            ("parachron doctor", "what is wrong with this machine's clocks, and what to do"),
            ("parachron drift --ntp ntp.example", "how far the clock is off"),
            ("parachron keep --dry-run --ntp ntp.example", "what the daemon would correct"),
        ],
    },
    HelpEnd {
        name: "doctor",
        exits: &[
            (0, "examined; findings are no failure without --fail-on"),
            (1, "a finding of --fail-on's severity or worse; with --quiet a warning"),
            (2, "usage error, or nothing could be examined; with --quiet an error of the clock"),
            (3, "with --quiet: no warning or error, but the time is not known to be right"),
        ],
        examples: &[
            ("parachron doctor --quiet --ntp ntp.example", "a line for motd, a check for Nagios"),
            ("sudo parachron doctor", "all rules: some need root"),
            ("parachron doctor --fail-on warning", "fail a script on a warning or an error"),
            ("parachron doctor --root captured", "a machine that `parachron capture` saved"),
            ("parachron doctor --log kern.log", "a log alone; `-` reads standard input"),
        ],
    },
    HelpEnd {
        name: "bench",
        exits: &[(0, "measured"), (2, "usage error, or nothing could be measured")],
        examples: &[
            ("parachron bench", "what reading each clock costs"),
            ("parachron bench --only monotonic --format json", "one clock, for a program"),
            ("sudo parachron bench --each-source", "under each clock source in turn"),
        ],
    },
    HelpEnd {
        name: "drift",
        exits: &[
            (0, "measured, and within --max-ppm and --max-offset"),
            (1, "a clock is outside a limit"),
            (2, "usage error, or nothing could be compared"),
        ],
        examples: &[
            ("parachron drift --ntp ntp.example", "against a server, for 60 s"),
            ("sudo parachron drift --phc auto", "against the host's clock"),
            ("parachron drift --ntp ntp.example --max-offset 100ms", "a check for a script"),
        ],
    },
    HelpEnd {
        name: "watch",
        exits: &[
            (0, "ended by --duration or Ctrl-C"),
            (1, "a disruption of a kind in --fail-on"),
            FAILED,
        ],
        examples: &[
            ("parachron watch", "until Ctrl-C"),
            ("parachron watch --duration 1h --fail-on pause", "fail a test that was paused"),
        ],
    },
    HelpEnd {
        name: "keep",
        exits: daemon::program::EXIT_CODES,
        examples: &[
            ("parachron keep --dry-run --ntp ntp.example", "report corrections, make none"),
            ("sudo parachron keep --ntp a.example --ntp b.example", "correct the clock"),
        ],
    },
    HelpEnd {
        name: "status",
        exits: &[
            (0, "the daemon replied; with --wait, the clock is right within the bound"),
            (1, "a signal ended --wait"),
            (2, "usage error, no daemon replied, or --timeout passed"),
        ],
        examples: &[
            ("parachron status", "the clock, and each source"),
            ("parachron status --wait 100ms --timeout 60s", "before a service starts"),
        ],
    },
    HelpEnd {
        name: "gate",
        exits: PLAIN,
        examples: &[("parachron gate freeze", "before a snapshot")],
    },
    HelpEnd {
        name: "gate-freeze",
        exits: &[(0, "the groups are frozen"), FAILED],
        examples: &[("sudo parachron gate freeze", "before a snapshot")],
    },
    HelpEnd {
        name: "gate-thaw",
        exits: &[(0, "the groups run"), FAILED],
        examples: &[
            ("sudo parachron gate thaw", "wait until the clock is right, then thaw"),
            ("sudo parachron gate thaw --force", "after the daemon was killed"),
        ],
    },
    HelpEnd {
        name: "gate-exec",
        exits: &[(2, "the command was not started; otherwise the command's own exit code")],
        examples: &[("sudo parachron gate exec -- postgres -D data", "freeze this command")],
    },
    HelpEnd {
        name: "tell",
        exits: &[(0, "each guest received the time"), (2, "usage error, or a guest did not")],
        examples: &[
            ("parachron tell vsock:3:123 --reason restored", "once, after a restore"),
            ("parachron tell --watch vsock:3:123", "until Ctrl-C"),
        ],
    },
    HelpEnd {
        name: "export",
        exits: PLAIN,
        examples: &[
            ("parachron export", "the metrics once"),
            ("parachron export --listen 127.0.0.1:9975", "serve them to Prometheus"),
            ("parachron export --textfile clock.prom", "for node_exporter's textfile collector"),
        ],
    },
    HelpEnd {
        name: "lab",
        exits: &[
            (0, "each experiment ran, and no check failed"),
            (1, "a check failed"),
            (2, "usage error, or an experiment could not run or measured nothing"),
        ],
        examples: &[
            ("parachron lab", "all experiments"),
            ("parachron lab drift --provider kvm", "one experiment with one clock provider"),
            ("parachron lab --format json --output lab.json", "for a program"),
        ],
    },
    HelpEnd {
        name: "latency",
        exits: &[(0, "measured"), FAILED],
        examples: &[
            ("parachron latency --format json", "keep it for a later --compare"),
            ("parachron latency --compare before.json", "compare with an earlier run"),
        ],
    },
    HelpEnd {
        name: "capture",
        exits: PLAIN,
        examples: &[
            ("parachron capture --dry-run", "what would be saved"),
            ("sudo parachron capture captured", "save it, with what needs root"),
        ],
    },
    HelpEnd {
        name: "completions",
        exits: PLAIN,
        examples: &[("parachron completions bash", "print bash's script; source it")],
    },
    HelpEnd {
        name: "schema",
        exits: PLAIN,
        examples: &[("parachron schema doctor", "what `doctor --format json` prints")],
    },
];

/// The end of a command's help, by the name of its manual page.
pub fn end(page: &str) -> Option<&'static HelpEnd> {
    let name = page.strip_prefix("parachron").unwrap_or(page).trim_start_matches('-');
    let is_named = |wanted: &str| ENDS.iter().find(|end| end.name == wanted);
    is_named(name).or_else(|| is_named(name.split_once('-')?.0))
}

/// The commands, each with its end.
pub(crate) fn complete(command: Command, page: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let name = format!("{page}-{}", inner.get_name());
        complete(inner, &name)
    });
    let Some(end) = end(page).filter(|_| !command.is_hide_set()) else { return command };
    let mut text = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    text += "Exit codes:\n";
    for (code, when) in end.exits {
        text += &format!("  {code}  {when}\n");
    }
    text += "\nExamples:\n";
    for (example, purpose) in end.examples {
        text += &format!("  {example}\n      {purpose}\n");
    }
    command.after_long_help(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::CommandLine;

    #[test]
    fn every_example_is_accepted_by_its_command() {
        for end in ENDS {
            for (example, _) in end.examples {
                let words = example.split(' ').skip_while(|word| *word == "sudo");
                let words: Vec<_> = words.collect();
                let name = words[1..].join("-");
                assert!(name.starts_with(end.name), "{example}: not of {}", end.name);
                let parsed = CommandLine::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_command_has_its_end() {
        for command in complete(CommandLine::command(), "parachron").get_subcommands() {
            let has = command.get_after_long_help().is_some_and(|help| {
                let help = help.to_string();
                help.contains("Exit codes:\n  0  ") && help.contains("\nExamples:\n  ")
            });
            assert!(has || command.is_hide_set(), "{}", command.get_name());
        }
    }
}
