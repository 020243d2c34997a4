//! libFuzzer's program for all targets: FUZZ_TARGET names the one to run.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<String> =
    LazyLock::new(|| std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run(&TARGET, data));
