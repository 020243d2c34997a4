//! What the property tests share.

use proptest::test_runner::{Config, FileFailurePersistence};

/// `cases` cases, or few under Miri, which is some thousand times slower and
/// may not touch files. A failing case is kept next to the test's source.
pub(crate) fn cases(cases: u32) -> Config {
    if cfg!(miri) {
        return Config { cases: 20, failure_persistence: None, ..Config::default() };
    }
    let regressions = FileFailurePersistence::WithSource("regressions");
    Config { cases, failure_persistence: Some(Box::new(regressions)), ..Config::default() }
}
