//! Any bytes of a server are taken without a crash, whichever way they are cut:
//! `cargo +nightly fuzz run receive` in `crates/wire`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/mod.rs"]
mod support;

fuzz_target!(|bytes: &[u8]| support::receive(bytes));
