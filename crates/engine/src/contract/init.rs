//! The job that loads a dataset: which one, and how to load it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Create and fill a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitWork {
    pub dataset: DatasetOptions,
    /// Connections that load and index at the same time, at least 1.
    pub jobs: u16,
    /// Comment for every table. `pgdyno drop` drops only tables with this mark.
    pub mark: String,
    /// Drop existing tables of the dataset first. If false, an existing table is an error.
    #[serde(default)]
    pub drop_existing: bool,
    /// Continue an interrupted load. The job must be the same, except for this field and `jobs`.
    #[serde(default)]
    pub resume: bool,
    /// If the job is interrupted, keep the loaded rows for a job with `resume`.
    #[serde(default)]
    pub keep_unfinished: bool,
    /// Present if several engines share the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<LoadShare>,
}

/// Which chains of each stage one engine loads: those whose number, divided by `count`, leaves
/// `place`.
///
/// The engine with place 0 leads: it creates the journal, writes `ready`, and removes the journal
/// at the end. The others begin after its `ready`. Every engine reads in the journal whether the
/// stages before its next chain are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadShare {
    /// Less than `count`.
    pub place: u16,
    /// Number of engines, at least 1.
    pub count: u16,
}

/// The kind of dataset, and its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetOptions {
    pub kind: String,
    /// Read by the kind.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistributedServer {
    Citus,
    Greenplum,
}
