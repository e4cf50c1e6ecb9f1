//! What a transaction written in Rust can do: send statements and wait for their results, sleep,
//! and draw random numbers.

use std::fmt::{self, Debug};
use std::future::poll_fn;
use std::task::Poll;

use pgdyno_script::Prng;

use super::rows::{Parameter, Rows};
use crate::outcome::{Remark, Stopped};

/// What carries out a session's wishes: one connection of a thread and its terminal.
pub trait Link {
    /// Write a statement behind those that wait to be sent.
    fn add(&self, statement: usize, parameters: &[&dyn Parameter]);

    /// Write SQL of one's own behind those that wait to be sent; it is not timed.
    fn add_text(&self, sql: &str);

    /// Send what was added, with one system call.
    fn send(&self) -> Result<(), Stopped>;

    /// Returns: the rows, when all that was sent is answered.
    fn poll_replies(&self) -> Poll<Result<Vec<u8>, Stopped>>;

    /// Take back memory that `poll_replies` or `batch_memory` gave.
    fn give_back(&self, memory: Vec<u8>);

    /// Returns: empty memory for the replies of a batch.
    fn batch_memory(&self) -> Vec<u8>;

    fn begin_sleep(&self, duration_ns: u64);

    fn poll_sleep(&self) -> Poll<Result<(), Stopped>>;

    fn with_random(&self, draw: &mut dyn FnMut(&mut Prng));

    /// Add to a counter of the transaction's type.
    fn count(&self, counter: usize, count: u64);

    /// Put work off: a background type of the program, by its number, will do it.
    fn defer(&self, number: usize, work: u64);

    /// What a background transaction must do.
    fn deferred_work(&self) -> u64;

    /// Tell the user something while the load goes on.
    fn warn(&self, remark: Remark);

    /// Number of the client among all of the load, from 0.
    fn terminal(&self) -> u32;
}

/// The connection of a transaction, and its terminal.
#[derive(Clone, Copy)]
pub struct Session<'s> {
    link: &'s dyn Link,
}

impl Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("terminal", &self.terminal()).finish()
    }
}

impl<'s> Session<'s> {
    pub fn new(link: &'s dyn Link) -> Session<'s> {
        Session { link }
    }

    /// Number of the client among all of the load, from 0.
    pub fn terminal(&self) -> u32 {
        self.link.terminal()
    }

    /// Draw from the terminal's random numbers; another try of the transaction draws the same.
    pub fn random<T>(&self, draw: impl FnOnce(&mut Prng) -> T) -> T {
        let (mut draw, mut drawn) = (Some(draw), None);
        self.link.with_random(&mut |random| drawn = draw.take().map(|draw| draw(random)));
        drawn.expect("a link draws once")
    }

    /// Add to a counter of the transaction's type; it holds if the transaction completes.
    pub fn count(&self, counter: usize, count: u64) {
        self.link.count(counter, count);
    }

    /// Put work off until a background terminal is free, and a connection.
    ///
    /// Args: `number`, of the background type that will do it.
    pub fn defer(&self, number: usize, work: u64) {
        self.link.defer(number, work);
    }

    /// Tell the user something while the load goes on; a text is shown once.
    pub fn warn(&self, remark: Remark) {
        self.link.warn(remark);
    }

    /// What a background transaction must do, as it was given to `defer`.
    pub fn deferred_work(&self) -> u64 {
        self.link.deferred_work()
    }

    /// Send a statement, by its place among those of the transaction's type.
    ///
    /// Returns: how many rows it read or wrote. Errors: the server's, or the connection is lost.
    pub async fn execute(
        &self,
        statement: usize,
        parameters: &[&dyn Parameter],
    ) -> Result<u64, Stopped> {
        self.query(statement, parameters, |rows| Ok(rows.count()?)).await
    }

    /// Send a statement, and read its rows.
    pub async fn query<T>(
        &self,
        statement: usize,
        parameters: &[&dyn Parameter],
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.link.add(statement, parameters);
        self.exchange(read).await
    }

    /// Send SQL that no transaction sends, such as a look at the tables before the load.
    pub async fn ask<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.link.add_text(sql);
        self.exchange(read).await
    }

    /// Statements that are sent together.
    pub fn pipeline(&self) -> Pipeline<'s> {
        Pipeline { session: *self }
    }

    /// Statements whose results are read together.
    ///
    /// Args: `is_pipeline`, send them together; else each waits for the result of the one before.
    pub fn batch(&self, is_pipeline: bool) -> Batch<'s> {
        Batch { session: *self, is_pipeline, captured: Vec::new() }
    }

    /// Let other clients go on for so long.
    pub async fn sleep(&self, duration_ns: u64) -> Result<(), Stopped> {
        self.link.begin_sleep(duration_ns);
        poll_fn(|_| self.link.poll_sleep()).await
    }

    /// Returns: the rows of all that was added.
    async fn replies(&self) -> Result<Vec<u8>, Stopped> {
        self.link.send()?;
        poll_fn(|_| self.link.poll_replies()).await
    }

    async fn exchange<T>(
        &self,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let mut rows = Rows::new(self.replies().await?);
        let result = read(&mut rows);
        self.link.give_back(rows.into_memory());
        result
    }
}

/// Statements that are sent together, and answered one by one.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<'s> {
    session: Session<'s>,
}

impl Pipeline<'_> {
    /// Add a statement, by its place among those of the transaction's type.
    pub fn add(&self, statement: usize, parameters: &[&dyn Parameter]) -> &Self {
        self.session.link.add(statement, parameters);
        self
    }

    /// Send what was added, and read the results in the same order.
    ///
    /// Errors: of the first statement that failed; those behind it were not carried out.
    pub async fn send<T>(
        &self,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.session.exchange(read).await
    }
}

/// Statements whose results are read together: one text of a transaction serves for single round
/// trips and for pipelines.
#[derive(Debug)]
pub struct Batch<'s> {
    session: Session<'s>,
    is_pipeline: bool,
    captured: Vec<u8>,
}

impl Batch<'_> {
    /// Add a statement, by its place among those of the transaction's type.
    ///
    /// Errors: outside a pipeline the server's, or the connection is lost.
    pub async fn add(
        &mut self,
        statement: usize,
        parameters: &[&dyn Parameter],
    ) -> Result<(), Stopped> {
        self.session.link.add(statement, parameters);
        if self.is_pipeline {
            return Ok(());
        }
        let replies = self.session.replies().await?;
        if self.captured.capacity() == 0 {
            self.captured = self.session.link.batch_memory();
        }
        self.captured.extend_from_slice(&replies);
        self.session.link.give_back(replies);
        Ok(())
    }

    /// Read the results in the order of the statements; in a pipeline, send it first.
    pub async fn results<T>(
        &mut self,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        if self.is_pipeline {
            return self.session.exchange(read).await;
        }
        let mut rows = Rows::new(std::mem::take(&mut self.captured));
        let result = read(&mut rows);
        self.session.link.give_back(rows.into_memory());
        result
    }
}
