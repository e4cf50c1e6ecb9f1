//! The actions of a transaction written in Rust: send statements and wait for their results, sleep,
//! and draw random numbers.

use std::fmt::{self, Debug};
use std::future::poll_fn;
use std::task::Poll;

use pgdyno_script::Prng;

use super::rows::{Parameter, Rows};
use crate::commit_journal::Entry;
use crate::outcome::{Remark, Stopped};

/// Executes the actions of a session, on one connection of a thread for one terminal.
pub trait Link {
    /// Add a statement to those that wait to be sent.
    ///
    /// Args: `write` appends the value of the parameter with this place, from 0; it returns false
    /// for null.
    fn add(&self, statement: usize, write: &dyn Fn(usize, &mut Vec<u8>) -> bool);

    /// Add SQL to the statements that wait to be sent. It is not one of the type's statements, and
    /// is not timed.
    fn add_text(&self, sql: &str);

    /// Record the commit of the statements that wait to be sent in the journal of the job.
    fn record(&self, entry: Entry);

    /// Send the added statements with one system call.
    fn send(&self) -> Result<(), Stopped>;

    /// Returns: the rows, as soon as every statement that was sent is answered.
    fn poll_replies(&self) -> Poll<Result<Vec<u8>, Stopped>>;

    /// Send a COPY FROM STDIN, after which the server waits for rows.
    fn begin_copy(&self, statement: usize) -> Result<(), Stopped>;

    /// Returns: true as soon as the server takes rows and those before have left; false if it takes
    /// no more.
    fn poll_copy(&self) -> Poll<bool>;

    /// Send rows of a COPY.
    fn send_rows(&self, rows: &[u8]);

    /// End a COPY: no rows follow.
    fn end_copy(&self);

    /// Take back memory that `poll_replies` or `batch_memory` gave.
    fn give_back(&self, memory: Vec<u8>);

    /// Returns: empty memory for the replies of a batch.
    fn batch_memory(&self) -> Vec<u8>;

    fn begin_sleep(&self, duration_ns: u64);

    fn poll_sleep(&self) -> Poll<Result<(), Stopped>>;

    fn with_random(&self, draw: &mut dyn FnMut(&mut Prng));

    /// Add to a counter of the transaction's type.
    fn count(&self, counter: usize, count: u64);

    /// Defer work: the background type with this number will do it.
    fn defer(&self, number: usize, work: u64);

    /// Return the work that a background transaction must do.
    fn deferred_work(&self) -> u64;

    /// Warn the user. The load goes on.
    fn warn(&self, remark: Remark);

    /// Return the number of the terminal among all terminals of the load, from 0.
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

    /// Return the number of the terminal among all terminals of the load, from 0.
    pub fn terminal(&self) -> u32 {
        self.link.terminal()
    }

    /// Draw from the terminal's random numbers. If the transaction is tried again, it draws the
    /// same.
    pub fn random<T>(&self, draw: impl FnOnce(&mut Prng) -> T) -> T {
        let (mut draw, mut drawn) = (Some(draw), None);
        self.link.with_random(&mut |random| drawn = draw.take().map(|draw| draw(random)));
        drawn.expect("a link draws once")
    }

    /// Add to a counter of the transaction's type. It counts only if the transaction completes.
    pub fn count(&self, counter: usize, count: u64) {
        self.link.count(counter, count);
    }

    /// Defer work until a background terminal and a connection are free.
    ///
    /// Args: `number`, of the background type that will do the work.
    pub fn defer(&self, number: usize, work: u64) {
        self.link.defer(number, work);
    }

    /// Warn the user. The load goes on, and each text is shown once.
    pub fn warn(&self, remark: Remark) {
        self.link.warn(remark);
    }

    /// Return the work of a background transaction, as it was given to `defer`.
    pub fn deferred_work(&self) -> u64 {
        self.link.deferred_work()
    }

