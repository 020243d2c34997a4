//! What the program `parachrond` takes: for its own help and for its manual
//! page, which the example `man` of `parachron` writes.

/// What it is, in a line.
pub const ABOUT: &str = "Keep the time of day correct across pauses, restores and suspends";

/// What its manual page says more.
pub const DESCRIPTION: &str = "The daemon of Parachron. `parachron keep` runs the same daemon in the \
foreground, and `parachron status` shows its status. On SIGHUP it reloads its configuration: a \
file with mistakes is logged and changes nothing. SIGTERM ends it. It logs to the journal if its \
standard error is connected to it, otherwise to standard error.";

/// An option, `--NAME`.
#[derive(Debug, Clone, Copy)]
pub struct ProgramOption {
    /// Its name.
    pub name: &'static str,
    /// What its value is called, where it has one.
    pub value: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
}

/// All of them.
pub const OPTIONS: &[ProgramOption] = &[
    ProgramOption {
        name: "config",
        value: Some("FILE"),
        help: "Read this file instead of /etc/parachron/parachrond.toml",
    },
    ProgramOption {
        name: "check",
        value: None,
        help: "Check the file, print each mistake with its place, and exit",
    },
    ProgramOption {
        name: "dry-run",
        value: None,
        help: "Report corrections and make none; needs no permission",
    },
    ProgramOption {
        name: "prepare-gate",
        value: None,
        help: "Let the daemon's group freeze what `gate` lists, and exit",
    },
    ProgramOption {
        name: "thaw",
        value: None,
        help: "Thaw what a killed daemon left frozen, and exit",
    },
    ProgramOption { name: "help", value: None, help: "Print this help" },
    ProgramOption { name: "version", value: None, help: "Print the version" },
];

/// An exit code, and when it ends so.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "it was ended by a signal, or parachrond --check found no mistakes"),
    (FAILED, "it failed: the system lacks what it needs, such as a writable /run"),
    (USAGE, "usage error: a wrong option, or a mistake in the configuration"),
    (REFUSED, "refused: no permission, or another parachrond or keep is running"),
    (NO_SOURCE, "no source was found or configured, or none replied"),
];

/// The system lacks what it needs, which may pass: a service manager may try again.
pub const FAILED: u8 = 1;
/// A wrong option, or a mistake in the configuration.
pub const USAGE: u8 = 2;
/// No permission, or another keeper runs.
pub const REFUSED: u8 = 3;
/// No source was found, or none replied.
pub const NO_SOURCE: u8 = 4;
