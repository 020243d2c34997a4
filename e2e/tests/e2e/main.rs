//! The program as people meet it, on the running kernel. Each file holds the
//! cases of one subject, and is named here twice; what they share is in the
//! crate.

mod capture;
mod command_line;
mod doctor;
mod formats;
mod outputs;
mod trees;
mod watch;

fn main() {
    let cases = [
        capture::CASES,
        command_line::CASES,
        doctor::CASES,
        formats::CASES,
        outputs::CASES,
        trees::CASES,
        watch::CASES,
    ];
    e2e::run(cases.concat()).exit();
}
