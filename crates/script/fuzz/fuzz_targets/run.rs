//! Any text is read without a crash, and what was read runs without one:
//! `cargo +nightly fuzz run run` in `crates/script`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/mod.rs"]
mod support;

fuzz_target!(|text: &str| support::read_and_run(text));
