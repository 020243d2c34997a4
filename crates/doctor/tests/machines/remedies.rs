//! A remedy fits its machine and works: each command of each tree is interpreted on a copy of the
//! tree. It has to fit what is there; a tree with all steps of a remedy applied loses the finding,
//! and one with the first step alone keeps it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use doctor::finding::{Finding, Remedy};
use serde_json::Value;

use crate::trees::{copy_of, diagnosis, diagnosis_of, names};

/// What a command does.
enum Deed {
    /// Nothing that doctor sees: it reads, or runs on the host.
    Unseen,
    /// The tree was changed.
    Done,
}

/// Commands that read alone, and those of the host.
const READ: [&str; 12] = [
    "curl",
    "chronyc tracking",
    "chronyc sources",
    "timedatectl",
    "journalctl",
    "cat",
    "grep",
    "date",
    "parachron bench",
    "parachron latency",
    "parachron capture",
    "vmware-toolbox-cmd",
];
const ON_HOST: [&str; 1] = ["VBoxManage"];

/// Daemons by their units.
const UNITS: [(&str, &str); 8] = [
    ("chrony", "chrony"),
    ("chronyd", "chrony"),
    ("systemd-timesyncd", "systemd-timesyncd"),
    ("ntp", "ntpd"),
    ("ntpd", "ntpd"),
    ("ntpsec", "ntpd"),
    ("ntpd-rs", "ntpd-rs"),
    ("parachrond", "parachron-keep"),
];

struct Copy<'t>(&'t Path);

