//! What this executable adds to the engine's library: a line for each native program and dataset.

use pgdyno_engine::dataset::DatasetKind;
use pgdyno_engine::program::Native;
use pgdyno_ledger::{Ledger, LedgerOptions};
use pgdyno_mirror::{CapturedOptions, Mirror};
use pgdyno_pgbench::dataset::PgbenchOptions;
use pgdyno_tpcc::{TpccLike, TpccOptions};

/// The native programs that `-b` knows.
pub(crate) const PROGRAMS: &[&dyn Native] = &[&TpccLike, &Ledger, &Mirror];

/// The datasets that a job of the kind `init` can load.
pub(crate) const DATASETS: &[DatasetKind] = &[
    DatasetKind::of::<PgbenchOptions>(),
    DatasetKind::of::<TpccOptions>(),
    DatasetKind::of::<LedgerOptions>(),
    DatasetKind::of::<CapturedOptions>(),
];
