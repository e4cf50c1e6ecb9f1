//! What follows an event: of a socket, of a connection that is made, of a task, of a stage.

use std::io;

use pgdyno_script::Value;
use pgdyno_wire::{ProtocolError, encode};

use super::Loop;
use super::connector::Outcome;
use super::report::Message;
use super::stage::Stage;
use super::tasks::{MakeTask, Task, TaskEnd};
use crate::client::{End, Link, News, Prepared};
use crate::clock::now_ns;
use crate::contract::job::Protocol;
use crate::contract::record::ErrorKind;
use crate::program::Program;
use crate::refusal::Refusal;
use crate::tls::{Attempt, TlsError};

impl<'s, M: MakeTask<'s>> Loop<'s, M> {
    /// Handle the events of the sockets other than replies.
    pub(super) fn on_news(&mut self) {
        let mut all = std::mem::take(&mut self.shard.borrow_mut().clients.news);
        for news in all.drain(..) {
            match news {
                News::Connected(token) => self.on_connected(token),
                News::Opening(token, bytes) => self.on_opening(token, &bytes),
                News::Closed(token, error) => self.on_closed(token, error),
                News::Tls(index, error) => self.on_tls(index, error),
                News::Broken(index, error) => self.on_broken(index, &error),
                News::CopyIn(index) => self.refuse_copy(index),
                News::Endless(index, seen) => self.on_endless(index, seen),
                News::Unsafe(index, setting) => self.on_unsafe(index, setting),
            }
        }
        // Reuse the memory, unless handling the news added more.
        let news = &mut self.shard.borrow_mut().clients.news;
        if news.is_empty() {
            *news = all;
        }
    }

    fn on_connected(&mut self, token: u32) {
        let season = self.season();
        let outcome = {
            let shard = &mut *self.shard.borrow_mut();
            if self.cancels.is_token(token) {
                return self.cancels.on_connected(token, shard, &self.connector);
            }
            self.connector.connected(token, shard, season)
        };
        outcome.into_iter().for_each(|outcome| self.on_connect_outcome(outcome));
    }

    /// Bytes for a connection that is being opened, or for a cancel request.
    fn on_opening(&mut self, token: u32, bytes: &[u8]) {
        let season = self.season();
        let outcome = {
            let shard = &mut *self.shard.borrow_mut();
            if self.cancels.is_token(token) {
                return self.cancels.on_received(token, bytes, shard, &self.connector);
            }
            self.connector.received(token, bytes, shard, season)
        };
        outcome.into_iter().for_each(|outcome| self.on_connect_outcome(outcome));
    }

    /// A connection is lost, in any state.
    fn on_closed(&mut self, token: u32, error: Option<io::Error>) {
        if self.cancels.is_token(token) {
            let shard = &mut *self.shard.borrow_mut();
            return self.cancels.on_closed(token, shard, &self.connector);
        }
        let season = self.season();
        let outcome = {
            let shard = &mut *self.shard.borrow_mut();
            match shard.clients.connections[token as usize].link {
                // Subtle: the event that ended the connection came in the same turn and was already
                // handled.
                Link::Down => return,
                Link::Up => None,
                _ => Some(self.connector.closed(token, error, shard, season)),
            }
        };
        match outcome {
            None => self.on_lost(token),
            Some(outcome) => {
                outcome.into_iter().for_each(|outcome| self.on_connect_outcome(outcome));
            }
        }
    }

    /// An open connection is lost.
    fn on_lost(&mut self, index: u32) {
        let is_idle = self.tasks.is_idle_connection(index);
        let is_running = !is_idle && self.tasks.is_running(index);
        {
            let shard = &mut *self.shard.borrow_mut();
            self.connector.lost(index, shard);
            if is_idle {
                self.idle.lost(index, shard);
            } else {
                let connection = &mut shard.clients.connections[index as usize];
                connection.is_in_doubt = connection.may_have_committed();
                if connection.is_in_doubt {
                    self.in_flight.commit_is_in_doubt();
                }
                connection.disconnected();
                // Its transaction, if any, gets the error.
                if is_running {
                    shard.clients.ready.push_back(index);
                }
            }
        }
        if !is_idle && self.plan.pgbench.connects_once() {
            // pgbench makes a connection once.
            if !is_running && self.stages.stage() >= Stage::Load {
                self.abort_client(index);
            }
            return;
        }
        // An idle connection that was lost is not opened again: the number at the end shows the
        // loss.
        let is_wanted = !is_idle || self.stages.stage() < Stage::Prepare;
        if is_wanted && self.season().may_connect {
            self.connector.replace(index, &mut self.shard.borrow_mut());
        }
    }

    /// End an open connection because of an error, which ends the run.
    fn end_connection(&mut self, index: u32, refusal: Refusal) {
        self.report.tell(Message::Fatal(Box::new(refusal)));
        self.shard.borrow_mut().poller.close(index);
        self.on_closed(index, None);
    }

    /// The server broke the protocol, so earlier messages cannot be trusted either.
    fn on_broken(&mut self, index: u32, error: &ProtocolError) {
        let message = format!("the server broke the protocol: {error}");
        let hint = "a device between engine and server may have changed the data";
        self.end_connection(index, Refusal::new(ErrorKind::Protocol, message, hint));
    }

    /// The server answers without an end. A session that is not open yet counts as not made, so
    /// another host may follow.
    fn on_endless(&mut self, index: u32, seen: String) {
        let is_up = self.shard.borrow().clients.connections[index as usize].is_up();
        if !is_up {
            let error = io::Error::new(io::ErrorKind::InvalidData, seen);
            return self.on_closed(index, Some(error));
        }
        let message = format!("a session was prepared for the load, and {seen}");
        let hint = "see the log of the server, or of the pooler before it; a pooler or a proxy may \
                    have changed the data";
        self.end_connection(index, Refusal::new(ErrorKind::Protocol, message, hint));
    }

    /// The server has answered nothing for too long in the preparation.
    pub(super) fn end_silence(&mut self) {
        let hint = "see what the session waits for (pg_stat_activity), such as a lock, and the \
                    server's log";
        self.report.fatal(ErrorKind::Prepare, self.preparation.give_up(), hint);
    }

    /// The session of a read-only load could write from now on: it ends, and the load.
    fn on_unsafe(&mut self, index: u32, setting: &str) {
        let script = {
            let shard = self.shard.borrow();
            let current = shard.clients.connections[index as usize].current;
            current.map(|current| self.plan.scripts[current.script].name.clone())
        };
        let why = match setting {
            "default_transaction_read_only" => "is off",
            _ => "changes the meaning of texts",
        };
        let message = format!(
            "the load is read-only, and {setting} {why} in one of its sessions, so its next \
             transaction could write: a read-only load ends before that transaction"
        );
        let hint = format!(
            "remove what changes {setting}: a function, SET or a pooler; if the load may write, \
             add --allow-write"
        );
        let refusal = Refusal { script, ..Refusal::new(ErrorKind::ReadOnlyLost, message, hint) };
        self.end_connection(index, refusal);
    }

    /// The TLS session of an open connection has bytes to send, or has failed, which ends the
    /// connection.
    fn on_tls(&mut self, index: u32, error: Option<TlsError>) {
        {
            let shard = &mut *self.shard.borrow_mut();
            let Some(tls) = &mut shard.clients.connections[index as usize].tls else { return };
            shard.poller.send(index, tls.to_send());
        }
        if let Some(TlsError { message, hint, .. }) = error {
            self.end_connection(index, Refusal::new(ErrorKind::Protocol, message, hint));
        }
    }

    /// COPY FROM STDIN gets no data: it ends with an error.
    fn refuse_copy(&mut self, index: u32) {
        let mut out = Vec::new();
        encode::copy_fail(&mut out, "a script cannot send COPY data");
        if self.plan.work.protocol != Protocol::Simple {
            // During COPY the server ignores a Sync, so the one that was sent is lost.
            encode::sync(&mut out);
        }
        self.shard.borrow_mut().send(index, &out);
    }

    pub(super) fn on_connect_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Up(index) if self.tasks.is_idle_connection(index) => {
                if self.stages.stage() == Stage::Connect {
                    self.idle.opened();
                }
                self.tell_if_connected();
            }
            Outcome::Up(index) => self.on_up(index),
            Outcome::Fatal(refusal) => self.report.tell(Message::Fatal(refusal)),
            Outcome::GaveUp(index) => {
                self.in_flight.end_without_connection(index, &mut self.shard.borrow_mut());
                self.abort_client(index);
            }
        }
    }

    /// The connection of a client is open.
    fn on_up(&mut self, index: u32) {
        match self.stages.stage() {
            Stage::Connect => self.tell_if_connected(),
            Stage::Prepare => self.prepare(index),
            _ if self.plan.pgbench.connects_late() => self.start_connected(index),
            // The transaction that needs the statements parses them, as in pgbench.
            _ if self.plan.pgbench.skips_preparing() || self.plan.renews_connections() => {
                self.connection_is_free(index);
            }
            _ => self.prepare(index),
        }
    }

    fn tell_if_connected(&mut self) {
        if self.stages.stage() == Stage::Connect && self.connector.is_complete() {
            self.report.connected();
        }
    }

    /// Begin a transaction that waited for its connection. As in pgbench, the time of connecting is
    /// part of the latency in an open loop, and not in a closed loop.
    fn start_connected(&mut self, index: u32) {
        let started_ns = now_ns();
        let script = {
            let connection = &mut self.shard.borrow_mut().clients.connections[index as usize];
            let current = connection.current.as_mut().expect("who connects late has a transaction");
            current.started_ns = started_ns;
            if !self.plan.layout.is_open_loop() {
                current.scheduled_ns = started_ns;
            }
            current.script
        };
        self.tasks.begin(index, Task::Transaction { script, started_ns });
    }

    /// Prepare a connected client for its scripts.
    fn prepare(&mut self, index: u32) {
        let is_up = self.shard.borrow().clients.connections[index as usize].is_up();
        let is_initial = self.stages.stage() == Stage::Prepare;
        let may_begin = !is_initial || self.preparation.may_begin(index);
        if is_up && may_begin && !self.tasks.is_running(index) {
            self.tasks.begin(index, Task::Prepare { is_first: is_initial && index == 0 });
        }
    }

    #[inline]
    pub(super) fn on_task_end(&mut self, index: u32, end: TaskEnd) {
        match end {
            TaskEnd::Transaction(end) => self.on_transaction_end(index, end),
            TaskEnd::Prepared(Prepared::Ready { scale }) => self.on_prepared(index, scale),
            TaskEnd::Prepared(Prepared::Refused(refusal)) => {
                self.refused_in_prepare(index, refusal);
            }
            TaskEnd::Prepared(Prepared::Lost) => self.on_lost_in_prepare(),
            TaskEnd::RoundTrips(round_trips) => {
                self.preparation.measured(round_trips);
                self.report.tell(Message::Prepared);
            }
        }
    }

    fn on_prepared(&mut self, index: u32, scale: Option<i64>) {
        {
            let shard = &mut *self.shard.borrow_mut();
            for warning in shard.warnings.drain(..) {
                self.report.tell(Message::Warning(warning));
            }
            if let Some(scale) = scale {
                for terminal in &mut shard.clients.terminals {
                    terminal.variables.set_by_name("scale", Value::Int(scale));
                }
            }
        }
        if self.stages.stage() > Stage::Prepare {
            self.connection_is_free(index);
            return;
        }
        if self.preparation.prepared() == 1 {
            (1..self.tasks.connection_count()).for_each(|index| self.prepare(index));
        }
        if self.preparation.is_complete() {
            self.tasks.begin(0, Task::RoundTrips);
        }
    }

    /// The server refused the statements of a connection that was made again. In a load that
    /// outlasts crashes the server may be recovering, for example with a full disk.
    fn refused_in_prepare(&mut self, index: u32, refusal: Box<Refusal>) {
        let is_initial = self.stages.stage() < Stage::Load;
        if is_initial || !self.plan.work.connect.outlasts_crashes {
            return self.report.tell(Message::Fatal(refusal));
        }
        let may_connect = self.season().may_connect;
        let shard = &mut *self.shard.borrow_mut();
        shard.clients.connections[index as usize].walk.is_after_loss = true;
        self.connector.disconnect(index, shard);
        if may_connect {
            self.connector.replace(index, shard);
        }
    }

    /// A connection was lost while it was prepared. It connects and is prepared again, but the run
    /// ends if this happens too often.
    fn on_lost_in_prepare(&mut self) {
        let too_many = self.preparation.lost();
        if let (Stage::Prepare, Some(count)) = (self.stages.stage(), too_many) {
            let message = format!(
                "the server ended the connection each time the statements were prepared, {count} \
                 times"
            );
            let hint = "see the server's log; a pooler may not support prepared statements";
            self.report.fatal(ErrorKind::ConnectionLost, message, hint);
        }
    }

    #[inline]
    fn on_transaction_end(&mut self, index: u32, end: End) {
        let is_last = self.plan.connects_each_time() || self.ends_session(index);
        self.in_flight.end(index, end, &mut self.shard.borrow_mut());
        if end == End::Aborted {
            self.abort_client(index);
        } else if is_last {
            self.connect_anew(index);
        } else {
            self.give_back(index, end.ended_ns());
        }
    }

    /// True if the program of a connection's transaction continues with a new session.
    #[inline]
    fn ends_session(&self, index: u32) -> bool {
        let shard = self.shard.borrow();
        let connection = &shard.clients.connections[index as usize];
        let program = connection.current.map(|current| &self.plan.scripts[current.script].program);
        let Some(Program::Native(native)) = program else { return false };
        let terminal = shard.clients.terminals[connection.terminal as usize].number;
        self.pool.is_none() && native.transactions.ends_session(terminal)
    }

    /// A connection's transaction has ended, at `ended_ns`, and its client has nothing to do.
    #[inline]
    fn give_back(&mut self, index: u32, ended_ns: Option<u64>) {
        if self.pool.is_none() {
            return self.client_is_free(index, ended_ns);
        }
        let (terminal, is_up) = {
            let connection = &self.shard.borrow().clients.connections[index as usize];
            (connection.terminal, connection.is_up())
        };
        // Subtle: waiting clients are served before this client asks again.
        if is_up {
            self.connection_is_free(index);
        }
        if self.background.has(terminal) {
            self.background.terminal_is_free(terminal);
        } else {
            self.client_is_free(terminal, ended_ns);
        }
    }

    /// A connection can take a transaction.
    #[inline]
    fn connection_is_free(&mut self, index: u32) {
        match &mut self.pool {
            None => self.client_is_free(index, None),
            Some(pool) => {
                pool.connection_is_free(index);
                self.serve();
            }
        }
    }

    #[inline]
    fn client_is_free(&mut self, client: u32, ended_ns: Option<u64>) {
        let start = {
            let shard = &mut *self.shard.borrow_mut();
            self.pacing.client_is_free(client, ended_ns, &self.stages, shard)
        };
        if let Some(start) = start {
            self.start(start);
        }
    }

    /// End the client of a connection: it starts no more transactions.
    fn abort_client(&mut self, index: u32) {
        let shard = &mut *self.shard.borrow_mut();
        self.pacing.end_client(shard.clients.connections[index as usize].terminal, shard);
        self.connector.disconnect(index, shard);
    }

    /// Replace the connection after its transaction, if each transaction has a new one.
    fn connect_anew(&mut self, index: u32) {
        let client = {
            let shard = &mut *self.shard.borrow_mut();
            let connection = &shard.clients.connections[index as usize];
            if !self.plan.pgbench.connects_once() && !connection.is_up() {
                // The connection was lost, and the client is already connecting again.
                return;
            }
            let client = connection.terminal;
            self.connector.disconnect(index, shard);
            client
        };
        if self.plan.pgbench.connects_late() {
            return self.client_is_free(index, None);
        }
        let may_connect = self.season().may_connect;
        let shard = &mut *self.shard.borrow_mut();
        if may_connect && self.pacing.has_more_for(client, shard) {
            self.connector.queue(index, shard);
        }
    }

    pub(super) fn on_stage(&mut self, stage: Stage, now_ns: u64) {
        match stage {
            Stage::Prepare => {
                if self.plan.pgbench.connects_late() {
                    self.report.tell(Message::Prepared);
                } else if now_ns < self.stages.timeline().drain_ns {
                    // The others follow after the first was prepared without an error.
                    self.preparation.begin(now_ns);
                    self.prepare(0);
                }
            }
            Stage::Load => self.begin_load(),
            Stage::Drain => {
                self.shard.borrow_mut().is_draining = true;
                if !self.season().may_connect {
                    self.connector.clear_queue();
                }
            }
            Stage::Cancel => self.begin_cancelling(),
            Stage::Connect | Stage::Look | Stage::Over => {}
        }
    }

    /// Every client begins, and every connection can take a transaction.
    fn begin_load(&mut self) {
        self.shard.borrow_mut().clients.limits_answers = false;
        if let Some(observer) = &mut self.shard.borrow_mut().observer {
            observer.began(self.stages.timeline().warm_ns);
        }
        for index in 0..self.tasks.connection_count() {
            let is_up = self.shard.borrow().clients.connections[index as usize].is_up();
            if (is_up || self.plan.pgbench.connects_late()) && !self.tasks.is_running(index) {
                self.connection_is_free(index);
            }
        }
        if self.pool.is_some() {
            (0..self.in_flight.client_count()).for_each(|client| self.client_is_free(client, None));
        }
    }

    /// The drain has ended: count transactions without an end, and cancel them.
    fn begin_cancelling(&mut self) {
        {
            let shard = &mut *self.shard.borrow_mut();
            let timeline = self.stages.timeline();
            let end_ns = timeline.drain_end_ns;
            shard.is_cancelling = true;
            self.background.give_up(timeline, shard);
            if let Some(pool) = &mut self.pool {
                for (_, current) in pool.take_waiting() {
                    self.in_flight.give_up(current, end_ns, &mut shard.recorder);
                    self.in_flight.dropped(1);
                }
            }
            for (index, connection) in shard.clients.connections.iter_mut().enumerate() {
                let Some(current) = connection.current.take() else { continue };
                self.in_flight.give_up(current, end_ns, &mut shard.recorder);
                if connection.is_up() && connection.ready_wanted > 0 {
                    let attempt =
                        if connection.tls.is_some() { Attempt::Tls } else { Attempt::Plain };
                    self.cancels.add(index as u32, connection.backend.clone(), attempt);
                }
            }
            self.in_flight.add_ages(self.pacing.give_up(timeline, &mut shard.recorder));
        }
        self.in_flight.dropped(self.tasks.drop_sleepers());
        self.cancels.begin(now_ns(), &mut self.shard.borrow_mut(), &self.connector);
    }
}