impl Copy<'_> {
    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file.trim_start_matches('/'))).ok()
    }

    /// Writes a file, whose length the manifest then does not state.
    fn put(&self, file: &str, text: &str) {
        let file = file.trim_start_matches('/');
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a copy");
        if let Some(manifest) = self.text("parachron/manifest.json") {
            let mut manifest: Value = serde_json::from_str(&manifest).expect("a manifest");
            for name in [file.to_owned(), format!("/{file}")] {
                manifest["taken"].as_object_mut().and_then(|taken| taken.remove(&name));
                manifest["not_taken"].as_object_mut().and_then(|taken| taken.remove(&name));
            }
            fs::write(self.0.join("parachron/manifest.json"), manifest.to_string())
                .expect("a copy");
        }
    }

    fn set(&self, file: &str, field: &str, value: &str) {
        let Some(text) = self.text(file) else { return };
        let line = |line: &str| match line.split_once(' ') {
            Some((name, _)) if name == field => format!("{name} {value}\n"),
            _ => format!("{line}\n"),
        };
        self.put(file, &text.lines().map(line).collect::<String>());
    }

    fn is(&self, distributions: &[&str]) -> bool {
        let release = self.text("etc/os-release").unwrap_or_default();
        distributions.iter().any(|name| release.contains(name))
    }

    /// The words of a daemon's line: `installed running unit=…`.
    fn keeper(&self, kind: &str) -> Option<Vec<String>> {
        let text = self.text("parachron/time-keepers")?;
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        Some(line.split(' ').skip(1).map(str::to_owned).collect())
    }

    fn put_keeper(&self, kind: &str, words: Option<&str>) {
        let text = self.text("parachron/time-keepers").unwrap_or_default();
        let others = text.lines().filter(|line| line.split(' ').next() != Some(kind));
        let mut text: String = others.map(|line| format!("{line}\n")).collect();
        text.extend(words.map(|words| format!("{kind} {words}\n")));
        self.put("parachron/time-keepers", &text);
    }

    /// The clock as a daemon that has a source leaves it.
    fn corrected(&self) {
        self.put("parachron/rtc-minus-system", "0\n");
        self.set("parachron/adjtimex", "offset", "0");
        if let Some(tracking) = self.text("parachron/chrony-tracking") {
            let mut fields: Vec<&str> = tracking.trim().split(',').collect();
            fields[4] = "0.000000000";
            self.put("parachron/chrony-tracking", &(fields.join(",") + "\n"));
        }
    }

    fn disciplined(&self) {
        self.corrected();
        let state = self.text("parachron/adjtimex").unwrap_or_default();
        let status = state.lines().find_map(|line| line.strip_prefix("status ")?.parse().ok());
        self.set("parachron/adjtimex", "status", &(status.unwrap_or(0_u32) & !0x40).to_string());
        self.set("parachron/adjtimex", "maxerror", "1000");
        self.set("parachron/adjtimex", "state", "0");
    }

    fn install_chrony(&self, config: &str) {
        self.put_keeper("chrony", Some("installed running"));
        self.put(config, "pool 2.debian.pool.ntp.org iburst\nmakestep 1 3\n");
        let line = "0A000001,withheld,3,0.0,0.0,0.0,0.0,0.0,0.0,0.1,0.001,0.001,64.0,Normal\n";
        self.put("parachron/chrony-tracking", line);
        self.disciplined();
    }

    /// A service starts or ends.
    fn service(&self, verb: &str, unit: &str) -> Result<Deed, String> {
        let unit = unit.trim_end_matches(".service");
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, kind) = known.ok_or(format!("unknown unit {unit}"))?;
        let Some(words) = self.keeper(kind) else { return Err(format!("{kind} is not here")) };
        let of = words.iter().find_map(|word| word.strip_prefix("unit="));
        // Debian's chrony.service has the alias chronyd.service.
        if of.is_some_and(|of| of.trim_end_matches(".service") != unit) {
            return Err(format!("{kind} is of {of:?}, not {unit}"));
        }
        let conditions = self.text("parachron/unit-conditions").unwrap_or_default();
        if verb == "start" && conditions.starts_with(&format!("{unit}.service ")) {
            // systemd skips it.
            return Ok(Deed::Done);
        }
        match verb {
            "start" => {
                self.put_keeper(kind, Some("installed running"));
                self.disciplined();
            }
            "stop" => self.put_keeper(kind, Some("installed")),
            // Restarted, chronyd follows what its configuration names first.
            _ if *kind == "chrony" && words.contains(&"running".to_owned()) => {
                let config = self.text(&self.config()?).unwrap_or_default();
                if config.contains("refclock PHC") {
                    let line =
                        "50484330,PHC0,1,0.0,0.0,0.0,0.0,0.0,0.0,0.1,0.0001,0.0001,8.0,Normal\n";
                    self.put("parachron/chrony-tracking", line);
                    self.disciplined();
                }
                if config.contains("makestep 1 -1") {
                    self.corrected();
                }
                if config.contains("leapsecmode slew") {
                    self.set("parachron/adjtimex", "status", "8192");
                }
                if config.contains("leapsectz") || config.contains("leapseclist") {
                    self.set("parachron/adjtimex", "tai", "37");
                }
            }
            _ if *kind == "ntpd" => self.set("parachron/adjtimex", "tai", "37"),
            _ => {}
        }
        Ok(Deed::Done)
    }

    /// chronyd's configuration, as far as the tree has it.
    fn config(&self) -> Result<String, String> {
        ["parachron/chrony-config", "etc/chrony/chrony.conf", "etc/chrony.conf"]
            .into_iter()
            .find(|file| self.0.join(file).exists())
            .map(str::to_owned)
            .ok_or("no chrony.conf".to_owned())
    }

    /// The file that a command names, as the tree has it.
    fn named(&self, file: &str) -> Result<String, String> {
        let package = [("/etc/ntp.conf", "ntpd"), ("/etc/ntpsec/ntp.conf", "ntpd")];
        if let Some((_, kind)) = package.iter().find(|(name, _)| *name == file) {
            return self.keeper(kind).map(|_| file.to_owned()).ok_or(format!("{kind} is not here"));
        }
        if self.0.join(file.trim_start_matches('/')).exists() {
            return Ok(file.to_owned());
        }
        if file.contains("chrony") && self.text("parachron/chrony-config").is_some() {
            return Ok("parachron/chrony-config".to_owned());
        }
        // Created, where the tree has chronyd and none of its files.
        if file.contains("chrony") && self.config().is_err() && self.keeper("chrony").is_some() {
            return Ok(file.to_owned());
        }
        Err(format!("{file} is not here"))
    }

    fn tee(&self, text: &str, appends: bool, file: &str) -> Result<Deed, String> {
        if file.ends_with("current_clocksource") {
            let offered = self.text(&file.replace("current", "available")).unwrap_or_default();
            if !offered.split_whitespace().any(|source| source == text) {
                return Err(format!("{text} is not offered: {offered}"));
            }
        }
        let name = self.named(file)?;
        let before = if appends { self.text(&name).unwrap_or_default() } else { String::new() };
        self.put(&name, &format!("{before}{text}\n"));
        Ok(Deed::Done)
    }

    /// The two forms of sed that remedies use.
    fn sed(&self, script: &str, file: &str) -> Result<Deed, String> {
        let name = self.named(file)?;
        let text = self.text(&name).unwrap_or_default();
        let edited = if let Some(from_to) = script.strip_prefix("s:") {
            let (from, to) = from_to.trim_end_matches(':').split_once(':').ok_or("no sed")?;
            text.replace(from, to)
        } else if script.starts_with("3s") {
            text.replace("LOCAL", "UTC")
        } else if script.ends_with("/Id") {
            let is_table = |line: &&str| line.to_ascii_lowercase().trim().starts_with("leapsec");
            text.lines().filter(|line| !is_table(line)).map(|line| format!("{line}\n")).collect()
        } else {
            return Err(format!("unknown script {script}"));
        };
        let is_changed = edited != text;
        self.put(&name, &edited);
        if is_changed { Ok(Deed::Done) } else { Err(format!("{script} changes nothing")) }
    }

    /// One command of a line.
    fn run(&self, command: &str) -> Result<Deed, String> {
        let command = command.trim().trim_start_matches("sudo ");
        let words = shlex::split(command).ok_or("quotes that do not close")?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if READ.iter().any(|read| command.starts_with(read)) {
            let is_alone =
                command.starts_with("chronyc sources") && self.keeper("chrony").is_none();
            return if is_alone { Err("chronyd is not here".to_owned()) } else { Ok(Deed::Unseen) };
        }
        match words.as_slice() {
            [first, ..] if ON_HOST.contains(first) => Ok(Deed::Unseen),
            ["echo", text, "|", "sudo", "tee", "-a", file] => self.tee(text, true, file),
            ["echo", text, "|", "sudo", "tee", file] => self.tee(text, false, file),
            ["sed", "-i", script, file] => self.sed(script, file),
            ["systemctl", ..] if self.is(&["Alpine"]) => Err("no systemd here".to_owned()),
            ["rc-service", unit, verb] if self.is(&["Alpine"]) => self.service(verb, unit),
            ["systemctl", "enable", "--now", unit] => self.service("start", unit),
            ["systemctl", "disable", "--now", unit] | ["systemctl", "stop", unit] => {
                self.service("stop", unit)
            }
            ["systemctl", "restart", unit] => self.service("restart", unit),
            ["systemctl", "edit" | "unmask", unit] => {
                let conditions = self.text("parachron/unit-conditions").unwrap_or_default();
                let name = format!("{unit}.service ");
                let rest = conditions.lines().filter(|line| !line.starts_with(&name));
                self.put(
                    "parachron/unit-conditions",
                    &rest.map(|l| format!("{l}\n")).collect::<String>(),
                );
                Ok(Deed::Done)
            }
            ["apt", "install", "chrony"] if self.is(&["Debian", "Ubuntu"]) => {
                self.install_chrony("etc/chrony/chrony.conf");
                Ok(Deed::Done)
            }
            ["chronyc", "makestep"] => {
                self.keeper("chrony").ok_or("chronyd is not here")?;
                self.corrected();
                Ok(Deed::Done)
            }
            ["hwclock", "--hctosys"] => {
                self.corrected();
                Ok(Deed::Done)
            }
            ["hwclock", "--systohc", ..] | ["timedatectl", "set-local-rtc", "0"] => {
                self.text("parachron/chrony-tracking").ok_or("no second witness")?;
                self.put("parachron/rtc-minus-system", "0\n");
                Ok(Deed::Done)
            }
            ["parachron", "keep", ..] => {
                self.put_keeper("parachron-keep", Some("running"));
                self.disciplined();
                Ok(Deed::Done)
            }
            ["grubby", _, added]
                if self.is(&["Red Hat", "Fedora", "Amazon", "CentOS", "Rocky"]) =>
            {
                let word = added.split_once('=').map(|(_, word)| word).unwrap_or_default();
                let line = self.text("proc/cmdline").unwrap_or_default();
                self.put("proc/cmdline", &format!("{} {word}\n", line.trim_end()));
                if let Some(source) = word.strip_prefix("clocksource=") {
                    const CURRENT: &str =
                        "sys/devices/system/clocksource/clocksource0/current_clocksource";
                    self.put(CURRENT, &format!("{source}\n"));
                }
                Ok(Deed::Done)
            }
            ["mount", "-t", "sysfs", ..] | ["modprobe", "ptp_kvm"] => Ok(Deed::Unseen),
            _ => Err(format!("unknown command {command}")),
        }
    }
}

