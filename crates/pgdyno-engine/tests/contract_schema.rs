//! The committed schema is the one the types generate, and the committed samples fit the types.

use std::process::Command;

use pgdyno_engine::contract::job::{Job, Work};
use pgdyno_engine::contract::record::Record;
use pgdyno_engine::dataset::Options;
use pgdyno_ledger::LedgerOptions;
use pgdyno_mirror::CapturedOptions;
use pgdyno_mirror::load::MirrorLoad;
use pgdyno_pgbench::dataset::PgbenchOptions;
use pgdyno_tpcc::TpccOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Samples of all records and jobs, one a line, as the engine writes them. `tests/contract` holds
/// that Python reads and writes them unchanged, too.
const CORPUS: &str = include_str!("../../../tests/contract/corpus.jsonl");

#[test]
fn the_committed_schema_is_current() {
    let said = Command::new(env!("CARGO_BIN_EXE_pgdyno-engine")).arg("schema").output().unwrap();
    assert!(said.status.success());
    assert!(
        said.stdout == include_bytes!("../contract.schema.json"),
        "run: pgdyno-engine schema > crates/pgdyno-engine/contract.schema.json"
    );
}

fn samples(key: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = CORPUS.lines().filter(move |line| line.starts_with(&format!("{{\"{key}\":")));
    assert!(lines.clone().count() > 0, "{key}");
    lines
}

/// Read a text and write it again.
fn again<T: DeserializeOwned + Serialize>(text: &str) -> String {
    let value: T = serde_json::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    serde_json::to_string(&value).unwrap()
}

fn again_as<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let text = again::<T>(&value.to_string());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_sample_is_read_back_equal() {
    for line in samples("record") {
        assert_eq!(again::<Record>(line), line);
    }
    for line in samples("format") {
        assert_eq!(again::<Job>(line), line);
    }
}

#[test]
fn the_options_and_templates_in_the_samples_are_read_back_equal() {
    for line in samples("format") {
        let job: Job = serde_json::from_str(line).unwrap();
        match job.work {
            Work::Init(work) => {
                let options = Value::Object(work.dataset.fields);
                let read = match work.dataset.kind.as_str() {
                    PgbenchOptions::KIND => again_as::<PgbenchOptions>(&options),
                    TpccOptions::KIND => again_as::<TpccOptions>(&options),
                    LedgerOptions::KIND => again_as::<LedgerOptions>(&options),
                    CapturedOptions::KIND => again_as::<CapturedOptions>(&options),
                    kind => panic!("{kind}"),
                };
                assert_eq!(read, options);
            }
            Work::Load(work) => {
                for templates in work.scripts.into_iter().filter_map(|script| script.templates) {
                    let templates = Value::Object(templates);
                    assert_eq!(again_as::<MirrorLoad>(&templates), templates);
                }
            }
        }
    }
}

#[test]
fn a_field_of_a_newer_engine_is_ignored() {
    for line in samples("record") {
        let mut newer: Value = serde_json::from_str(line).unwrap();
        newer["added_in_version_2"] = json!({"deep": [1]});
        assert_eq!(again::<Record>(&newer.to_string()), line);
    }
}
