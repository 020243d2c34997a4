//! Writes minutes into a folder, as a daemon does: each line of standard input is a host's
//! name, a space and a minute as JSON. The test of the questions makes its records so.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use records::{Folder, Minute};

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args_os().nth(1).ok_or("the folder is missing")?;
    let mut hosts = BTreeMap::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let (host, minute) = line.split_once(' ').ok_or("a line is HOST MINUTE")?;
        let folder = hosts
            .entry(host.to_owned())
            .or_insert_with(|| Folder::new(Path::new(&root), host, u64::MAX));
        folder.write(&serde_json::from_str::<Minute>(minute)?)?;
    }
    for folder in hosts.values_mut() {
        folder.pack()?;
    }
    Ok(())
}
