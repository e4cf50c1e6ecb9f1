//! One try of a transaction written in Rust: its session over a connection of the thread.

use std::cell::{Cell, RefCell};
use std::task::Poll;

use pgdyno_script::Prng;
use pgdyno_wire::encode;

use super::script::{finish, owner_of};
use super::shard::Waiting;
use super::{Client, Seat, read_only};
use crate::clock::now_ns;
use crate::commit_journal::{Entry, Fate, Sent};
use crate::contract::job::Protocol;
use crate::outcome::{FailureCode, Outcome, Remark, Stopped};
use crate::plan::StatementKind;
use crate::program::{Counted, Deferred, Done, Link, NativeType, Program, Session, Unready};
use crate::timers::Wake;

/// Pause of a COPY whose rows the server does not take as fast as they are made.
const COPY_PAUSE_NS: u64 = 200_000;

/// Run one try of the transaction.
///
/// Returns: how and when it ended.
pub(super) async fn run(
    client: Client<'_>,
    native: &NativeType,
    script: usize,
) -> Result<(Outcome, u64), Stopped> {
    if read_only::must_ask(client) {
        read_only::check(client).await?;
    }
    let link = NativeLink::new(client, script);
    client.connection(|connection| connection.counted = Counted::default());
    let done = native.transactions.run(native.number, Session::new(&link)).await?;
    finish(client, false)?;
    let outcome = match done {
        Done::Committed => Outcome::Completed,
        Done::RolledBack => Outcome::RolledBack,
    };
    Ok((outcome, link.went_on_ns.get()))
}

/// Let a program check its data.
pub(super) async fn prepare(
    client: Client<'_>,
    native: &NativeType,
    script: usize,
) -> Result<(), Unready> {
    let link = NativeLink::new(client, script);
    native.transactions.prepare(Session::new(&link)).await
}

/// The session of one try.
struct NativeLink<'s> {
    client: Client<'s>,
    script: usize,
    waiting: RefCell<Waiting>,
    sent_ns: Cell<u64>,
    /// When the last reply came, or the last sleep ended.
    went_on_ns: Cell<u64>,
}

impl Drop for NativeLink<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.take();
        waiting.clear();
        // Subtle: a transaction that is dropped while the thread's state is borrowed frees it.
        if let Ok(mut shard) = self.client.shard.try_borrow_mut() {
            shard.spare_waiting.push(waiting);
        }
    }
}

