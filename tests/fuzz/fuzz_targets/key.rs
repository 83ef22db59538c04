//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz key`

#![no_main]

#[allow(dead_code, reason = "each binary has one target of all")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::key(data));