    /// Send a statement. Args: `statement`, its place among the statements of the type.
    ///
    /// Returns: the number of rows that it read or wrote. Errors: the server refused it, or the
    /// connection is lost.
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
        self.add(statement, parameters);
        self.exchange(read).await
    }

    /// Send the statement that commits, and record in the journal of the job what becomes of the
    /// commit. Args: `statement`, its place among the statements of the type.
    pub async fn commit(&self, statement: usize, entry: Entry) -> Result<(), Stopped> {
        self.link.record(entry);
        self.execute(statement, &[]).await.map(|_| ())
    }

    /// Send SQL that is not part of a transaction, such as a check of the tables before the load.
    pub async fn ask<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.link.add_text(sql);
        self.exchange(read).await
    }

    /// Send a COPY FROM STDIN and its rows.
    ///
    /// Args: `statement`, its place among the statements of the type; `fill` appends the next rows
    /// in the text format of COPY, and nothing if there are no more.
    pub async fn copy_in(
        &self,
        statement: usize,
        mut fill: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), Stopped> {
        self.link.begin_copy(statement)?;
        let mut block = Vec::new();
        while poll_fn(|_| self.link.poll_copy()).await {
            block.clear();
            fill(&mut block);
            if block.is_empty() {
                break;
            }
            self.link.send_rows(&block);
        }
        self.link.end_copy();
        let memory = poll_fn(|_| self.link.poll_replies()).await?;
        self.link.give_back(memory);
        Ok(())
    }

    /// Begin a list of statements that are sent together.
    pub fn pipeline(&self) -> Pipeline<'s> {
        Pipeline { session: *self }
    }

    /// Begin a list of statements whose results are read together.
    ///
    /// Args: `is_pipeline`: if true, they are sent together; else each statement waits for the
    /// result of the one before.
    pub fn batch(&self, is_pipeline: bool) -> Batch<'s> {
        Batch { session: *self, is_pipeline, captured: Vec::new() }
    }

    /// Sleep; other clients go on meanwhile.
    pub async fn sleep(&self, duration_ns: u64) -> Result<(), Stopped> {
        self.link.begin_sleep(duration_ns);
        poll_fn(|_| self.link.poll_sleep()).await
    }

    fn add(&self, statement: usize, parameters: &[&dyn Parameter]) {
        self.link.add(statement, &|place, out| parameters[place].write(out));
    }

    /// Send the added statements.
    ///
    /// Returns: their rows.
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

/// Statements that are sent together; each has its own result.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<'s> {
    session: Session<'s>,
}

impl Pipeline<'_> {
    /// Add a statement. Args: `statement`, its place among the statements of the type.
    pub fn add(&self, statement: usize, parameters: &[&dyn Parameter]) -> &Self {
        self.session.add(statement, parameters);
        self
    }

    /// Add a statement. Args: `write`, as in `Link::add`.
    pub fn add_written(
        &self,
        statement: usize,
        write: &dyn Fn(usize, &mut Vec<u8>) -> bool,
    ) -> &Self {
        self.session.link.add(statement, write);
        self
    }

    /// Send the added statements, and read their results in the same order.
    ///
    /// Errors: the error of the first statement that failed. The statements after it were not
    /// executed.
    pub async fn send<T>(
        &self,
        read: impl FnOnce(&mut Rows) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.session.exchange(read).await
    }
}

/// Statements whose results are read together. So the same code of a transaction works with single
/// round trips and with pipelines.
#[derive(Debug)]
pub struct Batch<'s> {
    session: Session<'s>,
    is_pipeline: bool,
    captured: Vec<u8>,
}

impl Batch<'_> {
    /// Add a statement. Args: `statement`, its place among the statements of the type.
    ///
    /// Errors: outside a pipeline, the server refused it, or the connection is lost.
    pub async fn add(
        &mut self,
        statement: usize,
        parameters: &[&dyn Parameter],
    ) -> Result<(), Stopped> {
        self.session.add(statement, parameters);
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

    /// Read the results in the order of the statements. A pipeline is sent first.
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
