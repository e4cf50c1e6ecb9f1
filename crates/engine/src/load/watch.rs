//! Conditions that end a run: nobody can be connected, or most transactions fail.
//!
//! The coordinator of a load (`mod.rs`) asks for them at each interval, and takes from here the
//! first message of each kind of failure for the summary.

use std::collections::{BTreeMap, VecDeque};

use crate::client::{FIRST_TRANSACTIONS, FailureKind, FailureNews, FailureWords};
use crate::contract::record::FailedStatement;
use crate::contract::record::{ErrorKind, Interval, PhaseName};
use crate::next_step::{of_class, of_state};
use crate::outcome::FailureCode;
use crate::plan::Plan;
use crate::recorder::ThreadId;
use crate::refusal::Refusal;
use crate::tally::Tally;

/// How long a condition lasts before it ends the run.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How long all connections may be lost if there is another host to connect to.
const FAILOVER_NS: u64 = 60_000_000_000;

/// Most characters of a statement in an error.
const TEXT_MAX: usize = 100;

/// The state of both conditions, and the first messages.
#[derive(Debug)]
pub(super) struct Watch {
    /// Length, completed and failed transactions of the last intervals.
    window: VecDeque<(u64, u64, u64)>,
    window_ns: u64,
    disconnected_ns: u64,
    /// Why the last connection was not made.
    not_connected: Option<Refusal>,
    /// The message of the first failure of each kind.
    words: BTreeMap<FailureKind, FailureWords>,
    /// Threads whose first transactions all failed in one way.
    failing: BTreeMap<ThreadId, FailureCode>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch {
            window: VecDeque::new(),
            window_ns: 0,
            disconnected_ns: 0,
            not_connected: None,
            words: BTreeMap::new(),
            failing: BTreeMap::new(),
        }
    }

    /// Take the reason why a connection was not made.
    pub(super) fn on_not_connected(&mut self, refusal: Refusal) {
        self.not_connected = Some(refusal);
    }

    /// Take a new kind of failure of a thread. Returns: the error that ends the run, if it must
    /// end.
    pub(super) fn on_failures(
        &mut self,
        thread: ThreadId,
        news: FailureNews,
        plan: &Plan,
    ) -> Option<Refusal> {
        let code = match news {
            FailureNews::First(words) => {
                self.words.entry(words.kind()).or_insert(words);
                return None;
            }
            FailureNews::All(code) => code,
        };
        if plan.work.connect.outlasts_crashes {
            return None;
        }
        self.failing.insert(thread, code);
        let is_every_thread = self.failing.len() == plan.own_thread_count() as usize;
        (is_every_thread && self.failing.values().all(|&other| other == code)).then(|| {
            let message = format!("the first {FIRST_TRANSACTIONS} transactions all failed");
            self.refusal(message, code, plan)
        })
    }

    /// The server's words by the name of the failure; of a native program, with the statement.
    pub(super) fn messages(&self, plan: &Plan) -> BTreeMap<String, String> {
        let said = |words: &FailureWords| match refused(words, plan) {
            Some(statement) => format!("{}, in {statement}", words.message),
            None => words.message.clone(),
        };
        let kinds = self.words.values().rev();
        kinds.map(|words| (words.code.name(), said(words))).collect()
    }

    /// The failed tries by script, statement and SQLSTATE.
    ///
    /// Args: `counts`, how many of each kind were in the measured phase.
    pub(super) fn failed(
        &self,
        counts: &BTreeMap<FailureKind, u64>,
        plan: &Plan,
    ) -> Vec<FailedStatement> {
        let failed = |(kind, words): (&FailureKind, &FailureWords)| {
            let script = &plan.scripts[words.script];
            let statement = words.statement.and_then(|place| script.statements.get(place));
            FailedStatement {
                script: words.script as u32,
                line: words.line.or(statement.map(|statement| statement.line)),
                code: words.code.name(),
                message: words.message.clone(),
                count: counts.get(kind).copied().unwrap_or(0),
            }
        };
        self.words.iter().map(failed).collect()
    }

    /// Args: `message`, what became of the load; `code`, how its transactions failed.
    fn refusal(&self, message: String, code: FailureCode, plan: &Plan) -> Refusal {
        let words = self.words.values().find(|words| words.code == code);
        let said = words.map_or_else(|| code.name(), |words| words.message.clone());
        let of_server = words.and_then(|words| words.hint.clone());
        let script = words.map(|words| plan.scripts[words.script].name.clone());
        let sqlstate = match code {
            FailureCode::Sql(state) => Some(state.as_str().to_owned()),
            _ => None,
        };
        let hint = next_step(code, plan.work.read_only, of_server);
        let line = words.and_then(|words| words.line);
        let refused = words.and_then(|words| refused(words, plan));
        let at = match (line, refused) {
            (Some(line), _) => format!(", line {line}"),
            (None, Some(text)) => format!(", statement {text}"),
            _ => String::new(),
        };
        let place =
            script.as_ref().map_or_else(String::new, |name| format!(" in script {name}{at}"));
        Refusal {
            sqlstate,
            script,
            line,
            ..Refusal::new(ErrorKind::TooManyFailures, format!("{message}{place}: {said}"), hint)
        }
    }

    /// Take one more interval. Returns: the error that ends the run, if it must end.
    ///
    /// Args: `totals`, all that was counted until now.
    pub(super) fn judge(
        &mut self,
        interval: &Interval,
        totals: &[Tally],
        plan: &Plan,
    ) -> Option<Refusal> {
        if !matches!(interval.phase, PhaseName::Warm | PhaseName::Measure) {
            return None;
        }
        // A load that connects for every transaction may have no connection at this instant.
        if interval.connections > 0 || interval.counts.completed > 0 {
            self.disconnected_ns = 0;
        } else {
            self.disconnected_ns += interval.interval_ns;
        }
        let patience_ns = patience_ns(plan);
        if self.disconnected_ns >= patience_ns {
            let message = format!(
                "all {} connections were lost, and none could be made again for {} s",
                plan.connection_count(),
                patience_ns as f64 / 1e9
            );
            let kind = ErrorKind::ConnectionLost;
            return Some(match self.not_connected.take() {
                // The server answered: it is neither down nor unreachable.
                Some(why) if why.sqlstate.is_some() => {
                    Refusal { kind, message: format!("{message}: {}", why.message), ..why }
                }
                _ => {
                    let hint = "see the server's log: the server may have crashed or been stopped";
                    Refusal::new(kind, message, hint)
                }
            });
        }
        if self.disconnected_ns > 0 || plan.work.connect.outlasts_crashes {
            // Failures from lost connections tell nothing about later transactions.
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
        // A capture may have a statement that always fails: the others go on.
        let least =
            if plan.scripts.iter().any(|script| script.outlasts_refusals) { 0 } else { completed };
        (is_full && failed > completed && least == completed).then(|| {
            let (code, count) = most_frequent(totals);
            let message = format!(
                "more than half of the transactions failed for 5 s: {failed} of {}; the most \
                 frequent failure, {count} times",
                failed + completed
            );
            self.refusal(message, code, plan)
        })
    }
}

