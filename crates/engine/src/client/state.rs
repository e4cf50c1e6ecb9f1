//! The state of all clients of a thread, and the handling of bytes that its sockets receive.

use std::collections::VecDeque;
use std::io;

use pgdyno_script::{ClientVariables, Prng};
use pgdyno_wire::{
    ProtocolError, Reply, ReplyScanner, ServerError, Session, TransactionStatus, encode,
};

use super::Failures;
use super::native::Waiting;
use super::terminal::{Seat, Terminal};
use crate::clock::NEVER_NS;
use crate::observer::{Misplaced, Observer};
use crate::outcome::Remark;
use crate::plan::Refusal;
use crate::poller::{Event, Poller};
use crate::program::{Counted, Deferred};
use crate::recorder::{Recorder, Traffic};
use crate::tally::Owner;
use crate::timers::Timers;
use crate::tls::{Opening, TlsError, TlsStream};
use crate::walk::Walk;

/// A client's connection.
#[derive(Debug)]
pub enum Link {
    Down,
    /// The socket is still connecting.
    Connecting {
        began_ns: u64,
    },
    Opening {
        began_ns: u64,
        opening: Box<Opening>,
    },
    Up,
}

/// A running transaction.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    pub script: usize,
    pub scheduled_ns: u64,
    pub started_ns: u64,
    /// The owner by the schedule, for an open loop. In a closed loop the end of the transaction
    /// decides.
    pub owner: Owner,
    pub retries: u16,
    /// If clients share connections: time from `started_ns` to getting one.
    pub connection_wait_ns: u64,
    /// For a background transaction: the deferred work.
    pub work: u64,
}

/// One connection of the thread, and the transaction that it runs.
#[derive(Debug)]
pub struct ClientState {
    pub link: Link,
    /// Encrypts and decrypts, while the link is up.
    pub tls: Option<Box<TlsStream>>,
    /// The search for an address.
    pub walk: Walk,
    pub backend: Session,
    pub scanner: ReplyScanner,
    pub reply: Reply,
    /// Number of ReadyForQuery messages that end the reply; 0 if no reply is awaited.
    pub ready_wanted: u32,
    /// When the last reply became complete.
    pub replied_ns: u64,
    /// When the result of each statement of a pipeline came, if this is measured.
    pub results_ns: Option<Vec<u64>>,
    /// When a sleeping transaction continues.
    pub sleeps_until_ns: u64,
    /// Statements prepared on this connection, one bit each.
    pub prepared: Vec<u64>,
    /// The awaited reply may confirm a commit.
    pub may_commit: bool,
    /// The connection was lost while such a reply was awaited.
    pub is_in_doubt: bool,
    /// An error that came between replies. It says why the server ends the connection.
    pub last_words: Option<Box<ServerError>>,
    /// Index of the terminal whose transaction runs here. On a shared connection: of the last one.
    pub terminal: u32,
    /// Variables and random numbers of the terminal at the begin of the transaction, if it may be
    /// tried again.
    pub(super) saved: Option<Box<(ClientVariables, Prng)>>,
    pub current: Option<Current>,
    /// Exchanges of the transaction so far.
    pub round_trips: u32,
    /// The counters of a native program, in this try.
    pub counted: Counted,
    /// Index of the command that is running or has failed.
    pub place: usize,
    /// Why the evaluation of a command failed.
    pub complaint: Option<String>,
    /// A meta command was where it must not be.
    pub misplaced: Option<Misplaced>,
    /// The script ended inside a pipeline.
    pub open_pipeline: bool,
}

