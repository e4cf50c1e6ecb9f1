//! The load engine: connects, loads data, generates load, measures it.
//!
//! It knows nothing of experiments. One job comes in, a stream of records goes out; see `contract`.
//!
//! The stages a load job goes through are the modules: `plan` checks it, `load` leads its threads
//! through the phases, each `worker` runs its clients' transactions (`client`) over its `poller`,
//! and what they count (`recorder`, `tally`, `histogram`) comes back to `load` to be written.

pub mod app;
pub mod arrivals;
pub mod caret;
pub mod client;
pub mod clock;
pub mod contract;
pub mod control;
pub mod dataset;
pub mod histogram;
pub mod load;
pub mod names;
pub mod observer;
pub mod outcome;
pub mod output;
pub mod password;
pub mod pgbench;
pub mod plan;
pub mod poller;
pub mod program;
pub mod recorder;
pub mod schedstat;
pub mod session;
pub mod session_attrs;
pub mod tally;
pub mod timeline;
pub mod timers;
pub mod tls;
pub mod tpcc;
pub mod walk;
pub mod worker;
