//! How the values of a column, or of a parameter, are distributed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values as text in PostgreSQL's format: dates in ISO, bytes as `\x...`, arrays as `{...}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ValueDistribution")]
pub struct Distribution {
    pub kind: ValueKind,
    /// 0..=1: share of NULL.
    #[serde(skip_serializing_if = "is_zero")]
    pub null_fraction: f64,
    /// Number of different values.
    pub distinct: f64,
    /// Mean bytes of a text, of bytes or of JSON, without a header; 0 = not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub width: f64,
    /// The most common values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<Hot>,
    /// The other values in ascending order, with the same number of rows between neighbours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<String>,
    /// Of the elements of arrays, of the lower bounds of ranges, of the values that a `rank` refers
    /// to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub element: Option<Box<Distribution>>,
    /// Number of elements of arrays; length of ranges, in units of the element (days, seconds);
    /// shortest and longest text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Spread>,
    /// The smallest distance of two integers, or of two dates or times in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Every value of the range from the first to the last bound occurs once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_dense: bool,
    /// All labels of an enum, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    Integer,
    Real,
    Numeric,
    Boolean,
    #[default]
    Text,
    Bytes,
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    Time,
    Interval,
    Json,
    Inet,
    Enum,
    Array,
    Range,
    /// The values are the bounds and the common values, unchanged.
    Other,
    /// The values are numbers from 0 of the values of `element` in ascending order, as in a foreign
    /// key.
    Rank,
}

/// A common value, and its share of all rows, NULLs included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    pub value: String,
    /// 0..=1.
    pub fraction: f64,
}

/// A number that varies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub least: f64,
    pub mean: f64,
    pub most: f64,
}
