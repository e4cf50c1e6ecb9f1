//! What a client runs: a text script, or transactions written in Rust.
//!
//! A native program has three parts: an entry in the table of the executable, its transaction
//! types, and one async function for each type. The functions use only `Session`; they never touch
//! sockets or threads.

mod facts;
mod mix;
mod rows;
mod session;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use pgdyno_script::{Prng, Script};

pub use self::facts::facts;
pub use self::mix::{Dealer, Deck, Mix, Next};
pub use self::rows::{Cents, FromRow, FromText, Parameter, Rows, Unexpected};
pub use self::session::{Batch, Link, Pipeline, Session};
use crate::contract::job::{LoadWork, Protocol, Templates};
use crate::outcome::Stopped;

/// What a planned script executes: a text script, or one transaction type of a native program.
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
    /// Position of the type in its program, from 0.
    pub number: usize,
    /// The dataset whose tables the program uses, as in `pgdyno init NAME`.
    pub dataset: &'static str,
}

/// A native program: its facts, and how to plan a run.
pub trait Native: Debug + Sync {
    /// Return the name of the program, for `-b`.
    fn name(&self) -> &'static str;

    /// Return one line that describes the program to users.
    fn description(&self) -> &'static str;

    /// Return the dataset whose tables the program uses, as in `pgdyno init NAME`.
    fn dataset(&self) -> &'static str;

    /// Return true if the transactions record their commits in the journal of the job.
    fn records_commits(&self) -> bool {
        false
    }

    /// Return true if the transaction types come with the job (`Templates`), so that there are none
    /// without them.
    fn takes_templates(&self) -> bool {
        false
    }

    /// Return the options of a run.
    fn options(&self) -> &'static [ProgramOption] {
        &[]
    }

    /// Return the transaction types of a run, with the object that executes them.
    ///
    /// Errors: text that names the wrong option and the rule, without a full stop.
    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String>;
}

/// One option of a program.
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
    /// A whole number in this range, both ends included. If no number is given, the program
    /// chooses one.
    Number { least: u32, most: u32 },
}

impl Takes {
    /// Check `value`.
    ///
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

/// The options, the seed and the number of clients for which a run is planned.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    given: &'a BTreeMap<String, String>,
    options: &'static [ProgramOption],
    /// The templates of the job, for a program that takes them.
    pub templates: Option<&'a Templates>,
    pub seed: u64,
    /// Number of clients of the load; each client is a terminal.
    pub terminal_count: u32,
    /// What this engine runs of the load.
    pub share: Share,
}

/// The part of a load that one engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    first_thread: u32,
    end_thread: u32,
    thread_count: u32,
}

impl Share {
    /// All of a load.
    pub const WHOLE: Share = Share { first_thread: 0, end_thread: 1, thread_count: 1 };

    pub(crate) fn of(work: &LoadWork) -> Share {
        let own = work.own_threads();
        let thread_count = work.thread_count().max(1);
        Share { first_thread: own.start, end_thread: own.end, thread_count }
    }

    /// Return whether the thing with this number, such as a session, is for this engine. Each is
    /// for one of the engines of a load.
    pub fn has(&self, number: usize) -> bool {
        let thread = (number % self.thread_count as usize) as u32;
        (self.first_thread..self.end_thread).contains(&thread)
    }
}

impl<'a> Asked<'a> {
    /// Check the options of a job against the options of the program.
    ///
    /// Errors: the end of a sentence that begins with the program's name.
    pub fn new(
        native: &dyn Native,
        given: &'a BTreeMap<String, String>,
        templates: Option<&'a Templates>,
        (seed, terminal_count): (u64, u32),
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
        match (native.takes_templates(), templates.is_some()) {
            (true, false) => Err("needs the templates of a capture".to_owned()),
            (false, true) => Err("takes no templates of a capture".to_owned()),
            _ => {
                let share = Share::WHOLE;
                Ok(Asked { given, options, templates, seed, terminal_count, share })
            }
        }
    }

    /// Return the same for an engine that runs a part of the load.
    pub(crate) fn of_share(self, share: Share) -> Asked<'a> {
        Asked { share, ..self }
    }

    /// Return the word that was given for an option, or the default of the option.
    ///
    /// Panics if the program has no option with this name and with words.
    pub fn option(&self, name: &str) -> &str {
        let option = self.options.iter().find(|option| option.name == name);
        let Some(Takes::Words(words)) = option.map(|option| option.takes) else {
            panic!("this program has no option {name} that takes a word");
        };
        self.given.get(name).map_or(words[0], String::as_str)
    }

    /// Return the number that was given for an option; `None` if no number was given.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.given.get(name).map(|value| value.parse().expect("the options were checked"))
    }
}

