//! The load of the program `mirror`: the transaction templates of a capture, as a part of the job.
//!
//! The JSON of a step and of a source is that of the capture file, so the lab passes it on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, Spread};
use pgdyno_engine::contract::job::Protocol;

/// What the clients of a mirror do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorLoad {
    /// Tables that the statements use, as SQL names them. All must exist.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Settings of every session by name, such as `search_path`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Age of the data, in seconds: the present time of a parameter is this much earlier.
    #[serde(default)]
    pub data_age_s: f64,
    /// Each transaction is tried and rolled back, without pauses.
    #[serde(default)]
    pub is_probe: bool,
    pub statements: Vec<MirrorStatement>,
    /// At least one.
    pub templates: Vec<MirrorTemplate>,
    /// Present: the transactions of a log, with their values, in place of drawn ones. The templates
    /// then have no steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

/// A file with the transactions of a log. `program/recording.rs` has its format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    pub path: PathBuf,
    /// For each statement that the file numbers: its place in `MirrorLoad::statements`. Absent =
    /// its calls are left out.
    pub statements: Vec<Option<u32>>,
    /// For each type that the file numbers: its place in `MirrorLoad::templates`; absent = its
    /// transactions are left out.
    pub types: Vec<Option<u32>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorStatement {
    /// SQL with `$1`, `$2` and so on.
    pub text: String,
    /// The type of each parameter in SQL; empty if it is not known. Only the simple protocol needs
    /// it: it writes values into the text.
    #[serde(default)]
    pub parameter_types: Vec<String>,
}

/// A kind of transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorTemplate {
    pub name: String,
    /// Above 0.
    pub weight: u32,
    pub reads_only: bool,
    /// Absent = the protocol of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Mean time of a client before its next transaction.
    #[serde(default)]
    pub think_ms: f64,
    pub steps: Vec<MirrorStep>,
}

/// One statement of a template. Steps, and the parameters of a step, count from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorStep {
    /// Place in `MirrorLoad::statements`.
    pub statement: u32,
    /// Where the value of `$1` comes from, of `$2`, and so on.
    #[serde(default)]
    pub parameters: Vec<ParameterSource>,
    #[serde(default = "once")]
    pub repeat: Spread,
    /// Share of the transactions that execute the step.
    #[serde(default = "one")]
    pub probability: f64,
    /// Mean pause of the client before the step.
    #[serde(default)]
    pub pause_ms: f64,
    /// The values of the step are drawn, but its statement is not sent.
    #[serde(default)]
    pub left_out: bool,
    /// The step belongs to the loop of the step before it: all steps of a loop are executed once in
    /// each turn. The first step has the number of turns.
    #[serde(default)]
    pub loops_with_before: bool,
    /// How often the step is executed, if that follows from what came before; else `repeat` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Count>,
    /// Parameters, from 0, that are sent as null if their value does not exist. Without the value
    /// of another parameter the step is not executed.
    #[serde(default)]
    pub optional: Vec<u32>,
    /// Parameters, from 0, that must not be null, and of which no element must be null. If one is,
    /// the step is not executed.
    #[serde(default)]
    pub not_null: Vec<u32>,
}

/// How many turns an earlier step had or, with `parameter`, how many elements an array of it has;
/// plus `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub step: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u32>,
    #[serde(default)]
    pub offset: i64,
}

fn one() -> f64 {
    1.0
}

fn once() -> Spread {
    Spread { least: 1.0, mean: 1.0, most: 1.0 }
}

