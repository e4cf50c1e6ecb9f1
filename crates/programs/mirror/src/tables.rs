//! The tables of a capture: the schema as SQL, and rows with the captured distributions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pgdyno_engine::dataset::Options;

use super::distribution::Distribution;

/// The tables of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedOptions {
    /// Makes the schema without keys and indexes, in one transaction.
    pub creation: Vec<String>,
    /// What gets the mark as its comment, such as `table public.orders`.
    pub marked: Vec<String>,
    /// Removes everything that `creation` makes. Its first statement drops the tables.
    pub removal: Vec<String>,
    pub tables: Vec<CapturedTable>,
    /// The table in which a row says what was replaced or left out, and why; "" = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub left_out: String,
    /// Values to try, one after another, in a column whose own values the server refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Work after all rows are loaded: each is a transaction, in this order.
    #[serde(default)]
    pub completion: Vec<String>,
    /// The same seed makes the same rows.
    #[serde(default)]
    pub seed: u64,
}

impl Options for CapturedOptions {
    const KIND: &'static str = "capture";
}

/// A table with rows. Names are qualified and quoted where SQL needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedTable {
    pub name: String,
    /// The server finds the partition of each row.
    #[serde(default)]
    pub is_partitioned: bool,
    pub rows: u64,
    pub columns: Vec<CapturedColumn>,
    /// Columns that are a key together: no two rows have the same values in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Vec<String>>,
    /// Foreign keys of several columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CapturedLink>,
    /// Keys and indexes: each is a transaction, after the rows of this table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<String>,
    /// What helps if the server refuses rows and names no column, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rescues: Vec<CapturedRescue>,
}

/// A change of a table that lets the server accept more rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedRescue {
    pub sql: String,
    /// What is different then.
    pub words: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedColumn {
    /// Quoted where SQL needs it.
    pub name: String,
    pub distribution: Distribution,
    /// -1..=1: correlation of the order of the values with the order of the rows.
    #[serde(default)]
    pub correlation: f64,
    /// A unique column of the same table: the values, of the kind `rank`, are smaller values of
    /// this column, so that no row is above itself in a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_in: Option<String>,
    /// Distributions to try if the server refuses the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Distribution>,
}

/// The columns have the values of a row of another table, in the columns of one of its keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedLink {
    pub columns: Vec<String>,
    pub table: String,
    /// Columns of the key, in the order of `columns`.
    pub referenced: Vec<String>,
    /// Columns in which rows that refer to the same row differ: the lines of an order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// Of the numbers of the rows that are referred to, from 0; its kind is `rank`, without
    /// `element`.
    pub distribution: Distribution,
    #[serde(default)]
    pub correlation: f64,
}
