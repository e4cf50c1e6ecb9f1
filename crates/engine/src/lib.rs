//! The load engine: connects, loads data, generates load, measures it.
//!
//! It knows nothing of experiments. One job comes in, a stream of records goes out; see `contract`.

pub mod contract;
