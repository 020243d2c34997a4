//! A pure crate links no library of the system, not even through another
//! crate: checked on the dependencies that cargo resolves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::array;

/// Libraries that make system calls, talk to KVM or to a network.
const SYSTEM: &str = "clock-steering errno getrandom iana-time-zone kvm-bindings kvm-ioctls libc linux-raw-sys \
    memmap2 mio nix ntp-proto rand raw-cpuid rsntp rustix sd-notify seccompiler signal-hook \
    signal-hook-registry socket2 tokio vm-memory vmm-sys-util";

/// The shortest path from a package to a system library, if there is one.
pub(super) fn path_to_system(metadata: &Value, package: &str) -> Option<String> {
    let packages: BTreeMap<&str, &Value> = array(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = array(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let name = |id: &str| packages.get(id).and_then(|package| package["name"].as_str());
    let start = *packages.iter().find(|(_, found)| found["name"] == package)?.0;
    let mut seen = BTreeSet::from([start]);
    let mut paths = VecDeque::from([vec![start]]);
    while let Some(path) = paths.pop_front() {
        let last = path.last()?;
        if name(last).is_some_and(|name| SYSTEM.split(' ').any(|system| system == name)) {
            let names: Vec<&str> = path.iter().filter_map(|id| name(id)).collect();
            return Some(names.join(" -> "));
        }
        let dependencies = nodes.get(last).map_or(&[][..], |node| array(&node["deps"]));
        for dependency in dependencies.iter().filter(|dependency| is_linked(dependency)) {
            let Some(id) = dependency["pkg"].as_str() else { continue };
            let is_macro = packages.get(id).is_some_and(|package| runs_in_compiler(package));
            if !is_macro && seen.insert(id) {
                paths.push_back([path.as_slice(), &[id]].concat());
            }
        }
    }
    None
}

/// A normal dependency: neither for tests nor for a build script.
fn is_linked(dependency: &Value) -> bool {
    array(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
}

fn runs_in_compiler(package: &Value) -> bool {
    let targets = array(&package["targets"]).iter();
    targets.flat_map(|target| array(&target["kind"])).any(|kind| kind == "proc-macro")
}
