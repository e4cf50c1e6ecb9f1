//! The load of a recording: transactions of a log as they were, each session in its order.
//!
//! Sessions that follow each other are in one *lane*. With as many clients as lanes, each client
//! has a lane: at most as many sessions are open as in the source, and a session that the
//! application opened is a new connection. With fewer clients, a free client takes the earliest
//! transaction whose lane has none in progress. If transactions begin at their recorded times, each
//! client has the same lanes from begin to end. When the recording is over, so is the load. Keys
//! that the load makes take the place of those that the source made.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::{
    Asked, BoxFuture, Done, Mix, Next, Planned, Rows, Running, Session, Transactions, Unready,
};

use super::needs::refuse_missing_tables;
use super::recording::{
    self, MadeKey, NumberedKey, Recorded, RecordedCall, RecordedTransaction, RecordedValue,
    ValuePart,
};
use crate::load::{MirrorLoad, Recording};

/// Plan the load of a recording. Errors: as `Native::plan`.
///
/// With several load hosts, each has the lanes of its clients.
pub(super) fn plan(
    recording: &Recording,
    load: &MirrorLoad,
    asked: &Asked<'_>,
) -> Result<Planned, String> {
    let clients = asked.terminal_count.max(1) as usize;
    let (recorded, types) =
        recording::read(recording, load, |lane| asked.share.has(lane % clients))?;
    if recorded.transactions.is_empty() {
        return Err("has a recording without a transaction".to_owned());
    }
    let settings = load.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
    let speed = asked.number(SPEED).map(|percent| f64::from(percent) / 100.0);
    // If each client has its lanes, another client never takes them.
    let is_fixed = speed.is_some() || clients >= recorded.lane_count;
    let group_count = if is_fixed { clients } else { 1 };
    let replay = Replay {
        queue: Mutex::new(Queue::new(&recorded, group_count)),
        speed,
        keys: Mutex::new(vec![None; recorded.key_count]),
        tables: load.tables.clone(),
        recorded,
    };
    Ok(Planned {
        types,
        mix: Mix::Program,
        transactions: std::sync::Arc::new(replay),
        settings: settings.collect(),
    })
}

/// The option with which transactions begin at their recorded times: in percent, how fast.
pub(super) const SPEED: &str = "speed";

/// A run of a recording.
#[derive(Debug)]
struct Replay {
    recorded: Recorded,
    /// How fast the recorded times pass; `None` = they do not matter.
    speed: Option<f64>,
    queue: Mutex<Queue>,
    /// Keys that the load has made, by their numbers.
    keys: Mutex<Vec<Option<Box<[u8]>>>>,
    tables: Vec<String>,
}

/// Which transactions are left, and what the terminals do.
#[derive(Debug)]
struct Queue {
    /// Of each lane: its transactions that have not begun.
    left: Vec<VecDeque<usize>>,
    /// Lanes without a transaction in progress, by the begin of their next one. A group of lanes
    /// is for the terminals whose numbers have the same remainder.
    free: Vec<BinaryHeap<Reverse<(i64, usize)>>>,
    /// The transaction of each terminal, and whether it has begun.
    current: HashMap<u32, (usize, bool)>,
}

impl Queue {
    fn new(recorded: &Recorded, group_count: usize) -> Queue {
        let mut left = vec![VecDeque::new(); recorded.lane_count];
        let mut order: Vec<usize> = (0..recorded.transactions.len()).collect();
        // Within a session the order is that of the log, whose times are not exact.
        order.sort_by_key(|&number| recorded.transactions[number].session);
        for number in order {
            left[recorded.transactions[number].lane].push_back(number);
        }
        let free = vec![BinaryHeap::new(); group_count];
        let mut queue = Queue { left, free, current: HashMap::new() };
        (0..recorded.lane_count).for_each(|lane| queue.release(lane, recorded));
        queue
    }

    /// Let a lane begin its next transaction, if it has one.
    fn release(&mut self, lane: usize, recorded: &Recorded) {
        let group = lane % self.free.len();
        if let Some(&next) = self.left[lane].front() {
            self.free[group].push(Reverse((recorded.transactions[next].began_us, lane)));
        }
    }

    /// End the transaction of a terminal, and return its next one. If the terminal lost its
    /// connection before it began, that is the same one.
    fn next(&mut self, terminal: u32, recorded: &Recorded) -> Option<usize> {
        match self.current.remove(&terminal) {
            Some((before, false)) => {
                self.current.insert(terminal, (before, false));
                return Some(before);
            }
            Some((before, true)) => self.release(recorded.transactions[before].lane, recorded),
            None => {}
        }
        let group = terminal as usize % self.free.len();
        let Reverse((_, lane)) = self.free[group].pop()?;
        let number = self.left[lane].pop_front().expect("a free lane has a transaction");
        self.current.insert(terminal, (number, false));
        Some(number)
    }

    /// Begin the transaction of a terminal, and return it.
    fn begin(&mut self, terminal: u32) -> usize {
        let (number, has_begun) =
            self.current.get_mut(&terminal).expect("a terminal begins what it was given");
        *has_begun = true;
        *number
    }
}

