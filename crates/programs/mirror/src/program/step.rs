//! A planned template: its steps, and how each gets the values of its parameters.

use super::counts::Counts;
use crate::load::{Pick, Take};
use crate::values::Values;

/// A template. Its slots hold the parameters of all steps, and then the returned columns.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) steps: Vec<Step>,
    pub(super) slot_count: usize,
}

#[derive(Debug)]
pub(super) struct Step {
    /// Place among the statements of the transaction type.
    pub(super) statement: usize,
    pub(super) first_slot: usize,
    /// The rows from which some parameters come.
    pub(super) rows: Vec<OfRow>,
    /// Parameters that come from rows which have the values of others.
    pub(super) given_rows: Vec<GivenRow>,
    /// The other parameters: their slots, and how to get them.
    pub(super) draws: Vec<(usize, Draw)>,
    /// Of a COPY FROM STDIN: its rows, in place of parameters.
    pub(super) copied: Option<CopiedRows>,
    /// Returned columns that later steps use.
    pub(super) returns: Vec<Return>,
    /// Returned columns that other transactions take, and the places of their queues.
    pub(super) gives: Vec<(usize, usize)>,
    /// Parameters that other transactions take: their slots, and the places of their queues.
    pub(super) sends: Vec<(usize, usize)>,
    /// Memories of the client that get a value of this step, and the slots with these values.
    pub(super) remembers: Vec<(usize, usize)>,
    /// What this step sends or reads of rows, of which a later one must know.
    pub(super) sights: Vec<Sight>,
    pub(super) repeat: Counts,
    /// How often the step is executed, if that follows from what came before.
    pub(super) turns: Option<Number>,
    pub(super) probability: f64,
    pub(super) pause_ns_mean: u64,
    /// The slots of lists that have one length.
    pub(super) equal_lists: Vec<Vec<usize>>,
    /// The slots that are null if their value does not exist.
    pub(super) optional: Vec<usize>,
    /// The slots of parameters that must not be null, and whether they are lists.
    pub(super) not_null: Vec<(usize, bool)>,
    /// The step after the last one of the loop that this step begins.
    pub(super) loop_end: usize,
    pub(super) rolls_back: bool,
    /// The statement is not sent.
    pub(super) left_out: bool,
    /// The role that the statement takes.
    pub(super) role: Option<Box<str>>,
}

/// Parameters that come from one row of a table.
#[derive(Debug)]
pub(super) struct OfRow {
    /// Place among the keys of the run.
    pub(super) keys: usize,
    pub(super) access: Access,
    /// Columns of the row, and the slots that get them.
    pub(super) columns: Vec<(usize, usize)>,
    pub(super) group: Option<(String, u32)>,
}

/// A parameter that comes from a row which has the values of other parameters.
#[derive(Debug)]
pub(super) struct GivenRow {
    pub(super) keys: usize,
    pub(super) slot: usize,
    /// The slots of the values that the row has.
    pub(super) given: Vec<usize>,
}

/// A column of rows that a step sends or reads. `rows`: place of what is known of them.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) rows: usize,
    pub(super) key: Vec<Seen>,
    /// `None`: the value that is known.
    pub(super) value: Option<Seen>,
    pub(super) plus: i64,
}

/// A slot with a value in each turn, or with an array of all returned rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) slot: usize,
    pub(super) is_returned: bool,
}

/// A returned column that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) column: usize,
    pub(super) slot: usize,
    pub(super) pick: Pick,
    /// The array has the rows of all turns of the loop.
    pub(super) is_whole: bool,
}

/// How to make the rows of a COPY.
#[derive(Debug)]
pub(super) struct CopiedRows {
    pub(super) count: Length,
    /// Fields that come from rows of tables: the places of the fields are the slots.
    pub(super) rows: Vec<OfRow>,
    /// The other fields, each with its place.
    pub(super) draws: Vec<(usize, Draw)>,
    pub(super) width: usize,
}

/// How to get the value of a parameter, planned from its `ParameterSource`.
#[derive(Debug)]
pub(super) enum Draw {
    /// Always this text, or null.
    Constant(Option<String>),
    /// A random value of a distribution.
    Drawn(Box<Values>),
    /// The value in the slot of an earlier parameter or returned column.
    Copy { slot: usize, take: Take },
    /// `slope * value in the slot + offset`: the end of a range of 100 ids is its begin + 99.
    Linear {
        slot: usize,
        slope: f64,
        offset: f64,
        /// Another slot with its factor.
        plus: Option<(usize, f64)>,
    },
    /// The value in the slot plus a random number from `least` to `most`.
    Between { slot: usize, least: f64, most: f64 },
    /// A key that no row has.
    Fresh { keys: usize },
    /// The present time minus some seconds.
    Now { minus_s: f64 },
    /// A value that another transaction sent or returned, the oldest first.
    Taken { queue: usize },
    /// A value that the client remembers. One random number decides for all of a step.
    Recalled { memory: usize, shares: Vec<f64>, otherwise: Box<Draw> },
    /// What is known of the row with the values in these slots. `rows`: the place of what the load
    /// sends and reads. `keys`: that of the rows before it.
    Known { rows: usize, keys: usize, given: Vec<usize>, otherwise: Box<Draw> },
    /// How many turns or elements came before.
    Count(Number),
    /// The number of the turn, or of the row of a COPY.
    Turn { offset: i64 },
    /// A composite value or, with names, a JSON object.
    Record { fields: Vec<Draw>, names: Vec<String>, bare: Vec<usize> },
    /// What the value in a slot decides, or the element of the same place; else the last one.
    Cases { slot: usize, cases: Vec<(Option<String>, Draw)>, otherwise: Box<Draw> },
    /// An array.
    List {
        of: Box<Draw>,
        length: Length,
        is_one_value: bool,
        is_distinct: bool,
        is_sorted: bool,
        is_json: bool,
    },
    /// One element of a list: a value of a column.
    Existing { keys: usize, access: Access },
}

/// How many elements a list has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Drawn(Counts),
    Known(Number),
}

/// A number that follows from what came before in the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) of: Counted,
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// The turns of a step.
    Turns { step: usize },
    /// The elements of the array in a slot.
    Elements { slot: usize },
}

/// How the keys of a column are used.
#[derive(Debug)]
pub(super) struct Access {
    /// The distribution of the accesses; absent = every row is equally likely.
    pub(super) values: Option<Box<Values>>,
    /// The ends of the column in the source.
    pub(super) range: Option<(i64, i64)>,
    /// Share of the draws in which a client takes the value that it keeps.
    pub(super) kept: f64,
    /// The distribution is of places among the rows, the most common values first.
    pub(super) by_frequency: bool,
}
