//! `parachron/manifest.json`: what a capture saved, and why not the rest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use facts::Unknown;

/// The manifest's path in a tree.
pub const PATH: &str = "parachron/manifest.json";

/// The format that this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// What a capture saved, and why not the rest. A tree made by hand may leave out
/// every field but `format`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Version of the program that wrote it.
    #[serde(default)]
    pub parachron: String,
    /// Unix time of the capture by that machine's clock, s.
    #[serde(default)]
    pub taken_unix_s: u64,
    /// Files saved, by path (`/proc/cmdline`, `parachron/cpuid`).
    #[serde(default)]
    pub taken: BTreeMap<String, CaptureTime>,
    /// Names found in folders: kept here too, since an empty folder is lost
    /// in archives and repositories.
    #[serde(default)]
    pub listed: BTreeMap<String, Vec<String>>,
    /// What could not be read, and why.
    #[serde(default)]
    pub not_taken: BTreeMap<String, Unknown>,
}

/// One saved file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureTime {
    /// Its length in the tree.
    pub bytes: u64,
    /// The part kept, where that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Manifest {
    /// Reads a manifest's text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut manifest: Self = serde_json::from_str(text)?;
        // Names become parts of paths: only those that a folder can hold.
        for names in manifest.listed.values_mut() {
            names.retain(|name| {
                !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
            });
        }
        Ok(manifest)
    }
}
