//! The program as people meet it, on the running kernel. Each file holds the
//! cases of one subject, and is named here twice; what they share is in the
//! crate.

/// The cases of a file: whether others may run beside them, what they cannot do without,
/// and the functions of their names.
macro_rules! cases {
    ($($sharing:ident $needs:expr => $($name:ident),+;)+) => {
        pub(crate) const CASES: &[e2e::Case] = &[$($(e2e::Case {
            name: stringify!($name),
            sharing: e2e::Sharing::$sharing,
            needs: $needs,
            run: $name,
        }),+),+];
    };
}

mod bench;
mod capture;
mod chrony;
mod command_line;
mod deprived;
mod doctor;
mod drift;
mod drift_bad_input;
mod drift_records;
mod each_source;
mod formats;
mod gate;
mod keep;
#[cfg(target_arch = "x86_64")]
mod lab_command;
#[cfg(target_arch = "x86_64")]
mod lab_hostile;
#[cfg(target_arch = "x86_64")]
mod lab_linux;
#[cfg(target_arch = "x86_64")]
mod lab_locks;
mod lab_network;
#[cfg(target_arch = "x86_64")]
mod lab_order;
#[cfg(target_arch = "x86_64")]
mod lab_time;
mod lab_vmclock;
mod latency;
mod outputs;
mod pair;
mod refused;
mod tell;
mod trees;
mod vmclock;
mod watch;
mod watch_disruptions;

fn main() {
    let cases = [
        bench::CASES,
        capture::CASES,
        chrony::CASES,
        command_line::CASES,
        deprived::CASES,
        doctor::CASES,
        drift::CASES,
        drift_bad_input::CASES,
        drift_records::CASES,
        each_source::CASES,
        formats::CASES,
        gate::CASES,
        keep::CASES,
        keep::clockbound::CASES,
        keep::others::CASES,
        keep::service::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_hostile::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_linux::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_locks::CASES,
        lab_network::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_order::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_time::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_vmclock::CASES,
        #[cfg(target_arch = "x86_64")]
        lab_command::CASES,
        latency::CASES,
        outputs::CASES,
        pair::CASES,
        tell::CASES,
        trees::CASES,
        vmclock::CASES,
        watch::CASES,
        watch_disruptions::CASES,
    ];
    e2e::run(cases.concat()).exit();
}
