//! Progress of the connect phase: one report per second, and how to see that it is stuck.

use crate::contract::job::ClockPair;
use crate::contract::record::{Connecting as ConnectingRecord, ErrorKind};
use crate::plan::Plan;
use crate::refusal::Refusal;

const TOLD_EVERY_NS: u64 = 1_000_000_000;

/// Progress of the connect phase.
#[derive(Debug)]
pub(super) struct Connecting {
    wanted_count: u64,
    /// How long the phase may last without a new connection.
    timeout_ns: u64,
    /// The largest number of connections so far, and when it was reached.
    made_count: u64,
    progressed_ns: u64,
    told_ns: u64,
}

impl Connecting {
    pub(super) fn new(plan: &Plan, began_ns: u64) -> Connecting {
        Connecting {
            wanted_count: u64::from(plan.connection_count()) + u64::from(plan.idle_count()),
            timeout_ns: plan.work.connect.timeout_ns,
            made_count: 0,
            progressed_ns: began_ns,
            told_ns: began_ns,
        }
    }

    /// Note the number of connections at an instant.
    ///
    /// Returns: a progress record, once a second.
    pub(super) fn see(
        &mut self,
        count: u64,
        now_ns: u64,
        clock: ClockPair,
    ) -> Option<ConnectingRecord> {
        if count > self.made_count {
            (self.made_count, self.progressed_ns) = (count, now_ns);
        }
        if now_ns < self.told_ns.saturating_add(TOLD_EVERY_NS) {
            return None;
        }
        self.told_ns = now_ns;
        Some(ConnectingRecord {
            time_ns: clock.unix_ns(now_ns),
            made_count: count,
            wanted_count: self.wanted_count,
        })
    }

    /// When the phase counts as stuck, unless a new connection is made before.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.progressed_ns.saturating_add(self.timeout_ns)
    }

    /// True if no new connection was made for too long.
    pub(super) fn refusal(&self) -> Refusal {
        let seconds = self.timeout_ns as f64 / 1e9;
        Refusal::new(
            ErrorKind::Connect,
            format!(
                "{} of {} connections were made, then none for {seconds} s",
                self.made_count, self.wanted_count
            ),
            "check the server's log, its CPU and its memory; connect_timeout limits the time of \
             each connection",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn patience_ends_only_when_no_further_connection_is_made() {
        let mut plan = crate::plan::tests::plan();
        plan.work.connect.timeout_ns = 60 * SECOND_NS;
        let mut connecting = Connecting::new(&plan, 0);
        let clock = ClockPair { monotonic_ns: 0, unix_ns: 0 };
        assert_eq!(connecting.deadline_ns(), 60 * SECOND_NS);
        for second in 1..=600 {
            let told = connecting.see(second / 50, second * SECOND_NS, clock).expect("each second");
            assert_eq!(told.made_count, second / 50);
            assert!(connecting.deadline_ns() > second * SECOND_NS, "after {second} s");
        }
        // A connection that was lost and made again is not progress.
        connecting.see(11, 610 * SECOND_NS, clock);
        connecting.see(12, 611 * SECOND_NS, clock);
        assert_eq!(connecting.deadline_ns(), 660 * SECOND_NS);
        let said = connecting.refusal().message;
        assert!(said.starts_with("12 of "), "{said}");
        assert!(said.ends_with("then none for 60 s"), "{said}");
    }

    #[test]
    fn progress_is_told_once_a_second() {
        let mut connecting = Connecting::new(&crate::plan::tests::plan(), 0);
        let clock = ClockPair { monotonic_ns: 0, unix_ns: 7 };
        let told =
            (1..=30).filter_map(|tenth| connecting.see(tenth, tenth * SECOND_NS / 10, clock));
        let told: Vec<_> = told.map(|record| (record.made_count, record.time_ns)).collect();
        assert_eq!(told, [(10, SECOND_NS + 7), (20, 2 * SECOND_NS + 7), (30, 3 * SECOND_NS + 7)]);
    }
}