/// A run of a native program.
#[derive(Debug)]
pub struct Planned {
    /// Transaction types. Each type is counted and timed separately.
    pub types: Vec<TransactionType>,
    pub mix: Mix,
    pub transactions: Arc<dyn Transactions>,
    /// Settings of every session of the load, by name.
    pub settings: Vec<(String, String)>,
}

/// One type of transaction.
#[derive(Clone, Debug, Default)]
pub struct TransactionType {
    pub name: String,
    /// Above 0; at most 255 if types are dealt from a deck.
    pub weight: u32,
    pub reads_only: bool,
    pub pauses: Pauses,
    /// SQL with `$1`, `$2`...; the number of a prepared statement is its position in this list.
    pub statements: Vec<String>,
    /// Types of the parameters of each statement in SQL, for the simple protocol; empty if they are
    /// not known.
    pub parameter_types: Vec<Vec<String>>,
    /// Places of the statements whose rows nobody reads.
    pub unread: Vec<usize>,
    /// `None`: the protocol of the job.
    pub protocol: Option<Protocol>,
    /// Names of the counters that `Session::count` increases, at most `COUNTERS_MAX`.
    pub counters: &'static [&'static str],
    /// If true, no terminal chooses this type: the type executes the work that other types deferred
    /// (`Session::defer`). Background types come last in the list.
    pub is_background: bool,
}

/// Maximum number of counters of a transaction type.
pub const COUNTERS_MAX: usize = 4;

/// Values of the counters of a type, in the order of `TransactionType::counters`.
pub type Counted = [u64; COUNTERS_MAX];

/// Work that a transaction deferred.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    /// Index of the planned script (a transaction type) that executes the work.
    pub script: usize,
    /// The work, as a number that only the program understands.
    pub work: u64,
    /// When the work was deferred, in monotonic nanoseconds.
    pub queued_ns: u64,
}

/// Pauses of a terminal before and after a transaction. They are never part of the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Keying time before the transaction; constant.
    pub keying_ns: u64,
    /// Mean think time after the transaction. Think times have an exponential distribution; a time
    /// above ten times the mean is reduced to ten times the mean.
    pub think_ns_mean: u64,
}

impl Pauses {
    pub fn is_none(&self) -> bool {
        *self == Pauses::default()
    }

    /// Draw a think time, in nanoseconds.
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
    /// Check the data before the load. The engine calls this once in each thread.
    ///
    /// Errors: why the run cannot start, and the next step.
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>>;

    /// Return what a terminal does next; asked only with `Mix::Program`. If a transaction is tried
    /// again, it is not asked.
    fn next(&self, _terminal: u32) -> Next {
        Next::Over
    }

    /// Return when the transactions of a terminal are due in an open loop, in order: nanoseconds
    /// after the begin of the load. Empty = the schedule of the job holds.
    fn due_ns(&self, _terminal: u32) -> Vec<u64> {
        Vec::new()
    }

    /// Return whether the terminal's last transaction was the last of its session, and another
    /// session follows: then the terminal opens a new connection.
    fn ends_session(&self, _terminal: u32) -> bool {
        false
    }

    /// Run one transaction of the type with this number.
    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Running<'s>;
}

/// A transaction in progress.
pub type Running<'s> = BoxFuture<'s, Result<Done, Stopped>>;

/// Work in progress, on one connection.
pub type BoxFuture<'s, T> = Pin<Box<dyn Future<Output = T> + 's>>;

/// How a transaction ended, if it ended as its program intends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Committed,
    /// The program rolled back on purpose. The transaction counts as completed.
    RolledBack,
}

/// Why a program cannot run.
#[derive(Debug)]
pub enum Unready {
    Stopped(Stopped),
    /// The data are missing, or belong to something else.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_exponential_and_cut_at_ten_times_its_mean() {
        let mut random = Prng::from_seed(11);
        let pauses = Pauses { keying_ns: 0, think_ns_mean: 1_000_000 };
        let drawn: Vec<u64> = (0..400_000).map(|_| pauses.think_ns(&mut random)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        // The cut reduces the mean to 1 - exp(-10) of its value; standard error 0.16 %.
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
