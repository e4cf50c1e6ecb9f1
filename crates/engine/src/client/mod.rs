//! The two actions of a transaction: exchange messages with its backend, and sleep.
//!
//! A transaction is an async fn that the thread's loop polls when its reply is complete or its
//! timer fired. A `Client` is only an index: sockets, buffers and variables are in the `Shard`. It
//! is borrowed between two waits, never during a wait.

mod check;
mod clients;
mod connection;
mod failures;
mod judge;
mod meta;
mod native;
mod prepare;
mod read_only;
mod round_trips;
mod script;
mod shard;
mod terminal;
mod trace;
mod transaction;

use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::task::Poll;

use pgdyno_wire::ServerError;

pub use self::clients::{Clients, News};
pub use self::connection::{Connection, Current, Link, Seat};
pub use self::failures::{FIRST_TRANSACTIONS, FailureKind, FailureNews, FailureWords, Failures};
pub use self::prepare::{Prepared, prepare};
pub use self::round_trips::{RoundTrips, round_trips};
pub use self::shard::Shard;
pub use self::terminal::{Pause, Terminal};
pub use self::transaction::{End, transaction};
use crate::answer_limit::AnswerLimit;
use crate::clock::now_ns;
use crate::outcome::{FailureCode, Stopped};
use crate::plan::Plan;
use crate::timers::Wake;

/// The connection is lost; with the last error of the server, if it sent one.
#[derive(Debug)]
pub struct Lost(pub Option<Box<ServerError>>);

impl From<Lost> for Stopped {
    fn from(Lost(words): Lost) -> Stopped {
        let code = words.map_or(FailureCode::ConnectionLost, |e| FailureCode::Sql(e.sqlstate));
        Stopped::Lost(code)
    }
}

/// One client of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Client<'s> {
    pub plan: &'s Plan,
    shard: &'s RefCell<Shard>,
    index: u32,
}

impl<'s> Client<'s> {
    pub fn new(plan: &'s Plan, shard: &'s RefCell<Shard>, index: u32) -> Client<'s> {
        Client { plan, shard, index }
    }

    /// The thread's state, until the next wait.
    #[inline]
    fn shard(&self) -> RefMut<'s, Shard> {
        self.shard.borrow_mut()
    }

    /// Work on this connection.
    #[inline]
    fn connection<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        work(&mut self.shard().clients.connections[self.index as usize])
    }

    /// Work on this connection and its terminal.
    #[inline]
    fn seat<T>(&self, work: impl FnOnce(Seat<'_>) -> T) -> T {
        work(self.shard().clients.seat(self.index))
    }

    /// Send the bytes that `encode` writes with one system call, and wait for the number of
    /// ReadyForQuery messages that `encode` returns.
    ///
    /// Returns: the time when the last byte of the reply was read. The reply is in the client's
    /// state.
    #[inline]
    async fn exchange(
        &self,
        captures: bool,
        encode: impl FnOnce(&mut Seat<'_>, &mut Vec<u8>, &mut Vec<u8>) -> u32,
    ) -> Result<u64, Lost> {
        self.send(captures, encode);
        let replied = poll_fn(|_| self.poll_reply()).await;
        if self.plan.pgbench.shows_notices() {
            self.tell_notices();
        }
        replied
    }

    #[inline]
    fn tell_notices(&self) {
        if self.connection(|connection| !connection.reply.notices.is_empty()) {
            self.tell_each_notice();
        }
    }

    #[cold]
    fn tell_each_notice(&self) {
        let shard = &mut *self.shard();
        let connection = &mut shard.clients.connections[self.index as usize];
        if let Some(observer) = &mut shard.observer {
            connection.reply.notices.drain(..).for_each(|notice| observer.notice(&notice));
        }
    }

    #[inline]
    fn send(
        &self,
        captures: bool,
        encode: impl FnOnce(&mut Seat<'_>, &mut Vec<u8>, &mut Vec<u8>) -> u32,
    ) {
        let shard = &mut *self.shard();
        let limits_answers = shard.clients.limits_answers;
        let mut seat = shard.clients.seat(self.index);
        shard.out.clear();
        seat.connection.reply.reset(captures);
        let ready_wanted = encode(&mut seat, &mut shard.out, &mut shard.scratch);
        let connection = seat.connection;
        connection.ready_wanted = ready_wanted;
        if limits_answers {
            connection.limit = AnswerLimit::default();
        }
        connection.round_trips += 1;
        assert!(connection.ready_wanted > 0, "an exchange ends with a Sync or a Query");
        shard.recorder.traffic.round_trips += 1;
        let bytes = match &mut connection.tls {
            None => shard.out.as_slice(),
            Some(tls) => tls.encrypt(&shard.out),
        };
        shard.recorder.traffic.bytes_sent += bytes.len() as u64;
        shard.poller.send(self.index, bytes);
    }

    #[inline]
    fn poll_reply(&self) -> Poll<Result<u64, Lost>> {
        self.connection(|connection| {
            if connection.ready_wanted == 0 {
                Poll::Ready(Ok(connection.replied_ns))
            } else if connection.is_up() {
                Poll::Pending
            } else {
                connection.ready_wanted = 0;
                Poll::Ready(Err(connection.lost()))
            }
        })
    }

    /// Sleep, while the thread serves other clients.
    ///
    /// Returns: the time when the sleep ended.
    async fn sleep(&self, duration_ns: u64) -> Result<u64, Lost> {
        self.begin_sleep(duration_ns);
        poll_fn(|_| self.poll_sleep()).await
    }

    fn begin_sleep(&self, duration_ns: u64) {
        let shard = &mut *self.shard();
        let until_ns = now_ns() + duration_ns;
        shard.clients.connections[self.index as usize].sleeps_until_ns = until_ns;
        shard.timers.set(until_ns, Wake::Client(self.index));
    }

    fn poll_sleep(&self) -> Poll<Result<u64, Lost>> {
        let shard = &mut *self.shard();
        let connection = &mut shard.clients.connections[self.index as usize];
        if !connection.is_up() {
            Poll::Ready(Err(connection.lost()))
        } else if connection.sleeps_until_ns <= shard.now_ns {
            Poll::Ready(Ok(shard.now_ns))
        } else {
            Poll::Pending
        }
    }
}

impl Connection {
    fn lost(&mut self) -> Lost {
        // Also kept for the code that judges the lost connection.
        self.last_words = self.reply.error.take().or(self.last_words.take());
        Lost(self.last_words.clone())
    }
}
