//! chronyd's configuration, from its files.

use facts::steering::chrony_config::{self, SOURCES};
use facts::{Fact, Unknown};

use crate::tree::Files;

/// Where distributions have it: Debian and its kin, then the others.
const FILES: [&str; 2] = ["/etc/chrony/chrony.conf", "/etc/chrony.conf"];

/// No configuration is nearly that long.
const LIMIT_BYTES: u64 = 1 << 18;

/// More files than any configuration has.
const MAX_FILES: usize = 64;

/// How deep files name files: chronyd's own limit (conf.c, MAX_INCLUDE_LEVEL).
const MAX_DEPTH: usize = 10;

/// The kept lines of the configuration, with those of the folders that it
/// names by `confdir` and `sourcedir`, and of files by `include`. Unknown where
/// one of them is not readable: it may hold what decides.
pub(crate) fn find(files: &Files) -> Fact<String> {
    read(files).into()
}

fn read(files: &Files) -> Result<String, Unknown> {
    let mut missing = Unknown::not_there(FILES[0]);
    let started_with = named_at_start(files)?;
    let candidates = started_with.as_deref().map_or(FILES.to_vec(), |path| vec![path]);
    for path in candidates {
        let mut whole = WholeConfig { files, text: String::new(), left: MAX_FILES };
        match whole.add(path, 0, chrony_config::FILE) {
            Ok(()) => return Ok(whole.text),
            Err(Unknown::NotThere { what }) if what == path => {}
            Err(why) => missing = why,
        }
    }
    Err(missing)
}

/// The file that chronyd was started with, where that is not the usual one: `chronyd -f FILE`
/// (timemaster(8) does so).
fn named_at_start(files: &Files) -> Result<Option<String>, Unknown> {
    let processes = match files.processes() {
        Fact::Known(processes) => processes,
        Fact::Unknown(why @ Unknown::Malformed { .. }) => return Err(why),
        Fact::Unknown(_) => return Ok(None),
    };
    let Some(process) = processes.get("chronyd").and_then(|ids| ids.first()) else {
        return Ok(None);
    };
    let command = match files.bytes(&format!("/proc/{process}/cmdline"), LIMIT_BYTES) {
        Fact::Known(bytes) => bytes,
        Fact::Unknown(Unknown::NotThere { .. }) => return Ok(None),
        Fact::Unknown(why) => return Err(why),
    };
    let command = String::from_utf8_lossy(&command).into_owned();
    let mut words = command.split('\0').skip_while(|word| !word.starts_with("-f"));
    let file = words.next().map(|word| word.trim_start_matches("-f"));
    Ok(file
        .and_then(|file| if file.is_empty() { words.next() } else { Some(file) })
        .map(str::to_owned))
}

/// A configuration, as its files are read.
struct WholeConfig<'f> {
    files: &'f Files,
    text: String,
    left: usize,
}

impl WholeConfig<'_> {
    fn add(&mut self, path: &str, depth: usize, mark: &str) -> Result<(), Unknown> {
        if depth > MAX_DEPTH || self.left == 0 {
            return Err(Unknown::malformed(
                path,
                &format!("at most {MAX_FILES} files, {MAX_DEPTH} deep"),
                "more",
            ));
        }
        self.left -= 1;
        let bytes = match self.files.bytes(path, LIMIT_BYTES) {
            Fact::Known(bytes)
                if self.files.is_live() || bytes.is_empty() || bytes.ends_with(b"\n") =>
            {
                bytes
            }
            // What is there may be a server's name or a key: it is not quoted.
            Fact::Known(_) => {
                let whole = "a whole file, which ends with a line";
                return Err(Unknown::malformed(path, whole, "a cut line"));
            }
            Fact::Unknown(why) => return Err(why),
        };
        // The name of an included file may be a server's.
        let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
        let shown = if depth > 0 { folder } else { path };
        let head = format!("{mark}{shown}\n");
        self.text.push_str(&head);
        for line in String::from_utf8_lossy(&bytes).lines() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_ascii_lowercase();
            let (mut named, mut inner) = (Vec::new(), mark);
            match name.as_str() {
                // conf.c, load_source_file: no line of a sourcedir but a server's counts.
                name if mark == SOURCES && !["server", "pool", "peer"].contains(&name) => {}
                "confdir" | "sourcedir" => {
                    let (end, its) = [("*.conf", mark), ("*.sources", SOURCES)]
                        [usize::from(name == "sourcedir")];
                    inner = its;
                    for folder in words {
                        named.extend(self.matching(folder, end)?);
                    }
                }
                "include" => named = self.included(words.next().unwrap_or_default())?,
                _ => self.text.push_str(&chrony_config::reduce(line)),
            }
            for path in &named {
                self.add(path, depth + 1, inner)?;
            }
            if !named.is_empty() {
                self.text.push_str(&head);
            }
        }
        Ok(())
    }

    /// The files that an `include` names, by a pattern perhaps (glob(7)).
    fn included(&self, pattern: &str) -> Result<Vec<String>, Unknown> {
        let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        if folder.contains(['*', '?', '[']) || name.contains('[') {
            return Err(Unknown::malformed("include", "* and ? in a file's name alone", pattern));
        }
        if name.contains(['*', '?']) {
            self.matching(folder, name)
        } else {
            Ok(vec![pattern.to_owned()])
        }
    }

    /// A folder's files of such a name, in order; none where there is no folder.
    fn matching(&self, folder: &str, pattern: &str) -> Result<Vec<String>, Unknown> {
        let mut names = match self.files.names(folder) {
            Fact::Known(names) => names,
            Fact::Unknown(Unknown::NotThere { .. }) => Vec::new(),
            Fact::Unknown(why) => return Err(why),
        };
        names.retain(|name| !name.starts_with('.') && matches(pattern.as_bytes(), name.as_bytes()));
        names.sort();
        Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
    }
}

