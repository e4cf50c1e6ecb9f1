//! One run of the program, which all its threads share.

use std::sync::OnceLock;

use super::inputs::Inputs;

pub(super) const DEFERRED_DELIVERY: usize = 5;

/// A run: its options, and after the check of the tables what its inputs depend on.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) terminals: u32,
    pub(super) is_home_fixed: bool,
    pub(super) is_pipeline: bool,
    pub(super) calls_procedures: bool,
    pub(super) is_deferred: bool,
    pub(super) inputs: OnceLock<Inputs>,
}

impl Run {
    pub(super) fn inputs(&self) -> &Inputs {
        self.inputs.get().expect("the data are looked at before the load")
    }
}
