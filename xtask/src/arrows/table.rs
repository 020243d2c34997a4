//! The floors. Rows of crates that do not exist yet are allowed.

/// One crate.
pub(super) struct Row {
    /// Its folder below `crates/`, or the folder of a tool.
    pub(super) folder: &'static str,
    /// It uses lower floors only.
    pub(super) floor: u8,
    /// The crates of this workspace that it may use.
    pub(super) uses: Uses,
    /// No clock, file or system call of its own, and no library with them.
    pub(super) is_pure: bool,
    /// Nothing may use it, tests included.
    pub(super) is_top: bool,
}

pub(super) enum Uses {
    Only(&'static [&'static str]),
    /// Every crate on a lower floor except these.
    AllBelowBut(&'static [&'static str]),
}

impl Row {
    /// The name of its package.
    pub(super) fn package(&self) -> String {
        match self.folder {
            "cli" => "parachron".to_owned(),
            "alarms" | "pvclock" | "zoo" | "e2e" | "bench" | "fuzz" | "xtask" => {
                self.folder.to_owned()
            }
            folder => format!("parachron-{folder}"),
        }
    }
}

const fn open(floor: u8, folder: &'static str, uses: &'static [&'static str]) -> Row {
    Row { folder, floor, uses: Uses::Only(uses), is_pure: false, is_top: false }
}

const fn pure(floor: u8, folder: &'static str, uses: &'static [&'static str]) -> Row {
    Row { is_pure: true, ..open(floor, folder, uses) }
}

const fn top(floor: u8, folder: &'static str, uses: Uses) -> Row {
    Row { folder, floor, uses, is_pure: false, is_top: true }
}

const fn below_but(floor: u8, folder: &'static str, but: &'static [&'static str]) -> Row {
    Row { folder, floor, uses: Uses::AllBelowBut(but), is_pure: false, is_top: false }
}

/// The highest floor.
const ROOF: u8 = 8;

pub(super) const CRATES: &[Row] = &[
    pure(1, "units", &[]),
    pure(1, "chronyd", &[]),
    // Of the tests alone: it reads the environment.
    open(1, "test-size", &[]),
    pure(2, "hosttime", &["units"]),
    pure(2, "pvclock", &["units"]),
    top(3, "pvclock-c", Uses::Only(&["units", "pvclock"])),
    pure(3, "instruments", &["units", "pvclock"]),
    pure(3, "facts", &["units", "pvclock"]),
    pure(3, "timekeeper", &[]),
    pure(3, "host", &["units", "pvclock"]),
    pure(3, "guest", &["units", "pvclock"]),
    open(3, "linux", &["units", "pvclock"]),
    open(4, "clock", &["units", "pvclock", "linux", "chronyd"]),
    open(4, "sources", &["units", "hosttime", "pvclock", "facts", "linux", "chronyd"]),
    open(4, "tell", &["units", "hosttime", "linux"]),
    open(4, "kvm", &["units", "pvclock", "host", "linux"]),
    open(4, "records", &["units", "instruments"]),
    pure(4, "disruptions", &["units", "facts", "instruments", "pvclock"]),
    pure(4, "doctor", &["units", "facts", "instruments", "pvclock", "timekeeper"]),
    pure(1, "fleet", &[]),
    top(5, "clock-c", Uses::Only(&["units", "clock"])),
    pure(5, "keeper", &["units", "disruptions", "instruments", "facts", "pvclock"]),
    open(
        5,
        "inspect",
        &["units", "pvclock", "facts", "linux", "sources", "instruments", "chronyd"],
    ),
    open(5, "vmm", &["units", "pvclock", "linux", "host", "kvm", "guest"]),
    below_but(6, "lab", &["doctor", "keeper"]),
    open(6, "exporter", &["units", "facts", "doctor", "inspect", "linux", "sources", "fleet"]),
    pure(
        6,
        "simulator",
        &["units", "pvclock", "facts", "timekeeper", "host", "disruptions", "keeper"],
    ),
    Row { is_pure: true, ..top(ROOF, "simulator-web", Uses::Only(&["simulator"])) },
    below_but(7, "daemon", &["vmm", "kvm", "tell", "guest", "clock", "lab", "simulator", "doctor"]),
    top(ROOF, "cli", Uses::AllBelowBut(&[])),
    top(ROOF, "e2e", Uses::AllBelowBut(&[])),
    top(ROOF, "bench", Uses::AllBelowBut(&[])),
    top(ROOF, "fuzz", Uses::AllBelowBut(&[])),
    top(
        ROOF,
        "alarms",
        Uses::Only(&["disruptions", "facts", "keeper", "fleet", "simulator", "daemon"]),
    ),
    top(ROOF, "zoo", Uses::Only(&["clock", "pvclock", "timekeeper"])),
    top(ROOF, "xtask", Uses::Only(&[])),
];