/// Where the value of a parameter comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum ParameterSource {
    /// Always the same value; absent = null.
    Constant {
        #[serde(default)]
        value: Option<String>,
    },
    Drawn {
        distribution: Box<Distribution>,
    },
    /// A value that exists in a column of the database. Equal groups of one step come from one row.
    Column {
        table: String,
        column: String,
        /// Of the accesses; absent = as the rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        distribution: Option<Box<Distribution>>,
        /// The smallest and the largest value that the column had in the source.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<(i64, i64)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<u32>,
        /// Only rows in which the column has a value; not of a group.
        #[serde(default)]
        is_not_null: bool,
        /// Share of the draws in which a client takes its own value: always the same one, which
        /// other columns with the same distribution share. Not of a group.
        #[serde(default)]
        kept: f64,
        /// The distribution is of places among the rows, sorted by how common their value is: 0 = a
        /// row with the most common value, 1 = a row with the rarest value. Not of a group.
        #[serde(default)]
        by_frequency: bool,
        /// Only of rows that have these values in other columns; not of a group. Then there is
        /// no distribution.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        given: Vec<Given>,
    },
    Equal {
        step: u32,
        parameter: u32,
        #[serde(default)]
        take: Take,
    },
    /// A value that an earlier step returned. If it returned no row, the value does not exist.
    Returned {
        step: u32,
        column: u32,
        #[serde(default)]
        pick: Pick,
    },
    /// `slope` times an earlier parameter, or times a returned column, plus `offset`, plus a share
    /// of another parameter.
    Linear {
        step: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameter: Option<u32>,
        /// Counts from 0, of the first row that the step returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        column: Option<u32>,
        slope: f64,
        offset: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plus: Option<Plus>,
    },
    /// An earlier value plus something from `least` to `most`; of times, seconds.
    Between {
        step: u32,
        parameter: u32,
        least: f64,
        most: f64,
    },
    /// A new key, above the largest of the database.
    Fresh {
        table: String,
        column: String,
    },
    Now {
        #[serde(default)]
        minus_s: f64,
    },
    Count(Count),
    /// The number of the turn, or of the element of a list, from 0; plus `offset`.
    Turn {
        #[serde(default)]
        offset: i64,
    },
    /// A value that this statement sent or returned in an earlier transaction, of any client. Each
    /// is used once, in the order in which the transactions ended. Without one the value does not
    /// exist.
    Taken(Giver),
    /// A value that this client sent or read in an earlier transaction: the last one of one of
    /// these places.
    Recalled {
        givers: Vec<Giver>,
        /// Of the draws: the share of the transaction with such a value that was last, of the one
        /// before it, and so on. What is left is `otherwise`, as are values that do not exist yet.
        shares: Vec<f64>,
        otherwise: Box<ParameterSource>,
    },
    /// The column of the row that has these values in other columns, of the same step: what the
    /// load itself, with any client, last sent or read of the row; else what the row had before.
    Known {
        table: String,
        column: String,
        given: Vec<Given>,
        sightings: Vec<Sighting>,
        /// Of a row that nobody knows.
        otherwise: Box<ParameterSource>,
    },
    /// A value of a composite type or, with names, a JSON object.
    Record {
        fields: Vec<ParameterSource>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
        /// Places of fields that stand in the JSON as they are; the others are texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bare: Vec<u32>,
    },
    /// What the value of an earlier parameter of this step decides; in a list, the element of the
    /// same place. Without a case for the value it is `otherwise`.
    Cases {
        /// Counted from 0.
        parameter: u32,
        cases: Vec<Case>,
        otherwise: Box<ParameterSource>,
    },
    /// An array.
    List {
        of: Box<ParameterSource>,
        length: Spread,
        /// An earlier parameter of this step, counted from 0: an array that has as many elements.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_long_as: Option<u32>,
        /// The number of elements, if it follows from what came before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<Count>,
        /// All elements are the same value.
        #[serde(default)]
        is_one_value: bool,
        /// No element but null occurs twice: of equal ones, one is left.
        #[serde(default)]
        is_distinct: bool,
        #[serde(default)]
        is_sorted: bool,
        /// It is a list in JSON, and not an array. Its elements are objects or numbers.
        #[serde(default)]
        is_json: bool,
    },
}

/// A parameter of a statement, or a column that it returns; counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Giver {
    /// Place in `MirrorLoad::statements`.
    pub statement: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// A statement that sends or reads a column of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// The columns by which the row is known, in the order of `given`.
    pub key: Vec<Giver>,
    /// The value; absent = the one that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Giver>,
    /// Added to the value, which then is a whole number.
    #[serde(default)]
    pub plus: i64,
}

/// A value of another parameter, and the source that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Absent = null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub source: ParameterSource,
}

/// A column of a row, and the parameter whose value it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    pub column: String,
    pub step: u32,
    pub parameter: u32,
}

/// A parameter with its factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plus {
    pub step: u32,
    pub parameter: u32,
    pub slope: f64,
}

/// What is taken of an earlier parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Its value in the same turn; if its step had fewer turns, that of the last one.
    #[default]
    Value,
    /// Of an array, the element with the number of the turn.
    Element,
    /// The values of all turns, as an array.
    All,
}

/// Which of the returned rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    #[default]
    First,
    Last,
    /// The values of all rows, as an array; those of all turns, if it is used outside of the loop.
    All,
}