/// Applies steps; none where a person or the host has to act.
fn apply(tree: &str, steps: &[Remedy]) -> Result<Option<doctor::finding::Diagnosis>, String> {
    let copy = copy_of(tree);
    let mut is_seen = true;
    for step in steps {
        let Some(command) = &step.command else {
            if step.what.starts_with("Install chrony") {
                Copy(copy.path()).install_chrony("etc/chrony.conf");
            } else {
                is_seen = false;
            }
            continue;
        };
        // A setting of another program's, and a pipe that only shows.
        if command.contains("node_timex") || command.starts_with("grep -l 9527e630") {
            return Ok(None);
        }
        for one in command.split(" && ") {
            is_seen &= matches!(Copy(copy.path()).run(one)?, Deed::Done);
        }
    }
    Ok(is_seen.then(|| diagnosis_of(copy.path())))
}

/// What the log of this boot shows stays until the next one.
const OF_THIS_BOOT: [&str; 1] = ["clock-before-build"];

/// Whether the finding, or one that states the same in other words, is still there.
fn is_there(all: &doctor::finding::Diagnosis, finding: &Finding) -> bool {
    all.findings.iter().any(|one| one.rule == finding.rule && one.severity >= finding.severity)
}

#[test]
fn each_remedy_fits_its_machine_and_works() {
    let (mut wrong, mut count) = (String::new(), BTreeMap::<&str, u32>::new());
    for tree in names() {
        for finding in diagnosis(&tree).findings {
            for chain in finding.remedies.chunk_by(|_, next| next.follows) {
                let shown: Vec<_> = chain.iter().map(|step| step.what.as_str()).collect();
                let mut fail = |why: &str| {
                    wrong +=
                        &format!("{tree}: {}: {why}: {}\n", finding.rule, shown.join(" THEN "));
                };
                match apply(&tree, chain) {
                    Err(why) => fail(&why),
                    Ok(None) => *count.entry("not seen").or_default() += 1,
                    Ok(Some(_)) if OF_THIS_BOOT.contains(&finding.rule.as_str()) => {}
                    Ok(Some(after)) if is_there(&after, &finding) => fail("leaves the finding"),
                    Ok(Some(_)) => *count.entry("work").or_default() += 1,
                }
                let (first, is_several) =
                    (chain.iter().position(|step| step.command.is_some()), chain.len() > 1);
                let Some(first) = first.filter(|_| is_several) else { continue };
                let after = apply(&tree, &chain[first..=first]).ok().flatten();
                if after.is_some_and(|after| !is_there(&after, &finding)) {
                    fail("its first command alone silences it");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{count:?}\n{wrong}");
    assert!(count["work"] >= 40, "{count:?}");
}
