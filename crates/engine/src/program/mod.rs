//! What a client runs: a text script, or transactions written in Rust.
//!
//! A native program is a table entry (`Native`), the types of its transactions, and one async fn
//! for each type over `Session`. It knows neither sockets nor threads.

mod facts;
mod rows;
mod session;
mod tpcc;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use pgdyno_script::{Prng, Script};

pub use self::facts::facts;
pub use self::rows::{Cents, FromRow, FromText, Parameter, Rows, Unexpected};
pub use self::session::{Batch, Link, Pipeline, Session};
use crate::outcome::Stopped;

/// The native programs that `-b` knows.
pub const NATIVES: &[&dyn Native] = &[&tpcc::TpccLike];

/// What runs when a script is chosen.
#[derive(Debug)]
pub enum Program {
    Script(Script),
    Native(NativeType),
}

impl Program {
    pub fn as_script(&self) -> Option<&Script> {
        match self {
            Program::Script(script) => Some(script),
            Program::Native(_) => None,
        }
    }
}

/// One transaction type of a native program.
#[derive(Clone, Debug)]
pub struct NativeType {
    pub transactions: Arc<dyn Transactions>,
    /// Of the type in its program.
    pub number: usize,
    /// Whose tables it uses: the word that `init` takes.
    pub dataset: &'static str,
}

/// A native program: what it is, and how a run of it is made.
pub trait Native: Sync {
    /// What `-b` calls it.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn description(&self) -> &'static str;

    /// Whose tables it uses: the word that `init` takes.
    fn dataset(&self) -> &'static str;

    /// How a run may be varied.
    fn options(&self) -> &'static [ProgramOption] {
        &[]
    }

    /// Make a run.
    ///
    /// Errors: what is wrong with the options, as a sentence without its full stop.
    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String>;
}

/// One way to vary a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramOption {
    pub name: &'static str,
    pub takes: Takes,
    pub description: &'static str,
}

/// The values of an option.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// One of these words, the default first.
    Words(&'static [&'static str]),
    /// A whole number in this range, both ends included. Without it the program chooses.
    Number { least: u32, most: u32 },
}

impl Takes {
    /// Errors: the rule that `value` breaks.
    fn check(self, value: &str) -> Result<(), String> {
        let (holds, rule) = match self {
            Takes::Words(words) => (words.contains(&value), format!("one of {}", words.join(", "))),
            Takes::Number { least, most } => {
                let number = value.parse::<u32>();
                let holds = number.is_ok_and(|number| (least..=most).contains(&number));
                (holds, format!("a whole number from {least} to {most}"))
            }
        };
        if holds { Ok(()) } else { Err(rule) }
    }
}

/// What a run is made for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    given: &'a BTreeMap<String, String>,
    options: &'static [ProgramOption],
    pub seed: u64,
    /// Number of clients of the load.
    pub terminal_count: u32,
}

impl<'a> Asked<'a> {
    /// Hold the options of a job against those of the program.
    pub fn new(
        native: &dyn Native,
        given: &'a BTreeMap<String, String>,
        seed: u64,
        terminal_count: u32,
    ) -> Result<Asked<'a>, String> {
        let options = native.options();
        for (name, value) in given {
            let Some(option) = options.iter().find(|option| option.name == name) else {
                let names: Vec<_> = options.iter().map(|option| option.name).collect();
                return Err(format!(
                    "has no option \"{name}\"; its options are: {}",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                ));
            };
            if let Err(rule) = option.takes.check(value) {
                return Err(format!("option {name} must be {rule}, got \"{value}\""));
            }
        }
        Ok(Asked { given, options, seed, terminal_count })
    }

    /// The word given for an option, or its default.
    pub fn option(&self, name: &str) -> &str {
        let option = self.options.iter().find(|option| option.name == name);
        let Some(Takes::Words(words)) = option.map(|option| option.takes) else {
            panic!("{name} is no option with words of this program");
        };
        self.given.get(name).map_or(words[0], String::as_str)
    }

    /// The number given for an option, if one was.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.given.get(name).map(|value| value.parse().expect("the options were checked"))
    }
}

/// A run of a native program.
#[derive(Debug)]
pub struct Planned {
    /// Types of transactions, of which each is counted and timed apart.
    pub types: Vec<TransactionType>,
    /// Deal the types from a deck with as many cards as their weights say, shuffled anew by each
    /// terminal; else each is drawn by weight.
    pub is_dealt: bool,
    pub transactions: Arc<dyn Transactions>,
    /// Settings of every session of the load, by name.
    pub settings: Vec<(&'static str, String)>,
}

/// One type of transaction.
#[derive(Clone, Debug)]
pub struct TransactionType {
    pub name: &'static str,
    /// Above 0; at most 255 where types are dealt.
    pub weight: u32,
    pub reads_only: bool,
    pub pauses: Pauses,
    /// SQL with `$1`, `$2`..., each prepared under its place in this list.
    pub statements: Vec<String>,
    /// What `Session::count` counts, at most `COUNTERS_MAX`.
    pub counters: &'static [&'static str],
    /// No terminal chooses it: it does what other types put off by `Session::defer`. Such types
    /// come last.
    pub is_background: bool,
}

