//! The committed schema is the one the types generate.

use std::process::Command;

#[test]
fn the_committed_schema_is_current() {
    let said = Command::new(env!("CARGO_BIN_EXE_pgdyno-engine")).arg("schema").output().unwrap();
    assert!(said.status.success());
    assert!(
        said.stdout == include_bytes!("../contract.schema.json"),
        "run: pgdyno-engine schema > crates/pgdyno-engine/contract.schema.json"
    );
}

#[test]
fn every_record_of_the_corpus_is_read_back_equal() {
    let engine = env!("CARGO_BIN_EXE_pgdyno-engine");
    let corpus = Command::new(engine).arg("emit-corpus").output().unwrap().stdout;
    let corpus = String::from_utf8(corpus).unwrap();
    for line in corpus.lines().filter(|line| line.contains("\"record\":")) {
        let record: pgdyno_engine::contract::record::Record = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
}
