//! What this engine has: built-ins, meta commands, datasets. The lab reads it from here and keeps
//! no copy in its own code.

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
    /// It needs `:scale`, which is looked up before the load unless it is given.
    pub reads_scale: bool,
    /// It is written in Rust: it sends typed parameters, so the simple protocol cannot carry it.
    pub is_native: bool,
    pub is_of_pgbench: bool,
    /// Transaction types, counted and timed separately; a script has one, with its name.
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
    /// Keying time before it, and mean thinking time after it; 0 = none.
    pub keying_ns: u64,
    pub think_ns_mean: u64,
}

/// One way to vary a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OptionFacts {
    pub name: String,
    pub description: String,
    /// The words it takes, the default first; none of a number.
    pub values: Vec<String>,
    /// Least and most of a whole number; without the option the program chooses.
    #[serde(default)]
    pub range: Option<(u32, u32)>,
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetFacts {
    /// Its tables, in the order in which they are made.
    pub tables: Vec<String>,
}
