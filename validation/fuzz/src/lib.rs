//! What the fuzzers call: one function for each parser of foreign text and
//! replies, each reader of a foreign page, and what a hostile guest can reach.
//! None may panic, hang, or break the promise that it checks.
//!
//! The libFuzzer program is in `engine`, a workspace of its own because it
//! needs nightly. The functions are here, so that `cargo test` replays the
//! seeds through them on any toolchain. `validation/fuzz.sh` runs them all.

mod bytes;
mod daemon;
#[cfg(target_arch = "x86_64")]
mod devices;
mod host_frames;
mod host_msr;
mod host_saved;
mod hypercalls;
#[cfg(target_arch = "x86_64")]
mod kvm_saved;
#[cfg(target_arch = "x86_64")]
mod network;
mod pages;
mod replies;
mod texts;
mod trees;

/// One thing to fuzz.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What FUZZ_TARGET calls it, and the folder of its seeds.
    pub name: &'static str,
    /// Gives it foreign bytes.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "chronyd_reply", run: replies::chronyd },
    Target { name: "clockbound_page", run: pages::clockbound },
    #[cfg(target_arch = "x86_64")]
    Target { name: "devices", run: devices::devices },
    Target { name: "host_frames", run: host_frames::host_frames },
    Target { name: "host_msr", run: host_msr::host_msr },
    Target { name: "host_saved", run: host_saved::host_saved },
    Target { name: "host_stream", run: host_frames::host_stream },
    Target { name: "hypercalls", run: hypercalls::hypercalls },
    Target { name: "hyperv_reference_page", run: pages::hyperv_reference },
    #[cfg(target_arch = "x86_64")]
    Target { name: "kvm_saved", run: kvm_saved::kvm_saved },
    Target { name: "kvm_time_page", run: pages::kvm_time },
    Target { name: "kvm_wall_clock_page", run: pages::kvm_wall_clock },
    #[cfg(target_arch = "x86_64")]
    Target { name: "network", run: network::network },
    Target { name: "ntp_answer", run: replies::ntp_answer },
    Target { name: "status_request", run: daemon::status_request },
    Target { name: "steal_time_page", run: pages::steal_time },
    Target { name: "text_clocksource", run: texts::clocksource },
    Target { name: "text_configuration", run: daemon::configuration },
    Target { name: "text_cpuid", run: texts::cpuid },
    Target { name: "text_cpuinfo", run: texts::cpuinfo },
    Target { name: "text_hardware", run: texts::hardware },
    Target { name: "text_host_message", run: texts::host_message },
    Target { name: "text_kernel_command_line", run: texts::kernel_command_line },
    Target { name: "text_kernel_configuration", run: texts::kernel_configuration },
    Target { name: "text_pasted_log", run: texts::pasted_log },
    Target { name: "text_kernel_log", run: texts::kernel_log },
    Target { name: "text_learnt_frequency", run: texts::learnt_frequency },
    Target { name: "text_manifest", run: texts::manifest },
    Target { name: "text_running", run: texts::running },
    Target { name: "text_steering", run: texts::steering },
    Target { name: "text_system", run: texts::system },
    Target { name: "tree", run: trees::tree },
    Target { name: "vmclock_page", run: pages::vmclock },
];

/// Gives a target foreign bytes.
///
/// # Panics
/// No target has that name; or the target found a fault.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = target else { panic!("no fuzz target is called {name}") };
    (target.run)(data);
}

#[cfg(test)]
mod tests;
