//! The corpus of the fuzz target, and changed copies of it, in an ordinary test.

#[path = "support/mutate.rs"]
mod mutate;
mod support;

use std::path::Path;

#[test]
fn no_bytes_of_a_server_crash_the_scanner_however_they_are_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/receive");
    let corpus = mutate::corpus(&folder);
    assert!(corpus.len() >= 20, "the corpus has {} texts", corpus.len());
    assert!(mutate::run(&corpus, 20_261_120, support::receive) >= 100);
}
