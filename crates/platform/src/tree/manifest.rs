//! `parachron/manifest.json`: what a capture took, and why not the rest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use facts::Unknown;

/// Where the manifest lies in a tree.
pub const PATH: &str = "parachron/manifest.json";

/// The form that this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// What a capture took, and why not the rest. Every field but `format` may be
/// left out of a tree made by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of this form.
    pub format: u32,
    /// Version of the program that wrote it.
    #[serde(default)]
    pub parachron: String,
    /// When, in seconds of Unix time by that machine's own clock.
    #[serde(default)]
    pub taken_unix_s: u64,
    /// Files taken, by path (`/proc/cmdline`, `parachron/cpuid`).
    #[serde(default)]
    pub taken: BTreeMap<String, Taken>,
    /// Names found in folders: kept here too, since an empty folder is lost
    /// in archives and repositories.
    #[serde(default)]
    pub listed: BTreeMap<String, Vec<String>>,
    /// What was asked for and not had, and why.
    #[serde(default)]
    pub not_taken: BTreeMap<String, Unknown>,
}

/// One file taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// Its length here.
    pub bytes: u64,
    /// What was kept of it, where not all was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Manifest {
    /// Reads a manifest's text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut manifest: Self = serde_json::from_str(text)?;
        // Names become parts of paths: only what a folder could really hold.
        for names in manifest.listed.values_mut() {
            names.retain(|name| {
                !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
            });
        }
        Ok(manifest)
    }
}
