//! Conditions that end a run: nobody can be connected, or most transactions fail.

use std::collections::VecDeque;

use crate::contract::record::{ErrorKind, Interval, PhaseName};
use crate::plan::{Plan, Refusal};

/// How long a condition lasts before it ends the run.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How long all connections may be lost where there is another host to go to.
const FAILOVER_NS: u64 = 60_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Watch {
    /// Length, completed and failed transactions of the last intervals.
    window: VecDeque<(u64, u64, u64)>,
    window_ns: u64,
    disconnected_ns: u64,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { window: VecDeque::new(), window_ns: 0, disconnected_ns: 0 }
    }

    /// Look at one more interval; what ends the run, if something does.
    pub(super) fn judge(&mut self, interval: &Interval, plan: &Plan) -> Option<Refusal> {
        if !matches!(interval.phase, PhaseName::Warm | PhaseName::Measure) {
            return None;
        }
        // A load that connects for every transaction may have none at the instant of looking.
        if interval.connections > 0 || interval.counts.completed > 0 {
            self.disconnected_ns = 0;
        } else {
            self.disconnected_ns += interval.interval_ns;
        }
        let patience_ns = patience_ns(plan);
        if self.disconnected_ns >= patience_ns {
            return Some(Refusal::new(
                ErrorKind::ConnectionLost,
                format!(
                    "all {} connections were lost, and none could be made again for {} s",
                    plan.connection_count(),
                    patience_ns as f64 / 1e9
                ),
                "see the server's log: the server may have crashed or been stopped",
            ));
        }
        if self.disconnected_ns > 0 {
            // What failed as the connections were lost says nothing of those to come.
            self.window.clear();
            self.window_ns = 0;
            return None;
        }
        self.window.push_back((
            interval.interval_ns,
            interval.counts.completed,
            interval.counts.failed,
        ));
        self.window_ns += interval.interval_ns;
        let is_full = self.window_ns >= PATIENCE_NS;
        let sum = |of: fn(&(u64, u64, u64)) -> u64| self.window.iter().map(of).sum::<u64>();
        let (completed, failed) = (sum(|i| i.1), sum(|i| i.2));
        while let Some((length_ns, ..)) = self.window.front() {
            if self.window_ns - length_ns < PATIENCE_NS {
                break;
            }
            self.window_ns -= length_ns;
            self.window.pop_front();
        }
        (is_full && failed > completed).then(|| {
            Refusal::new(
                ErrorKind::TooManyFailures,
                format!(
                    "more than half of the transactions failed for 5 s: {failed} of {}",
                    failed + completed
                ),
                "the summary's failures name the SQLSTATEs",
            )
        })
    }
}

/// How long all connections may be lost.
fn patience_ns(plan: &Plan) -> u64 {
    let has_alternative = plan.target.hosts.len() > 1;
    let usual_ns = if has_alternative { FAILOVER_NS } else { PATIENCE_NS };
    plan.work.connect.patience_ns.unwrap_or(usual_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::record::Counts;

    fn interval(connections: u64, completed: u64, failed: u64) -> Interval {
        Interval {
            time_ns: 0,
            interval_ns: 1_000_000_000,
            phase: PhaseName::Measure,
            counts: Counts { completed, failed, ..Counts::default() },
            completed_by_script: vec![completed],
            latency_sum_ns: 0,
            in_flight: 0,
            backlog: 0,
            connections,
            thinking: 0,
            cpu_ns: 0,
        }
    }

    fn seconds_until_end(plan: &Plan, of: impl Fn(u64) -> Interval) -> Option<(u64, ErrorKind)> {
        let mut watch = Watch::new();
        (1..=20)
            .find_map(|second| watch.judge(&of(second), plan).map(|refusal| (second, refusal.kind)))
    }

    #[test]
    fn five_seconds_without_a_connection_or_with_most_failing_end_the_run() {
        let mut plan = crate::plan::tests::plan();
        plan.target.hosts.truncate(1);
        let end = |of: &dyn Fn(u64) -> Interval| seconds_until_end(&plan, of);
        assert_eq!(end(&|_| interval(0, 0, 0)), Some((5, ErrorKind::ConnectionLost)));
        // What each client lost with its connection is not most of what a load does.
        assert_eq!(end(&|second| interval(u64::from(second > 1), 0, u64::from(second < 2))), None);
        assert_eq!(end(&|_| interval(1, 10, 11)), Some((5, ErrorKind::TooManyFailures)));
        assert_eq!(end(&|_| interval(1, 11, 10)), None);
        assert_eq!(end(&|second| interval(second % 5, 1, 0)), None);
        // A burst of failures is outweighed by what succeeded in the same five seconds.
        assert_eq!(end(&|second| interval(1, 100, if second == 3 { 300 } else { 0 })), None);
    }

    #[test]
    fn where_there_is_another_host_a_failover_is_waited_for() {
        let mut plan = crate::plan::tests::plan();
        assert!(plan.target.hosts.len() > 1);
        let patience = |plan: &Plan| patience_ns(plan) / 1_000_000_000;
        assert_eq!(patience(&plan), 60);
        plan.work.connect.patience_ns = Some(7_000_000_000);
        assert_eq!(seconds_until_end(&plan, |_| interval(0, 0, 0)).map(|end| end.0), Some(7));
    }
}
