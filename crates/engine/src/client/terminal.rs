//! A terminal: the part of a client that does not belong to its connection.

use pgdyno_script::{ClientVariables, Prng};

use crate::program::Dealer;

/// The state of a client that exists with and without a connection. It is small, so that a hundred
/// thousand thinking terminals need little memory.
#[derive(Debug)]
pub struct Terminal {
    /// Number among all clients of the load, from 0.
    pub number: u32,
    pub variables: ClientVariables,
    pub random: Prng,
    /// Transactions left to start in the measured phase, if their number is limited.
    pub transactions_left: u64,
    /// How each program chose types so far; empty if they are all chosen by chance alone.
    pub dealers: Vec<Dealer>,
    pub pause: Pause,
}

/// Whether a terminal pauses between two transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It has not run a transaction yet.
    #[default]
    Fresh,
    /// It runs, waits for, or may begin a transaction; this was its last script.
    None { last_script: u32 },
    /// It thinks, and then enters the input of a transaction of this script.
    Until { due_ns: u64, script: u32 },
}

impl Terminal {
    pub fn new(number: u32, variables: ClientVariables, random: Prng, left: u64) -> Terminal {
        Terminal {
            number,
            variables,
            random,
            transactions_left: left,
            dealers: Vec::new(),
            pause: Pause::Fresh,
        }
    }
}
