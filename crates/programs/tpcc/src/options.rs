//! The options of the dataset `tpcc` in a job.

use pgdyno_engine::contract::job::DistributedServer;
use pgdyno_engine::dataset::Options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

impl Options for TpccOptions {
    const KIND: &'static str = "tpcc";
}
