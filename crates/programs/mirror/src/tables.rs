//! The tables of a capture: the schema as SQL, and rows with the captured distributions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Work after all rows are loaded: each is a transaction, in this order.
    #[serde(default)]
    pub completion: Vec<String>,
    /// The same seed makes the same rows.
    #[serde(default)]
    pub seed: u64,
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
