//! The stage of a thread, which follows the timeline that the coordinator publishes.

use std::sync::Arc;

use crate::client::RoundTrips;
use crate::clock::NEVER_NS;
use crate::timeline::{Shared, Timeline};

/// Number of attempts to prepare a connection, on average, before the run ends.
const PREPARES: u64 = 3;
/// Longest time of the preparation without an answer of the server. A program may count the rows of
/// a large table, so this is longer than for a connection.
const SILENCE_NS: u64 = 600_000_000_000;

/// The stage of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Connect,
    Prepare,
    Load,
    Drain,
    Cancel,
    /// The idle connections are asked whether they live.
    Look,
    Over,
}

/// The present stage, and the timeline that says when the next one begins.
#[derive(Debug)]
pub(super) struct Stages {
    shared: Arc<Shared>,
    generation: u32,
    timeline: Timeline,
    stage: Stage,
    load_begun_ns: Option<u64>,
}

impl Stages {
    pub(super) fn new(shared: Arc<Shared>, timeline: Timeline) -> Stages {
        Stages { shared, generation: 0, timeline, stage: Stage::Connect, load_begun_ns: None }
    }

    /// Take over what the coordinator changed; None if it changed nothing.
    #[inline]
    pub(super) fn follow_timeline(&mut self) -> Option<&Timeline> {
        self.timeline = self.shared.if_changed(&mut self.generation)?;
        Some(&self.timeline)
    }

    #[inline]
    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    #[inline]
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// Enter the next stage whose time has come, and return it. Call it until it returns None.
    #[inline]
    pub(super) fn enter_due(&mut self, now_ns: u64) -> Option<Stage> {
        let Timeline { prepare_ns, warm_ns, drain_ns, drain_end_ns, .. } = self.timeline;
        let begins = [
            (Stage::Prepare, prepare_ns),
            (Stage::Load, warm_ns),
            (Stage::Drain, drain_ns),
            (Stage::Cancel, drain_end_ns),
        ];
        let (stage, _) =
            begins.into_iter().find(|&(stage, at_ns)| self.stage < stage && now_ns >= at_ns)?;
        self.stage = stage;
        if stage == Stage::Load {
            self.load_begun_ns = Some(now_ns);
        }
        Some(stage)
    }

    /// When this thread entered the load.
    pub(super) fn load_begun_ns(&self) -> Option<u64> {
        self.load_begun_ns
    }

    /// Enter a stage that no instant of the timeline begins.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }
}

/// The preparation of the connections for their scripts.
#[derive(Debug)]
pub(super) struct Preparation {
    connection_count: u64,
    prepared_count: u64,
    /// Connections lost while they were prepared.
    loss_count: u64,
    /// When the last answer came; None before and after the preparation.
    answered_ns: Option<u64>,
    round_trips: RoundTrips,
}

impl Preparation {
    pub(super) fn new(connection_count: u32) -> Preparation {
        let connection_count = u64::from(connection_count);
        let round_trips = RoundTrips::default();
        Preparation {
            connection_count,
            prepared_count: 0,
            loss_count: 0,
            answered_ns: None,
            round_trips,
        }
    }

    /// True if the connection may be prepared before the load: the others follow after the first
    /// was prepared without an error.
    pub(super) fn may_begin(&self, index: u32) -> bool {
        index == 0 || self.prepared_count > 0
    }

    /// Count a prepared connection, and return how many there are.
    pub(super) fn prepared(&mut self) -> u64 {
        self.prepared_count += 1;
        self.prepared_count
    }

    pub(super) fn is_complete(&self) -> bool {
        self.prepared_count == self.connection_count
    }

    /// Count a connection that was lost while it was prepared. It connects and is prepared again.
    ///
    /// Returns: how many were lost, if these are too many.
    pub(super) fn lost(&mut self) -> Option<u64> {
        self.loss_count += 1;
        (self.loss_count > PREPARES * self.connection_count).then_some(self.loss_count)
    }

    /// The preparation begins.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.answered_ns = Some(now_ns);
    }

    /// Note that an answer came.
    #[inline]
    pub(super) fn answered(&mut self, now_ns: u64) {
        if let Some(answered_ns) = &mut self.answered_ns {
            *answered_ns = now_ns;
        }
    }

    /// When the preparation ends if the server answers nothing until then.
    #[inline]
    pub(super) fn give_up_ns(&self) -> u64 {
        self.answered_ns.map_or(NEVER_NS, |answered_ns| answered_ns + SILENCE_NS)
    }

    /// The preparation is over: the server was silent for too long. Returns: what was seen.
    pub(super) fn give_up(&mut self) -> String {
        self.answered_ns = None;
        format!(
            "{} of {} connections were prepared for the load, then the server answered nothing \
             for {} s",
            self.prepared_count,
            self.connection_count,
            SILENCE_NS / 1_000_000_000
        )
    }

    /// The round trips are measured, which ends the preparation.
    pub(super) fn measured(&mut self, round_trips: RoundTrips) {
        self.answered_ns = None;
        self.round_trips = round_trips;
    }

    pub(super) fn take_round_trips(&mut self) -> RoundTrips {
        std::mem::take(&mut self.round_trips)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_nothing_ends_the_preparation_and_one_that_answers_late_does_not() {
        let mut preparation = Preparation::new(8);
        assert_eq!(preparation.give_up_ns(), NEVER_NS);
        preparation.begin(1);
        preparation.answered(SILENCE_NS);
        preparation.prepared();
        assert_eq!(preparation.give_up_ns(), 2 * SILENCE_NS);
        assert!(preparation.give_up().starts_with("1 of 8 connections"));
        assert_eq!(preparation.give_up_ns(), NEVER_NS);
    }

    #[test]
    fn a_prepared_thread_may_wait_for_others_without_an_end() {
        let mut preparation = Preparation::new(1);
        preparation.begin(1);
        preparation.measured(RoundTrips::default());
        assert_eq!(preparation.give_up_ns(), NEVER_NS);
    }
}
