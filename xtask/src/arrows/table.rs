//! The rooms and what each uses. A room's floor follows: one above the highest that it uses.

/// One crate.
pub(super) struct Row {
    /// Its folder below `crates/` or `validation/`.
    pub(super) folder: &'static str,
    /// The crates of this workspace that it uses.
    pub(super) uses: Uses,
    /// No clock, file or system call of its own, and no library with them.
    pub(super) is_pure: bool,
    /// Nothing may use it, tests included.
    pub(super) is_top: bool,
}

pub(super) enum Uses {
    /// These, all of them.
    Only(&'static [&'static str]),
    /// Every crate that is no program: what a person starts shows all there is.
    Any,
}

impl Row {
    /// The name of its package.
    pub(super) fn package(&self) -> String {
        match self.folder {
            "cli" => "parachron".to_owned(),
            "pvclock" | "machines" | "e2e" | "bench" | "fuzz" | "xtask" => self.folder.to_owned(),
            folder => format!("parachron-{}", folder.replace('/', "-")),
        }
    }

    /// One above the highest floor that it uses; the roof for what uses any.
    pub(super) fn floor(&self) -> u8 {
        let row = |folder: &&str| CRATES.iter().find(|row| row.folder == *folder);
        match self.uses {
            Uses::Only(folders) => {
                1 + folders.iter().filter_map(row).map(Self::floor).max().unwrap_or(0)
            }
            Uses::Any => {
                let others = CRATES.iter().filter(|row| matches!(row.uses, Uses::Only(_)));
                1 + others.filter(|row| !row.is_top).map(Self::floor).max().unwrap_or(0)
            }
        }
    }
}

const fn open(folder: &'static str, uses: &'static [&'static str]) -> Row {
    Row { folder, uses: Uses::Only(uses), is_pure: false, is_top: false }
}

const fn pure(folder: &'static str, uses: &'static [&'static str]) -> Row {
    Row { is_pure: true, ..open(folder, uses) }
}

const fn top(folder: &'static str, uses: Uses) -> Row {
    Row { folder, uses, is_pure: false, is_top: true }
}

pub(super) const CRATES: &[Row] = &[
    pure("units", &[]),
    pure("kernel-clock", &[]),
    pure("fleet", &[]),
    // Of the tests alone: it reads the environment.
    open("test-size", &[]),
    pure("pvclock", &["units"]),
    pure("wire", &["units"]),
    top("pvclock/c", Uses::Only(&["pvclock"])),
    pure("instruments", &["pvclock", "units"]),
    pure("facts", &["pvclock", "units"]),
    pure("host", &["pvclock", "units"]),
    pure("guest", &["pvclock", "units"]),
    open("linux", &["pvclock", "units"]),
    open("clock", &["linux", "pvclock", "wire"]),
    open("sources", &["facts", "linux", "pvclock", "units", "wire"]),
    open("tell", &["linux", "units", "wire"]),
    open("kvm", &["host", "pvclock", "units"]),
    open("records", &["instruments", "units"]),
    pure("disruptions", &["facts", "instruments", "pvclock", "units"]),
    pure("doctor", &["facts", "instruments", "kernel-clock"]),
    Row { is_pure: true, ..top("doctor/web", Uses::Only(&["doctor", "facts"])) },
    top("clock/c", Uses::Only(&["clock"])),
    pure("keeper", &["disruptions", "facts", "instruments", "pvclock", "units"]),
    open("inspect", &["facts", "instruments", "linux", "pvclock", "sources", "units", "wire"]),
    open("vmm", &["guest", "host", "kvm", "linux", "pvclock", "units"]),
    open(
        "lab",
        &["facts", "guest", "host", "instruments", "kvm", "linux", "pvclock", "units", "vmm"],
    ),
    open("exporter", &["doctor", "facts", "fleet", "inspect", "linux", "sources", "units", "wire"]),
    pure(
        "simulator",
        &["disruptions", "facts", "host", "keeper", "kernel-clock", "pvclock", "units"],
    ),
    Row { is_pure: true, ..top("simulator/web", Uses::Only(&["simulator"])) },
    open(
        "daemon",
        &[
            "disruptions",
            "exporter",
            "facts",
            "fleet",
            "host",
            "inspect",
            "instruments",
            "keeper",
            "linux",
            "pvclock",
            "records",
            "sources",
            "units",
        ],
    ),
    top("cli", Uses::Any),
    open("stamp", &[]),
    top("e2e", Uses::Any),
    top("bench", Uses::Any),
    top("fuzz", Uses::Any),
    top("machines", Uses::Only(&["clock", "kernel-clock", "linux", "pvclock", "stamp", "units"])),
    top("xtask", Uses::Only(&["stamp"])),
];
