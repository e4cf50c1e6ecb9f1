//! The connection of a client, and the transaction that it runs.

use pgdyno_script::{ClientVariables, Prng};
use pgdyno_wire::{Reply, ReplyScanner, ServerError, Session, TransactionStatus};

use super::terminal::Terminal;
use crate::answer_limit::AnswerLimit;
use crate::clock::NEVER_NS;
use crate::commit_journal::Sent;
use crate::observer::Misplaced;
use crate::program::Counted;
use crate::tally::Owner;
use crate::tls::{Opening, TlsStream};
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
pub struct Connection {
    pub link: Link,
    /// Encrypts and decrypts, while the link is up.
    pub tls: Option<Box<TlsStream>>,
    /// The search for an address.
    pub walk: Walk,
    /// The host of the last session, by its number in the job.
    pub host: usize,
    pub backend: Session,
    pub scanner: ReplyScanner,
    pub reply: Reply,
    /// Number of ReadyForQuery messages that end the reply; 0 if no reply is awaited.
    pub ready_wanted: u32,
    /// The answer that comes: of the login, and of each exchange before the load.
    pub limit: AnswerLimit,
    /// When the last reply became complete.
    pub replied_ns: u64,
    /// When the result of each statement of a pipeline came, if this is measured.
    pub results_ns: Option<Vec<u64>>,
    /// When a sleeping transaction continues.
    pub sleeps_until_ns: u64,
    /// Statements prepared on this connection, one bit each.
    pub prepared: Vec<u64>,
    /// The transaction sends the rows of a COPY.
    pub copies: bool,
    /// The awaited reply may confirm a commit.
    pub may_commit: bool,
    /// The commit that the reply confirms, if it is recorded.
    pub commit: Option<Sent>,
    /// The connection was lost while such a reply was awaited.
    pub is_in_doubt: bool,
    /// The load is read-only, and the server does not report whether the session still is. So it is
    /// asked before each transaction.
    pub asks_read_only: bool,
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

impl Connection {
    pub fn new(terminal: u32) -> Connection {
        Connection {
            link: Link::Down,
            tls: None,
            walk: Walk::default(),
            host: 0,
            backend: Session::default(),
            scanner: ReplyScanner::default(),
            reply: Reply::default(),
            ready_wanted: 0,
            limit: AnswerLimit::default(),
            replied_ns: 0,
            results_ns: None,
            sleeps_until_ns: NEVER_NS,
            prepared: Vec::new(),
            copies: false,
            may_commit: false,
            commit: None,
            is_in_doubt: false,
            asks_read_only: false,
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
        self.limit = AnswerLimit::default();
        (self.may_commit, self.copies) = (false, false);
        self.tls = None;
        self.scanner = ReplyScanner::default();
        self.prepared.clear();
        self.results_ns = None;
        self.last_words = None;
        self.reply.status = TransactionStatus::Idle;
    }
}

/// A connection, and the terminal whose transaction it runs.
#[derive(Debug)]
pub struct Seat<'a> {
    pub connection: &'a mut Connection,
    pub terminal: &'a mut Terminal,
}

impl Seat<'_> {
    /// Keep variables and random numbers for another try; each connection has memory for it.
    pub fn save(&mut self) {
        let Terminal { variables, random, .. } = &*self.terminal;
        match &mut self.connection.saved {
            Some(saved) => {
                saved.0.clone_from(variables);
                saved.1 = *random;
            }
            saved => *saved = Some(Box::new((variables.clone(), *random))),
        }
    }

    /// Set variables and random numbers to what was saved.
    pub fn restore(&mut self) {
        if let Some(saved) = &self.connection.saved {
            self.terminal.variables.clone_from(&saved.0);
            self.terminal.random = saved.1;
        }
    }
}