impl ClientState {
    pub fn new(terminal: u32) -> ClientState {
        ClientState {
            link: Link::Down,
            tls: None,
            walk: Walk::default(),
            backend: Session::default(),
            scanner: ReplyScanner::default(),
            reply: Reply::default(),
            ready_wanted: 0,
            replied_ns: 0,
            results_ns: None,
            sleeps_until_ns: NEVER_NS,
            prepared: Vec::new(),
            may_commit: false,
            is_in_doubt: false,
            last_words: None,
            terminal,
            saved: None,
            current: None,
            round_trips: 0,
            counted: Counted::default(),
            place: 0,
            complaint: None,
            misplaced: None,
            open_pipeline: false,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    pub fn is_in_block(&self) -> bool {
        self.reply.status != TransactionStatus::Idle
    }

    #[inline]
    pub fn is_prepared(&self, statement: usize) -> bool {
        self.prepared.get(statement / 64).is_some_and(|word| word >> (statement % 64) & 1 == 1)
    }

    pub fn set_prepared(&mut self, statement: usize) {
        let word = statement / 64;
        if self.prepared.len() <= word {
            self.prepared.resize(word + 1, 0);
        }
        self.prepared[word] |= 1 << (statement % 64);
    }

    /// True if a commit may have happened, and no answer confirms it. Either no answer came, or
    /// only the error with which the server ends a connection: it may come before or after a
    /// commit.
    pub fn may_have_committed(&self) -> bool {
        let is_fatal = |error: &ServerError| error.severity != "ERROR";
        self.ready_wanted > 0 && self.may_commit && self.reply.error.as_deref().is_none_or(is_fatal)
    }

    /// Reset all state of the lost or closed connection.
    pub fn disconnected(&mut self) {
        self.link = Link::Down;
        self.may_commit = false;
        self.tls = None;
        self.scanner = ReplyScanner::default();
        self.prepared.clear();
        self.results_ns = None;
        self.last_words = None;
        self.reply.status = TransactionStatus::Idle;
    }
}

/// An event of a connection that the loop handles after it has read all sockets.
#[derive(Debug)]
pub enum News {
    Connected(u32),
    /// Bytes for a connection that is being opened, or for a cancel request.
    Opening(u32, Vec<u8>),
    Closed(u32, Option<io::Error>),
    Broken(u32, ProtocolError),
    /// The TLS session has bytes to send, or has failed.
    Tls(u32, Option<TlsError>),
    /// The server waits for COPY data.
    CopyIn(u32),
}

/// The connections and terminals of a thread, and the transactions that can continue.
#[derive(Debug)]
pub struct Clients {
    /// The clients' connections, followed by the idle connections.
    pub states: Vec<ClientState>,
    pub terminals: Vec<Terminal>,
    /// Clients whose transaction can continue, in the order of their replies.
    pub ready: VecDeque<u32>,
    pub news: Vec<News>,
    /// The reader of messages between replies.
    between: Reply,
    /// The bytes that a TLS session decrypted.
    plain: Vec<u8>,
}

impl Clients {
    pub fn new(states: Vec<ClientState>, terminals: Vec<Terminal>) -> Clients {
        Clients {
            states,
            terminals,
            ready: VecDeque::new(),
            news: Vec::new(),
            between: Reply::default(),
            plain: Vec::new(),
        }
    }

    /// Return the connection with this index, and its terminal.
    #[inline]
    pub fn seat(&mut self, index: u32) -> Seat<'_> {
        let connection = &mut self.states[index as usize];
        let terminal = &mut self.terminals[connection.terminal as usize];
        Seat { connection, terminal }
    }

    /// Handle an event of the poller. Only replies to statements are handled at once; other events
    /// become news.
    #[inline]
    pub fn on_event(&mut self, event: Event<'_>, traffic: &mut Traffic) {
        match event {
            Event::Received { token, bytes, at_ns } => {
                traffic.bytes_received += bytes.len() as u64;
                self.on_received(token, bytes, at_ns);
            }
            Event::Connected(token) => self.news.push(News::Connected(token)),
            Event::Closed { token, error } => self.news.push(News::Closed(token, error)),
        }
    }

    #[inline]
    fn on_received(&mut self, token: u32, bytes: &[u8], at_ns: u64) {
        match self.states.get_mut(token as usize) {
            Some(client) if client.is_up() => match client.tls {
                None => self.on_plain(token, bytes, at_ns),
                Some(_) => self.on_sealed(token, bytes, at_ns),
            },
            _ => self.news.push(News::Opening(token, bytes.to_vec())),
        }
    }

    /// Decrypt all bytes, so that nothing stays in the TLS session.
    #[inline(never)]
    fn on_sealed(&mut self, token: u32, bytes: &[u8], at_ns: u64) {
        let Some(tls) = &mut self.states[token as usize].tls else { return };
        let mut plain = std::mem::take(&mut self.plain);
        let result = tls.receive(bytes, &mut plain);
        if tls.has_to_send() || result.is_err() {
            self.news.push(News::Tls(token, result.err()));
        }
        if !plain.is_empty() {
            self.on_plain(token, &plain, at_ns);
        }
        plain.clear();
        self.plain = plain;
    }

    /// Read bytes of the protocol, for a client with an open session.
    #[inline]
    pub fn on_plain(&mut self, token: u32, mut bytes: &[u8], at_ns: u64) {
        let client = &mut self.states[token as usize];
        if client.ready_wanted > 0 {
            let fed = client.scanner.feed(&mut bytes, client.ready_wanted, &mut client.reply);
            if let Some(results_ns) = &mut client.results_ns {
                results_ns.resize(client.reply.command_count as usize, at_ns);
            }
            match fed {
                Ok(true) => {
                    client.ready_wanted = 0;
                    client.replied_ns = at_ns;
                    self.ready.push_back(token);
                }
                Ok(false) => {
                    if client.reply.copy_in {
                        client.reply.copy_in = false;
                        self.news.push(News::CopyIn(token));
                    }
                    return;
                }
                Err(error) => {
                    self.news.push(News::Broken(token, error));
                    return;
                }
            }
        }
        if !bytes.is_empty() {
            self.on_unasked(token, bytes);
        }
    }

    /// Read messages between replies: notices, changed parameters, or the error before the end of
    /// the connection.
    #[cold]
    fn on_unasked(&mut self, token: u32, mut bytes: &[u8]) {
        let client = &mut self.states[token as usize];
        self.between.reset(false);
        match client.scanner.feed(&mut bytes, 0, &mut self.between) {
            Err(error) => self.news.push(News::Broken(token, error)),
            Ok(_) if self.between.ready_count > 0 => {
                // A reply that nobody awaits: client and server do not agree any more.
                self.news.push(News::Broken(token, ProtocolError::Unexpected(b'Z')));
            }
            Ok(_) => client.last_words = self.between.error.take().or(client.last_words.take()),
        }
    }
}

/// The state of one thread that its transactions use.
#[derive(Debug)]
pub struct Shard {
    pub poller: Poller,
    pub clients: Clients,
    pub timers: Timers,
    pub recorder: Recorder,
    /// The time of this turn of the loop.
    pub now_ns: u64,
    /// The message that is being encoded; `scratch` has memory for one parameter.
    pub out: Vec<u8>,
    pub scratch: Vec<u8>,
    /// The load has ended: a failed transaction is not tried again.
    pub is_draining: bool,
    /// The drain has ended: a transaction must not send another statement.
    pub is_cancelling: bool,
    /// The failures of transactions, for the coordinator.
    pub failures: Failures,
    /// Memory for the statements of native transactions.
    pub spare_waiting: Vec<Waiting>,
    /// Deferred work that no background terminal has begun.
    pub deferred: VecDeque<Deferred>,
    /// A fault in a script that ends the run.
    pub fault: Option<Box<Refusal>>,
    /// A warning for the user.
    pub warnings: Vec<Remark>,
    /// Statements that the server refused before the load.
    pub refused_statements: Vec<usize>,
    /// The drop-in's observer.
    pub observer: Option<Box<dyn Observer>>,
}

impl Shard {
    /// Remember a statement that the server refuses.
    pub(super) fn note_refused(&mut self, statement: usize) {
        if !self.refused_statements.contains(&statement) {
            self.refused_statements.push(statement);
        }
    }

    /// Send bytes of the protocol, encrypted if the connection is.
    pub fn send(&mut self, index: u32, bytes: &[u8]) {
        match &mut self.clients.states[index as usize].tls {
            None => self.poller.send(index, bytes),
            Some(tls) => self.poller.send(index, tls.encrypt(bytes)),
        }
    }

    /// Send Terminate if the session is open, and close the connection.
    pub fn hang_up(&mut self, index: u32) {
        self.say_goodbye(index);
        self.poller.close(index);
    }

    /// Close all connections. All Terminate messages are written first, so that they leave together
    /// and not one by one.
    pub fn hang_up_all(&mut self) {
        let all = 0..self.clients.states.len() as u32;
        all.clone().for_each(|index| self.say_goodbye(index));
        all.for_each(|index| self.poller.close(index));
    }

    fn say_goodbye(&mut self, index: u32) {
        let client = &mut self.clients.states[index as usize];
        if client.is_up() {
            let mut terminate = Vec::new();
            encode::terminate(&mut terminate);
            match &mut client.tls {
                None => self.poller.send(index, &terminate),
                Some(tls) => self.poller.send(index, tls.close(&terminate)),
            }
        }
    }
}
