//! `parachron-query`: questions in SQL to the records of a fleet's clocks, by DataFusion.
//! `parachron fleet query` calls it.

mod arguments;
mod check;
mod engine;
mod failure;
mod folder;
mod form;
mod questions;

use std::process::ExitCode;

use arguments::Task;

fn main() -> ExitCode {
    let done = arguments::parse(std::env::args_os().skip(1)).and_then(|task| match task {
        Task::Print(text) => form::print(&text),
        Task::Ask(question) => engine::ask(&question),
    });
    done.map_or_else(|why| why.report(), |()| ExitCode::SUCCESS)
}
