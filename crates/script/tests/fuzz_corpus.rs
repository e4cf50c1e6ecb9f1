//! The corpus of the fuzz target, and changed copies of it, in an ordinary test.

#[path = "../../wire/tests/support/mutate.rs"]
mod mutate;
mod support;

use std::path::Path;

#[test]
fn no_text_crashes_the_reader_or_the_run_of_what_was_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/run");
    let corpus = mutate::corpus(&folder);
    assert!(corpus.len() >= 20, "the corpus has {} texts", corpus.len());
    let count = mutate::run(&corpus, 20_261_120, |bytes| {
        support::read_and_run(&String::from_utf8_lossy(bytes));
    });
    assert!(count >= 100);
}