/// The failure that was counted most often, and how often.
fn most_frequent(totals: &[Tally]) -> (FailureCode, u64) {
    let mut sums: BTreeMap<FailureCode, u64> = BTreeMap::new();
    let scripts = totals.iter().flat_map(|tally| &tally.scripts);
    for (&code, count) in scripts.flat_map(|script| &script.failures) {
        *sums.entry(code).or_default() += count;
    }
    let most = sums.into_iter().max_by_key(|&(_, count)| count);
    most.unwrap_or((FailureCode::ConnectionLost, 0))
}

/// What the user can do about failures of a kind. Args: `read_only`, whether we made the sessions
/// of the load read-only; `known`, the next step for the error that the server sent.
fn next_step(code: FailureCode, read_only: bool, known: Option<String>) -> String {
    match (code, known) {
        (FailureCode::Sql(state), _) if read_only && state.as_str() == "25006" => {
            "add --allow-write, or run a script that only reads".to_owned()
        }
        (_, Some(known)) => known,
        (FailureCode::Sql(state), None) => {
            let state = state.as_str();
            of_state(state).unwrap_or_else(|| of_class(state)).to_owned()
        }
        _ => "correct the script".to_owned(),
    }
}

/// How long all connections may be lost.
fn patience_ns(plan: &Plan) -> u64 {
    let usual_ns = match plan.target.hosts.len() {
        _ if plan.work.connect.outlasts_crashes => u64::MAX,
        0 | 1 => PATIENCE_NS,
        _ => FAILOVER_NS,
    };
    plan.work.connect.patience_ns.unwrap_or(usual_ns)
}

/// Return the statement that the server refused, if it is one of a native program.
fn refused(words: &FailureWords, plan: &Plan) -> Option<String> {
    let statement = plan.scripts[words.script].statements.get(words.statement?)?;
    Some(begin_of(&statement.text))
}

/// Return the first words of a statement, on one line.
fn begin_of(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
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
        (1..=20).find_map(|second| Some((second, watch.judge(&of(second), &[], plan)?.kind)))
    }

    #[test]
    fn the_next_step_fits_the_failure_that_was_most_frequent() {
        let step = |state: &[u8], read_only| {
            next_step(FailureCode::Sql(pgdyno_wire::SqlState::new(state)), read_only, None)
        };
        assert!(step(b"25006", true).starts_with("add --allow-write"));
        assert!(step(b"25006", false).starts_with("connect to a server that accepts writes"));
        assert!(step(b"40001", false).starts_with("use fewer clients"));
        assert!(step(b"22012", false).starts_with("correct the script"));
        assert_eq!(next_step(FailureCode::OpenBlock, false, None), "correct the script");
        let known = Some("ask".to_owned());
        assert_eq!(next_step(FailureCode::ConnectionLost, false, known), "ask");
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
    fn neither_failures_nor_a_lost_server_end_a_load_that_outlasts_crashes() {
        let mut plan = crate::plan::tests::plan();
        plan.work.connect.patience_ns = None;
        plan.work.connect.outlasts_crashes = true;
        let end = |of: &dyn Fn(u64) -> Interval| seconds_until_end(&plan, of);
        assert_eq!(end(&|_| interval(1, 0, 100)), None);
        assert_eq!(end(&|_| interval(0, 0, 0)), None);
        let all = FailureNews::All(FailureCode::OpenBlock);
        let threads = 0..plan.thread_count();
        let mut watch = Watch::new();
        assert!(
            threads
                .into_iter()
                .all(|thread| { watch.on_failures(thread, all.clone(), &plan).is_none() })
        );
        plan.work.connect.patience_ns = Some(7_000_000_000);
        let lost = seconds_until_end(&plan, |_| interval(0, 0, 0));
        assert_eq!(lost, Some((7, ErrorKind::ConnectionLost)));
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
