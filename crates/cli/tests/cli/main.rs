//! The program as people meet it, on the running kernel.

mod bench;
mod capture;
mod chrony;
mod chronyd;
mod clockbound_clients;
mod command_line;
mod deprived;
mod doctor;
mod drift;
mod drift_bad_input;
mod each_source;
mod formats;
mod gate;
mod keep;
#[cfg(target_arch = "x86_64")]
mod lab_command;
#[cfg(target_arch = "x86_64")]
mod lab_hostile;
#[cfg(target_arch = "x86_64")]
#[cfg(target_arch = "x86_64")]
mod lab_locks;
#[cfg(target_arch = "x86_64")]
mod lab_network;
#[cfg(target_arch = "x86_64")]
mod lab_order;
#[cfg(target_arch = "x86_64")]
mod lab_time;
#[cfg(target_arch = "x86_64")]
mod lab_vmclock;
mod latency;
mod need;
mod no_getcpu;
#[expect(dead_code, reason = "the program `ntp-server` of the machines also steps its clock")]
mod ntp_server;
mod outputs;
mod program;
mod refused;
mod status;
mod tell;
mod trees;
mod vmclock;
mod watch;
mod watch_disruptions;