/// Counters of a transaction type, at most.
pub const COUNTERS_MAX: usize = 4;

/// The counters of a type, in its order.
pub type Counted = [u64; COUNTERS_MAX];

/// Work that a transaction put off.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    /// Index of the planned script that does it.
    pub script: usize,
    /// As the program understands it.
    pub work: u64,
    pub queued_ns: u64,
}

/// How long a terminal keeps still for a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Before it, always as long.
    pub keying_ns: u64,
    /// After it: mean of a negative exponential distribution, cut at ten times the mean.
    pub think_ns_mean: u64,
}

impl Pauses {
    pub fn is_none(&self) -> bool {
        *self == Pauses::default()
    }

    /// Draw a thinking time.
    pub fn think_ns(&self, random: &mut Prng) -> u64 {
        if self.think_ns_mean == 0 {
            return 0;
        }
        // unit() is below 1, so the logarithm is finite.
        let ratio = -(1.0 - random.unit()).ln();
        (self.think_ns_mean as f64 * ratio.min(10.0)) as u64
    }
}

/// The transactions of a run, shared by its threads.
pub trait Transactions: Debug + Send + Sync {
    /// Look at the data before the load; called once in each thread.
    ///
    /// Errors: what stands against the run, and the next step.
    fn prepare<'s>(&'s self, session: Session<'s>) -> Task<'s, Result<(), Unready>>;

    /// Run one transaction of the type with this number.
    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Task<'s, Result<Done, Stopped>>;
}

/// A transaction in progress, or the look at the data.
pub type Task<'s, T> = Pin<Box<dyn Future<Output = T> + 's>>;

/// A transaction did what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Committed,
    /// As its program wants it now and then.
    RolledBack,
}

/// Why a program cannot run.
#[derive(Debug)]
pub enum Unready {
    Stopped(Stopped),
    /// The data are not there, or are others.
    Refused {
        message: String,
        hint: String,
    },
}

impl From<Stopped> for Unready {
    fn from(stopped: Stopped) -> Unready {
        Unready::Stopped(stopped)
    }
}

/// Transaction types still in a terminal's deck: how many cards of each. A draw without putting
/// back is a draw from a shuffled deck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deck([u8; Deck::TYPES_MAX]);

impl Deck {
    /// Types of a program that deals.
    pub const TYPES_MAX: usize = 8;

    /// Take the next card; a new deck when none is left.
    pub fn deal(&mut self, weights: &[u32], random: &mut Prng) -> usize {
        let mut left: u64 = self.0.iter().map(|&cards| u64::from(cards)).sum();
        if left == 0 {
            for (cards, &weight) in self.0.iter_mut().zip(weights) {
                *cards = weight as u8;
                left += u64::from(*cards);
            }
        }
        let mut drawn = random.offset(left - 1);
        for (number, cards) in self.0.iter_mut().enumerate() {
            if drawn < u64::from(*cards) {
                *cards -= 1;
                return number;
            }
            drawn -= u64::from(*cards);
        }
        unreachable!("the draw is below the number of cards")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deck_has_exactly_its_cards_in_another_order() {
        let (mut deck, mut random) = (Deck::default(), Prng::from_seed(3));
        let weights = [10, 10, 1, 1, 1];
        let mut orders = Vec::new();
        for _ in 0..20 {
            let cards: Vec<usize> = (0..23).map(|_| deck.deal(&weights, &mut random)).collect();
            let counts = (0..5).map(|number| cards.iter().filter(|&&c| c == number).count());
            assert_eq!(counts.collect::<Vec<_>>(), [10, 10, 1, 1, 1]);
            assert!(!orders.contains(&cards));
            orders.push(cards);
        }
    }

    #[test]
    fn thinking_is_exponential_and_cut_at_ten_times_its_mean() {
        let mut random = Prng::from_seed(11);
        let pauses = Pauses { keying_ns: 0, think_ns_mean: 1_000_000 };
        let drawn: Vec<u64> = (0..400_000).map(|_| pauses.think_ns(&mut random)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        // 1 - exp(-10) of the mean is left by the cut; standard error 0.16 %.
        assert!((mean / 999_955.0 - 1.0).abs() < 0.006, "{mean}");
        let above = |ratio: f64| {
            let limit_ns = (ratio * 1e6) as u64;
            drawn.iter().filter(|&&ns| ns > limit_ns).count() as f64 / drawn.len() as f64
        };
        assert!((above(1.0) - (-1.0_f64).exp()).abs() < 0.003);
        assert!((above(3.0) - (-3.0_f64).exp()).abs() < 0.002);
        assert_eq!(*drawn.iter().max().unwrap(), 10_000_000);
        assert_eq!(Pauses::default().think_ns(&mut random), 0);
    }
}
