//! `pgdyno-engine facts`: the built-ins, meta commands and datasets that this engine has.
//!
//! The lab asks the engine for them, so no list exists twice.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `pgdyno-engine facts`, one JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// `pgdyno.facts/1`.
    pub format: String,
    /// In the order in which they are shown.
    pub builtins: Vec<BuiltinFacts>,
    /// Names of the script language's meta commands, without backslash.
    pub meta_commands: Vec<String>,
    /// The datasets that `init` can load; the key is the word to give to `init`.
    pub datasets: BTreeMap<String, DatasetFacts>,
}

/// A built-in program: a script, or transactions written in Rust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltinFacts {
    pub name: String,
    pub description: String,
    /// Name of the dataset whose tables it uses.
    pub dataset: String,
    /// None of its statements can write.
    pub reads_only: bool,
    /// It uses `:scale`. If the job does not give the value, the engine reads it from the tables.
    pub reads_scale: bool,
    /// It is written in Rust and sends typed parameters, which the simple protocol does not have.
    pub is_native: bool,
    pub is_of_pgbench: bool,
    /// Transaction types, counted and timed separately. A script has one type, with the script's
    /// name.
    pub types: Vec<TypeFacts>,
    pub options: Vec<OptionFacts>,
}

/// One type of transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeFacts {
    pub name: String,
    /// Weight relative to the other types of the program.
    pub weight: u32,
    pub reads_only: bool,
    /// Keying time before the transaction; 0 = none.
    pub keying_ns: u64,
    /// Mean think time after the transaction; 0 = none.
    pub think_ns_mean: u64,
}

/// One option of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OptionFacts {
    pub name: String,
    pub description: String,
    /// The allowed words, the default first; empty if the option is a number.
    pub values: Vec<String>,
    /// Smallest and largest value of a whole number. Without the option the program chooses.
    #[serde(default)]
    pub range: Option<(u32, u32)>,
}

/// A dataset that `init` can load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetFacts {
    /// Names of the tables, in the order in which they are created.
    pub tables: Vec<String>,
}
