//! How a run or one of its parts ends, and how long it takes.

use std::time::Instant;

/// Why a run stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This machine lacks something.
    Unavailable(Unavailable),
    /// Something failed.
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// The phases of a run, and how long each took, s.
#[derive(Debug, Default)]
pub(crate) struct Phases(pub(crate) Vec<(String, f64)>);

impl Phases {
    pub(crate) fn time<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let took_s = start.elapsed().as_secs_f64();
        println!("{name:<18}{took_s:7.1} s");
        self.0.push((name.to_owned(), took_s));
        result
    }
}

/// What this machine lacks, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Unavailable {
    pub(crate) fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}
