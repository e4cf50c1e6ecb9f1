//! The job that loads a dataset: how to load, and the options of each kind of dataset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::captured::CapturedOptions;

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
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DatasetOptions {
    Pgbench(PgbenchOptions),
    Tpcc(TpccOptions),
    Ledger(LedgerOptions),
    Capture(CapturedOptions),
}

/// The tables of the ledger, which shows what became of each commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerOptions {
    /// 1..=1,000,000: number of balances. Each client of a load has one, numbered from 0.
    pub accounts: u32,
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
    /// 0..=255: NURand's C for the last names of customers. The C of a run depends on this one.
    #[serde(default)]
    pub c_last: u32,
    /// 10..=100, for every table; absent = each table has its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u8>,
    #[serde(default)]
    pub unlogged: bool,
    #[serde(default)]
    pub foreign_keys: bool,
    /// Number of hash partitions, by warehouse, of each large table that belongs to a warehouse; 0
    /// = not partitioned. Item, warehouse and district are never partitioned.
    #[serde(default)]
    pub partitions: u32,
    /// Load ranges of this many warehouses at the same time, without FREEZE; absent = one COPY with
    /// FREEZE for each table or leaf. Leaves have no ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_warehouses: Option<u32>,
    /// Distribute the tables by warehouse, with items on every node; absent = not distributed.
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
