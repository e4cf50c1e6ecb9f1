//! The work of loading a dataset: how to load, and the options of each kind of dataset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Create and fill a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitWork {
    pub dataset: DatasetOptions,
    /// Connections that load and index at the same time, at least 1.
    pub jobs: u16,
    /// Text put on every table as a comment, by which `drop` knows its own.
    pub mark: String,
    /// Drop existing tables of the dataset first; without it existing tables are an error.
    #[serde(default)]
    pub drop_existing: bool,
    /// Go on with the interrupted load of a job that was the same but for this field and `jobs`.
    #[serde(default)]
    pub resume: bool,
    /// What is loaded when the job is cut off stays, for a job that resumes it.
    #[serde(default)]
    pub keep_unfinished: bool,
}

/// Which dataset, and what it shall be like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DatasetOptions {
    Pgbench(PgbenchOptions),
    Tpcc(TpccOptions),
}

/// The tables of the TPC-C-like workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TpccOptions {
    /// 1..=1,000,000, each with 10 districts, 30,000 customers and 100,000 rows of stock.
    pub warehouses: u32,
    /// The same seed makes the same rows.
    #[serde(default)]
    pub seed: u64,
    /// 0..=255: NURand's C for the last names of customers; that of a run depends on it.
    #[serde(default)]
    pub c_last: u32,
    /// 10..=100, of every table; absent = each table has what suits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u8>,
    #[serde(default)]
    pub unlogged: bool,
    #[serde(default)]
    pub foreign_keys: bool,
    /// Hash partitions by warehouse of each table that grows with the number of warehouses, but
    /// warehouse and district; 0 = not partitioned.
    #[serde(default)]
    pub partitions: u32,
    /// By warehouse, items on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribute: Option<DistributedServer>,
}

/// The tables of pgbench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PgbenchOptions {
    /// Number of branches: 100,000 accounts and 10 tellers each.
    pub scale: u32,
    /// 10..=100, for accounts, tellers and branches, not for history (as pgbench).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u8>,
    #[serde(default)]
    pub unlogged: bool,
    #[serde(default)]
    pub foreign_keys: bool,
    /// Of pgbench_accounts; 0 = not partitioned.
    #[serde(default)]
    pub partitions: u32,
    #[serde(default)]
    pub partition_method: PartitionMethod,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_tablespace: Option<String>,
    /// Load ranges of this many accounts with all jobs at once, without FREEZE; absent = one COPY
    /// with FREEZE a table or partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_rows: Option<u64>,
    /// Initialization steps in pgbench's letters, one after another; absent = what the other fields
    /// ask for, several tables at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribute: Option<Distribute>,
}

/// How the tables are dealt to the nodes of a distributed server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribute {
    pub server: DistributedServer,
    /// By account (`aid`) or by branch (`bid`).
    pub column: DistributionColumn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistributedServer {
    Citus,
    Greenplum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistributionColumn {
    Aid,
    Bid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionMethod {
    #[default]
    Range,
    Hash,
}
