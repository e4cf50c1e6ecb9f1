//! The options of the dataset `pgbench` in a job.

use pgdyno_engine::contract::job::DistributedServer;
use pgdyno_engine::dataset::Options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Number of partitions of pgbench_accounts; 0 = not partitioned.
    #[serde(default)]
    pub partitions: u32,
    #[serde(default)]
    pub partition_method: PartitionMethod,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_tablespace: Option<String>,
    /// Load ranges of this many accounts at the same time, without FREEZE; absent = one COPY with
    /// FREEZE for each table or partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_rows: Option<u64>,
    /// Initialization steps in pgbench's letters, executed one after another; absent = the steps
    /// that the other fields need, with several tables at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribute: Option<Distribute>,
}

/// How the tables are distributed over the nodes of a distributed server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribute {
    pub server: DistributedServer,
    /// By account (`aid`) or by branch (`bid`).
    pub column: DistributionColumn,
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

impl Options for PgbenchOptions {
    const KIND: &'static str = "pgbench";
}