impl<'s> NativeLink<'s> {
    fn new(client: Client<'s>, script: usize) -> NativeLink<'s> {
        let waiting = client.shard().spare_waiting.pop().unwrap_or_default();
        NativeLink {
            client,
            script,
            waiting: RefCell::new(waiting),
            sent_ns: Cell::new(0),
            went_on_ns: Cell::new(now_ns()),
        }
    }

    /// Send the added statements. Args: `copies`, the last one is a COPY whose rows follow.
    fn send_added(&self, copies: bool) -> Result<(), Stopped> {
        if self.client.shard().is_cancelling {
            return Err(Stopped::Cancelled);
        }
        let waiting = &*self.waiting.borrow();
        let times_each = times_each(self.client) && waiting.statements.len() > 1;
        let sent_ns = now_ns();
        self.sent_ns.set(sent_ns);
        let commit = waiting.commit.map(|entry| Sent { entry, sent_ns });
        self.client.send(waiting.captures, |Seat { connection, .. }, out, _| {
            connection.copies = copies;
            connection.sleeps_until_ns = 0;
            connection.may_commit = waiting.may_commit;
            connection.commit = commit;
            connection.results_ns = times_each.then(Vec::new);
            if waiting.is_text {
                encode::query(out, |out| out.extend_from_slice(&waiting.messages));
            } else {
                out.extend_from_slice(&waiting.messages);
                // During COPY the server ignores a Sync, so it follows the rows.
                if !copies {
                    encode::sync(out);
                }
            }
            1
        });
        Ok(())
    }

    /// All sent statements are answered.
    fn on_replies(&self, replied_ns: u64) -> Result<Vec<u8>, Stopped> {
        let waiting = &mut *self.waiting.borrow_mut();
        waiting.sent();
        let shard = &mut *self.client.shard();
        let connection = &mut shard.clients.connections[self.client.index as usize];
        let results_ns = connection.results_ns.take().unwrap_or_default();
        let error = connection.reply.error.as_ref().map(|error| error.sqlstate);
        // Also after a failure: a statement stays prepared when its transaction is rolled back.
        let parsed = waiting.newly_prepared.drain(..).take(connection.reply.parse_count as usize);
        parsed.for_each(|number| connection.set_prepared(number));
        let is_committed = connection.reply.committed && error.is_none();
        if let Some(sent) = connection.commit.take() {
            if let Some(journal) = &mut shard.journal {
                journal.add(sent, Fate::of(is_committed, shard.is_cancelling), replied_ns);
            }
            if !is_committed && error.is_none() {
                waiting.statements.clear();
                return Err(Stopped::Failed(FailureCode::UnexpectedRows));
            }
        }
        if let Some(sqlstate) = error {
            let answered = if waiting.statements.len() > 1 { results_ns.len() } else { 0 };
            // Without times nothing tells which statement of several failed.
            let is_known = waiting.statements.len() <= 1 || times_each(self.client);
            let failed = waiting.statements.get(answered).filter(|_| is_known);
            connection.place = failed.copied().unwrap_or(usize::MAX);
            waiting.statements.clear();
            return Err(Stopped::Failed(FailureCode::Sql(sqlstate)));
        }
        if connection.reply.captured_overflow {
            return Err(Stopped::Failed(FailureCode::UnexpectedRows));
        }
        let captured = std::mem::take(&mut connection.reply.captured);
        if times_each(self.client) {
            let owner = owner_of(connection, &shard.recorder);
            for (place, statement) in waiting.statements.drain(..).enumerate() {
                let result_ns = results_ns.get(place).copied().unwrap_or(replied_ns);
                let duration_ns = result_ns.saturating_sub(self.sent_ns.get());
                shard.recorder.statement(owner, self.script, statement, duration_ns);
            }
        }
        waiting.statements.clear();
        Ok(captured)
    }
}

/// Return whether the result of each statement of several is timed.
fn times_each(client: Client<'_>) -> bool {
    client.plan.work.statement_latency
}

impl Link for NativeLink<'_> {
    fn add(&self, statement: usize, write: &dyn Fn(usize, &mut Vec<u8>) -> bool) {
        let plan = self.client.plan;
        let number = plan.layout.statement_index(self.script, statement);
        let script = &plan.scripts[self.script];
        let planned = &script.statements[statement];
        let waiting = &mut *self.waiting.borrow_mut();
        let shard = &mut *self.client.shard();
        let connection = &shard.clients.connections[self.client.index as usize];
        let is_begun = connection.is_in_block()
            || waiting
                .statements
                .iter()
                .any(|&before| script.statements[before].kind == StatementKind::Begin);
        waiting.may_commit |= planned.may_commit(is_begun);
        waiting.statements.push(statement);
        waiting.captures |= planned.captures;
        let scratch = &mut shard.scratch;
        if script.protocol == Protocol::Simple {
            waiting.is_text = true;
            return planned.write_text(write, scratch, &mut waiting.messages);
        }
        let is_known = connection.is_prepared(number) || waiting.newly_prepared.contains(&number);
        if !is_known && script.protocol == Protocol::Prepared {
            waiting.newly_prepared.push(number);
        }
        planned.encode(script.protocol, is_known, &mut waiting.messages, |out| {
            for place in 0..planned.parameter_count {
                scratch.clear();
                let is_there = write(place, scratch);
                encode::push_value(out, is_there.then_some(scratch.as_slice()));
            }
        });
    }

    fn add_text(&self, sql: &str) {
        let waiting = &mut *self.waiting.borrow_mut();
        waiting.captures = true;
        encode::parse(&mut waiting.messages, "", sql.as_bytes());
        encode::Template::new("", 0).execute(&mut waiting.messages, |_| {});
    }

    fn record(&self, entry: Entry) {
        self.waiting.borrow_mut().commit = Some(entry);
    }

    fn send(&self) -> Result<(), Stopped> {
        self.send_added(false)
    }

    fn begin_copy(&self, statement: usize) -> Result<(), Stopped> {
        self.add(statement, &|_, _| false);
        self.send_added(true)
    }