impl Transactions for Replay {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(refuse_missing_tables(&self.tables, session))
    }

    fn next(&self, terminal: u32) -> Next {
        let Some(number) = locked(&self.queue).next(terminal, &self.recorded) else {
            return Next::Over;
        };
        let own = &self.recorded.transactions[number];
        Next::Type { number: own.kind, due_ns: self.due_ns_of(own).unwrap_or(0) }
    }

    fn due_ns(&self, terminal: u32) -> Vec<u64> {
        let group_count = locked(&self.queue).free.len();
        let own = self.recorded.transactions.iter();
        own.filter(|own| own.lane % group_count == terminal as usize)
            .filter_map(|own| self.due_ns_of(own))
            .collect()
    }

    fn ends_session(&self, terminal: u32) -> bool {
        let current = locked(&self.queue).current.get(&terminal).copied();
        current.is_some_and(|(number, _)| self.recorded.transactions[number].ends_session)
    }

    fn run<'s>(&'s self, _kind: usize, session: Session<'s>) -> Running<'s> {
        Box::pin(async move {
            let number = locked(&self.queue).begin(session.terminal());
            let own = &self.recorded.transactions[number];
            for call in own.calls.iter().flatten() {
                self.carry_out(call, session).await?;
            }
            Ok(if own.rolls_back { Done::RolledBack } else { Done::Committed })
        })
    }
}

impl Replay {
    /// When a transaction is due, in nanoseconds after the begin of the load.
    fn due_ns_of(&self, own: &RecordedTransaction) -> Option<u64> {
        let after_us = (own.began_us - self.recorded.began_us) as f64;
        self.speed.map(|speed| (after_us * 1000.0 / speed) as u64)
    }

    async fn carry_out(&self, call: &RecordedCall, session: Session<'_>) -> Result<(), Stopped> {
        let pipeline = session.pipeline();
        pipeline.add_written(call.statement, &|place, out| self.write(call, place, out));
        if call.made.is_empty() {
            return pipeline.send(|_| Ok(())).await;
        }
        let made = pipeline.send(|rows| read(rows, &call.made)).await?;
        let mut keys = locked(&self.keys);
        for (key, value) in made {
            keys[key] = Some(value);
        }
        Ok(())
    }

    /// Append the value of a parameter; return false for null.
    fn write(&self, call: &RecordedCall, place: usize, out: &mut Vec<u8>) -> bool {
        match call.values.get(place) {
            None | Some(RecordedValue::Text(None)) => return false,
            Some(RecordedValue::Text(Some(text))) => out.extend_from_slice(text.as_bytes()),
            Some(RecordedValue::Key(key)) => self.write_key(key, out),
            Some(RecordedValue::Parts(parts)) => parts.iter().for_each(|part| match part {
                ValuePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                ValuePart::Key(key) => self.write_key(key, out),
            }),
        }
        true
    }

    fn write_key(&self, key: &NumberedKey, out: &mut Vec<u8>) {
        let made = locked(&self.keys);
        out.extend_from_slice(made[key.key].as_deref().unwrap_or(key.otherwise.as_bytes()));
    }
}

/// A key by its number.
type Key = (usize, Box<[u8]>);

/// Return the keys in the rows of a call, with their numbers.
fn read(rows: &mut Rows, made: &[MadeKey]) -> Result<Vec<Key>, Stopped> {
    let (mut keys, mut row) = (Vec::new(), 0);
    while rows.next_columns(|column, value| {
        let own = made.iter().filter(|own| (own.row, own.column) == (row, column));
        keys.extend(own.filter_map(|own| value.map(|value| (own.key, Box::from(value)))));
    })? {
        row += 1;
    }
    Ok(keys)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(transactions: &[(usize, i64)]) -> Recorded {
        let own = |&(lane, began_us)| RecordedTransaction {
            kind: 0,
            session: lane,
            lane,
            ends_session: false,
            began_us,
            calls: Vec::new(),
            rolls_back: false,
        };
        let lane_count = transactions.iter().map(|own| own.0 + 1).max().unwrap_or(0);
        let transactions = transactions.iter().map(own).collect();
        Recorded { transactions, lane_count, ..Recorded::default() }
    }

    /// Begin the next transaction of a terminal.
    fn begun(queue: &mut Queue, terminal: u32, recorded: &Recorded) -> Option<usize> {
        queue.next(terminal, recorded).inspect(|_| {
            queue.begin(terminal);
        })
    }

    #[test]
    fn a_client_takes_the_earliest_transaction_whose_lane_is_free() {
        let recorded = recorded(&[(0, 10), (0, 20), (1, 30), (0, 40)]);
        let mut queue = Queue::new(&recorded, 1);
        assert_eq!(begun(&mut queue, 7, &recorded), Some(0));
        // Lane 0 is busy, so its transaction of 20 us waits.
        assert_eq!(begun(&mut queue, 8, &recorded), Some(2));
        // All that is left belongs to a lane that is busy.
        assert_eq!(begun(&mut queue, 9, &recorded), None);
        assert_eq!(begun(&mut queue, 7, &recorded), Some(1));
        assert_eq!(begun(&mut queue, 8, &recorded), None);
        assert_eq!(begun(&mut queue, 7, &recorded), Some(3));
        assert_eq!(begun(&mut queue, 7, &recorded), None);
    }

    #[test]
    fn with_a_client_for_each_lane_none_takes_that_of_another() {
        let recorded = recorded(&[(0, 10), (1, 30), (0, 40)]);
        let mut queue = Queue::new(&recorded, 2);
        assert_eq!(begun(&mut queue, 1, &recorded), Some(1));
        assert_eq!(begun(&mut queue, 1, &recorded), None);
        assert_eq!(queue.next(0, &recorded), Some(0));
        // Its connection was lost before the transaction began.
        assert_eq!(begun(&mut queue, 0, &recorded), Some(0));
        assert_eq!(begun(&mut queue, 0, &recorded), Some(2));
    }
}
