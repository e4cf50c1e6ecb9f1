//! The load engine: connects, loads data, generates load, measures it.
//!
//! It knows nothing about experiments, and no native program or dataset by name: the executable
//! passes in the tables of both. One job comes in, a stream of records goes out; see `contract`.
//!
//! A load job passes through the modules in this order. `plan` checks it. `load` leads its threads
//! through the phases. Each `thread` runs its clients' transactions (`client`) over its `poller`.
//! `recorder`, `tally` and `histogram_set` count, and `load` writes the counts as records.

pub mod answer_limit;
pub mod arrivals;
pub mod caret;
pub mod client;
pub mod clock;
pub mod commit_journal;
pub mod contract;
pub mod control;
pub mod dataset;
pub mod dialect;
pub mod histogram;
pub mod histogram_set;
pub mod load;
pub mod names;
pub mod next_step;
pub mod observer;
pub mod outcome;
pub mod output;
pub mod password;
pub mod plan;
pub mod poller;
pub mod program;
pub mod recorder;
pub mod refusal;
pub mod schedstat;
pub mod session;
pub mod session_attrs;
pub mod tally;
pub mod thread;
pub mod timeline;
pub mod timers;
pub mod tls;
pub mod walk;