    fn poll_copy(&self) -> Poll<bool> {
        let shard = &mut *self.client.shard();
        let index = self.client.index;
        let connection = &shard.clients.connections[index as usize];
        let is_over = connection.ready_wanted == 0 || !connection.is_up();
        if is_over || connection.reply.error.is_some() || shard.is_cancelling {
            return Poll::Ready(false);
        }
        if !connection.reply.copy_in || connection.sleeps_until_ns > shard.now_ns {
            return Poll::Pending;
        }
        if shard.poller.is_sending(index) {
            let until_ns = now_ns() + COPY_PAUSE_NS;
            shard.clients.connections[index as usize].sleeps_until_ns = until_ns;
            shard.timers.set(until_ns, Wake::Client(index));
            return Poll::Pending;
        }
        Poll::Ready(true)
    }

    fn send_rows(&self, rows: &[u8]) {
        let shard = &mut *self.client.shard();
        let mut out = std::mem::take(&mut shard.out);
        out.clear();
        encode::copy_data(&mut out, rows);
        shard.send(self.client.index, &out);
        shard.recorder.traffic.bytes_sent += out.len() as u64;
        shard.out = out;
        // Other clients of the thread go on before the next rows.
        let now_ns = shard.now_ns;
        let connection = &mut shard.clients.connections[self.client.index as usize];
        connection.sleeps_until_ns = now_ns + 1;
        shard.clients.ready.push_back(self.client.index);
    }

    fn end_copy(&self) {
        let is_text = self.waiting.borrow().is_text;
        let shard = &mut *self.client.shard();
        let connection = &mut shard.clients.connections[self.client.index as usize];
        (connection.copies, connection.reply.copy_in) = (false, false);
        if connection.ready_wanted == 0 || !connection.is_up() {
            return;
        }
        let mut out = Vec::new();
        match shard.is_cancelling {
            true => encode::copy_fail(&mut out, "the load has ended"),
            false => encode::copy_done(&mut out),
        }
        if !is_text {
            encode::sync(&mut out);
        }
        shard.send(self.client.index, &out);
    }

    fn poll_replies(&self) -> Poll<Result<Vec<u8>, Stopped>> {
        match self.client.poll_reply() {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(lost)) => {
                self.client.shard().give_up_commit(self.client.index, now_ns());
                Poll::Ready(Err(lost.into()))
            }
            Poll::Ready(Ok(replied_ns)) => {
                self.went_on_ns.set(replied_ns);
                Poll::Ready(self.on_replies(replied_ns))
            }
        }
    }

    fn give_back(&self, memory: Vec<u8>) {
        self.client.connection(|connection| match connection.reply.captured.capacity() {
            0 => connection.reply.captured = memory,
            _ => self.waiting.borrow_mut().batch = memory,
        });
    }

    fn batch_memory(&self) -> Vec<u8> {
        let mut memory = std::mem::take(&mut self.waiting.borrow_mut().batch);
        memory.clear();
        memory
    }

    fn begin_sleep(&self, duration_ns: u64) {
        self.client.begin_sleep(duration_ns);
    }

    fn poll_sleep(&self) -> Poll<Result<(), Stopped>> {
        self.client.poll_sleep().map(|slept| {
            self.went_on_ns.set(slept?);
            Ok(())
        })
    }

    fn with_random(&self, draw: &mut dyn FnMut(&mut Prng)) {
        self.client.seat(|seat| draw(&mut seat.terminal.random));
    }

    fn count(&self, counter: usize, count: u64) {
        self.client.connection(|connection| connection.counted[counter] += count);
    }

    fn defer(&self, number: usize, work: u64) {
        let own = match &self.client.plan.scripts[self.script].program {
            Program::Native(native) => native.number,
            Program::Script(_) => unreachable!("a native program runs"),
        };
        let script = self.script - own + number;
        let deferred = Deferred { script, work, queued_ns: now_ns() };
        self.client.shard().deferred.push_back(deferred);
    }

    fn deferred_work(&self) -> u64 {
        self.client.connection(|connection| connection.current.map_or(0, |current| current.work))
    }

    fn warn(&self, remark: Remark) {
        self.client.shard().warnings.push(remark);
    }

    fn terminal(&self) -> u32 {
        self.client.seat(|seat| seat.terminal.number)
    }
}
