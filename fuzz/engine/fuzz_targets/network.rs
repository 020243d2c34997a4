//! libFuzzer's program for one target of the fuzz crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("network", data));