/// Whether a name fits a pattern of `*` and `?`. A name has at most 255 bytes,
/// so that the table of what fits so far is small.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // fits[n]: the pattern up to here fits the first n bytes of the name.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for &one in pattern {
        let mut next = vec![false; name.len() + 1];
        next[0] = one == b'*' && fits[0];
        for (at, &byte) in name.iter().enumerate() {
            next[at + 1] = match one {
                b'*' => fits[at + 1] || next[at],
                b'?' => fits[at],
                _ => fits[at] && byte == one,
            };
        }
        fits = next;
    }
    fits[name.len()]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tree::Tree;

    /// A tree of these files.
    fn read(files: &[(&str, &str)]) -> Fact<chrony_config::ChronyConfig> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::captured(root.path()).unwrap();
        tree.digest("chrony-config", "directives", find)
            .and_then(|text| chrony_config::parse(&text))
    }

    /// openSUSE's package has its settings in /etc/chrony.d.
    #[test]
    fn an_include_may_be_a_pattern_and_have_includes() {
        let main = ("etc/chrony.conf", "rtcsync\ninclude /etc/chrony.d/*.conf\n");
        let config = read(&[
            main,
            ("etc/chrony.d/a.conf", "include /etc/more.conf\n"),
            ("etc/chrony.d/b.conf.off", "server 169.254.169.123\n"),
            ("etc/more.conf", "makestep 1 -1\n"),
        ]);
        let config = config.value().unwrap();
        assert!(
            config.makestep.is_some_and(|step| step.at_any_time()) && config.servers.is_empty()
        );
        assert!(read(&[main]).value().is_some(), "no file fits");
    }

    /// Its last line is not one that chronyd refuses.
    #[test]
    fn a_configuration_that_is_cut_is_unknown() {
        assert!(read(&[("etc/chrony.conf", "rtcsync\nmakeste")]).unknown().is_some());
    }

    /// chronyd starts in spite of a sourcedir's lines (conf.c, `parse_source` without `fatal`).
    #[test]
    fn a_line_is_blamed_on_its_own_file() {
        let config = read(&[
            ("etc/chrony.conf", "confdir /etc/c\nsourcedir /etc/s\nserver a prefers\n"),
            ("etc/c/a.conf", "server b prefers\n"),
            ("etc/s/a.sources", "server c prefers\nmakestep 1\nserver d\n"),
        ]);
        let config = config.value().unwrap();
        let files = |lines: &[String]| {
            let names = lines.iter().filter_map(|line| line.split_once(": "));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(files(&config.refused), "/etc/c /etc/chrony.conf");
        assert_eq!(files(&config.skipped), "/etc/s");
        assert_eq!((config.file.as_deref(), config.servers.len()), (Some("/etc/chrony.conf"), 3));
    }

    #[test]
    fn a_configuration_that_is_not_all_readable_is_unknown() {
        for line in ["include /etc/gone.conf", "include /etc/*/a.conf", "include /etc/chrony.conf"]
        {
            let config = read(&[("etc/chrony.conf", &format!("makestep 1 3\n{line}\n"))]);
            assert!(config.unknown().is_some(), "{line}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        let fits = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        assert!(fits("*.conf", "a.conf") && fits("?-*", "1-x") && fits("**", ""));
        assert!(!fits("*.conf", "a.conf.off") && !fits("?", "") && !fits("a", "ab"));
    }
}
