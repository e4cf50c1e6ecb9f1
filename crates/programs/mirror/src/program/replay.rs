//! The load of a recording: transactions of a log as they were, each session in its order.
//!
//! A free client takes the earliest transaction whose session has none in progress. So with as many
//! clients as the source had, the transactions meet as they met there; with fewer clients, sessions
//! share them. When the recording is over, so is the load. Keys that the load makes take the place
//! of those that the source made.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::{
    BoxFuture, Done, Mix, Next, Planned, Rows, Running, Session, Share, Transactions, Unready,
};

use super::needs::refuse_missing_tables;
use super::recording::{
    self, MadeKey, NumberedKey, Recorded, RecordedCall, RecordedValue, ValuePart,
};
use crate::load::{MirrorLoad, Recording};

/// Plan the load of a recording. Errors: as `Native::plan`.
///
/// Args: `share`, what this engine runs: with several load hosts, each has its own sessions.
pub(super) fn plan(
    recording: &Recording,
    load: &MirrorLoad,
    share: Share,
) -> Result<Planned, String> {
    let (recorded, types) = recording::read(recording, load, share)?;
    if recorded.transactions.is_empty() {
        return Err("has a recording without a transaction".to_owned());
    }
    let settings = load.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
    let replay = Replay {
        queue: Mutex::new(Queue::new(&recorded)),
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

/// A run of a recording.
#[derive(Debug)]
struct Replay {
    recorded: Recorded,
    queue: Mutex<Queue>,
    /// Keys that the load has made, by their numbers.
    keys: Mutex<Vec<Option<Box<[u8]>>>>,
    tables: Vec<String>,
}

/// Which transactions are left, and what the terminals do.
#[derive(Debug)]
struct Queue {
    /// Of each session: its transactions that have not begun.
    left: Vec<VecDeque<usize>>,
    /// Sessions without a transaction in progress, by the begin of their next one.
    free: BinaryHeap<Reverse<(i64, usize)>>,
    /// The transaction of each terminal.
    current: HashMap<u32, usize>,
}

impl Queue {
    fn new(recorded: &Recorded) -> Queue {
        let mut left = vec![VecDeque::new(); recorded.session_count];
        for (number, own) in recorded.transactions.iter().enumerate() {
            left[own.session].push_back(number);
        }
        let mut queue = Queue { left, free: BinaryHeap::new(), current: HashMap::new() };
        (0..recorded.session_count).for_each(|session| queue.release(session, recorded));
        queue
    }

    /// Let a session begin its next transaction, if it has one.
    fn release(&mut self, session: usize, recorded: &Recorded) {
        if let Some(&next) = self.left[session].front() {
            self.free.push(Reverse((recorded.transactions[next].began_us, session)));
        }
    }

    /// End the transaction of a terminal, and return its next one.
    fn next(&mut self, terminal: u32, recorded: &Recorded) -> Option<usize> {
        if let Some(before) = self.current.remove(&terminal) {
            self.release(recorded.transactions[before].session, recorded);
        }
        let Reverse((_, session)) = self.free.pop()?;
        let number = self.left[session].pop_front().expect("a free session has a transaction");
        self.current.insert(terminal, number);
        Some(number)
    }
}

impl Transactions for Replay {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(refuse_missing_tables(&self.tables, session))
    }

    fn next(&self, terminal: u32) -> Next {
        match locked(&self.queue).next(terminal, &self.recorded) {
            Some(number) => Next::Type(self.recorded.transactions[number].kind),
            None => Next::Over,
        }
    }

    fn run<'s>(&'s self, _kind: usize, session: Session<'s>) -> Running<'s> {
        Box::pin(async move {
            let number = locked(&self.queue).current[&session.terminal()];
            let own = &self.recorded.transactions[number];
            for call in own.calls.iter().flatten() {
                self.carry_out(call, session).await?;
            }
            Ok(if own.rolls_back { Done::RolledBack } else { Done::Committed })
        })
    }
}

impl Replay {
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
    use super::super::recording::RecordedTransaction;
    use super::*;

    fn recorded(transactions: &[(usize, i64)]) -> Recorded {
        let own = |&(session, began_us)| RecordedTransaction {
            kind: 0,
            session,
            began_us,
            calls: Vec::new(),
            rolls_back: false,
        };
        let session_count = transactions.iter().map(|own| own.0 + 1).max().unwrap_or(0);
        let transactions = transactions.iter().map(own).collect();
        Recorded { transactions, session_count, key_count: 0 }
    }

    #[test]
    fn a_client_takes_the_earliest_transaction_whose_session_is_free() {
        let recorded = recorded(&[(0, 10), (0, 20), (1, 30), (0, 40)]);
        let mut queue = Queue::new(&recorded);
        assert_eq!(queue.next(7, &recorded), Some(0));
        // Session 0 is busy, so its transaction of 20 us waits.
        assert_eq!(queue.next(8, &recorded), Some(2));
        // All that is left belongs to a session that is busy.
        assert_eq!(queue.next(9, &recorded), None);
        assert_eq!(queue.next(7, &recorded), Some(1));
        assert_eq!(queue.next(8, &recorded), None);
        assert_eq!(queue.next(7, &recorded), Some(3));
        assert_eq!(queue.next(7, &recorded), None);
    }
}
