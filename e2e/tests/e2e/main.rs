//! The program as people meet it, on the running kernel. Each file holds the
//! cases of one subject, and is named here twice; what they share is in the
//! crate.

mod bench;
mod capture;
mod command_line;
mod doctor;
mod drift;
mod each_source;
mod formats;
mod lab_command;
mod lab_hostile;
mod lab_order;
mod lab_time;
mod outputs;
mod trees;
mod watch;

fn main() {
    let cases = [
        bench::CASES,
        capture::CASES,
        command_line::CASES,
        doctor::CASES,
        drift::CASES,
        each_source::CASES,
        formats::CASES,
        lab_hostile::CASES,
        lab_order::CASES,
        lab_time::CASES,
        lab_command::CASES,
        outputs::CASES,
        trees::CASES,
        watch::CASES,
    ];
    e2e::run(cases.concat()).exit();
}
