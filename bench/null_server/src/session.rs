//! One connection's side of the protocol: bytes in, answers out. No socket, no clock.

use std::borrow::Cow;
use std::rc::Rc;

use crate::behaviour::{Behaviour, Garbage};
use crate::reply;
use crate::statement::{Effect, Rows, Statement};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// What the server did for all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub connections: u64,
    /// Connections that said goodbye.
    pub terminated: u64,
    pub cancels: u64,
    pub statements: u64,
    /// Statements that were answered with an error.
    pub errors: u64,
    /// Transactions that took effect: COMMIT, or a statement outside a transaction.
    pub commits: u64,
}

/// Answers that wait to leave together.
#[derive(Debug, Default)]
pub struct Answer {
    pub bytes: Vec<u8>,
    /// Where clocks are to be patched when the bytes leave.
    pub stamps: Vec<usize>,
    /// Statements answered.
    pub statements: u64,
    /// The connection ends after these bytes.
    pub closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    StartUp,
    Ready,
    /// After an error in the extended protocol: everything up to Sync is ignored.
    SkippingToSync,
    CopyIn,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    id: u32,
    state: State,
    transaction: u8,
    statement_count: u64,
    /// By name; a later Parse of the unnamed statement replaces it.
    prepared: Vec<(Box<[u8]>, Rc<Statement>)>,
    bound: Option<(Rc<Statement>, bool)>,
    /// Of the Bind message what follows its names, where a listed result depends on it.
    bound_tail: Vec<u8>,
    wants_binary: bool,
}

impl Session {
    pub fn new(id: u32) -> Session {
        Session {
            id,
            state: State::StartUp,
            transaction: b'I',
            statement_count: 0,
            prepared: Vec::new(),
            bound: None,
            bound_tail: Vec::new(),
            wants_binary: false,
        }
    }

    /// Answer every whole message in `input`; return how many bytes were used.
    pub fn feed(
        &mut self,
        input: &[u8],
        received_ns: u64,
        behaviour: &Behaviour,
        tally: &mut Tally,
        answer: &mut Answer,
    ) -> usize {
        let mut used = 0;
        while !answer.closes {
            let rest = &input[used..];
            let header = if self.state == State::StartUp { 0 } else { 1 };
            let Some(length) = rest.get(header..header + 4) else { break };
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            if !(4..MESSAGE_BYTES_MAX).contains(&length) {
                answer.closes = true;
                break;
            }
            let Some(body) = rest.get(header + 4..header + length) else { break };
            used += header + length;
            if header == 0 {
                self.start_up(body, tally, answer);
            } else {
                let mut turn = Turn { behaviour, tally, answer, received_ns };
                self.message(rest[0], body, &mut turn);
            }
        }
        used
    }

    fn start_up(&mut self, body: &[u8], tally: &mut Tally, answer: &mut Answer) {
        let code = body.get(..4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        match code {
            SSL_REQUEST | GSSENC_REQUEST => answer.bytes.push(b'N'),
            CANCEL_REQUEST => {
                tally.cancels += 1;
                answer.closes = true;
            }
            _ if code >> 16 == 3 => {
                if code & 0xffff > 0 {
                    reply::only_version_3_0(&mut answer.bytes);
                }
                tally.connections += 1;
                reply::welcome(&mut answer.bytes, self.id, !self.id);
                self.state = State::Ready;
            }
            _ => answer.closes = true,
        }
    }

    fn message(&mut self, kind: u8, body: &[u8], turn: &mut Turn<'_>) {
        match (self.state, kind) {
            (_, b'X') => {
                turn.tally.terminated += 1;
                turn.answer.closes = true;
            }
            (State::CopyIn, b'c' | b'f') => {
                reply::command_complete(&mut turn.answer.bytes, "COPY 0");
                self.state = State::Ready;
                reply::ready(&mut turn.answer.bytes, self.transaction);
            }
            (State::CopyIn, _) => {}
            (_, b'S') => {
                self.state = State::Ready;
                reply::ready(&mut turn.answer.bytes, self.transaction);
            }
            (State::SkippingToSync, _) => {}
            (_, b'Q') => self.simple(&until_zero(body), turn),
            (_, b'P') => self.parse(body, turn),
            (_, b'B') => self.bind(body, turn),
            (_, b'D') => self.describe(body, turn),
            (_, b'E') => {
                if let Some((statement, _)) = self.bound.clone()
                    && !self.execute(&statement, turn)
                {
                    self.state = State::SkippingToSync;
                }
            }
            (_, b'C') => reply::bare(&mut turn.answer.bytes, b'3'),
            (_, b'H') => {}
            _ => self.refuse(*b"08P01", "unknown message", turn),
        }
    }

    fn simple(&mut self, text: &str, turn: &mut Turn<'_>) {
        let mut is_empty = true;
        for statement in Statement::split(text) {
            is_empty = false;
            self.wants_binary = false;
            if !turn.behaviour.stamps || statement.rows != Rows::One {
                describe_rows(&mut turn.answer.bytes, statement.rows);
            } else {
                describe_stamps(&mut turn.answer.bytes);
            }
            if !self.execute(&statement, turn) || turn.answer.closes {
                break;
            }
        }
        if is_empty {
            reply::bare(&mut turn.answer.bytes, b'I');
        }
        if self.state != State::CopyIn && !turn.answer.closes {
            reply::ready(&mut turn.answer.bytes, self.transaction);
        }
    }

    fn parse(&mut self, body: &[u8], turn: &mut Turn<'_>) {
        let (name, rest) = split_zero(body);
        let text = until_zero(rest);
        let mut statement = Statement::parse(&text);
        statement.canned = turn.behaviour.canned.iter().find(|c| c.answers(&text)).cloned();
        let statement = Rc::new(statement);
        self.prepared.retain(|(known, _)| **known != *name);
        self.prepared.push((name.into(), statement));
        reply::bare(&mut turn.answer.bytes, b'1');
    }

    fn bind(&mut self, body: &[u8], turn: &mut Turn<'_>) {
        let (_portal, rest) = split_zero(body);
        let (name, rest) = split_zero(rest);
        let Some((_, statement)) = self.prepared.iter().find(|(known, _)| **known == *name) else {
            self.state = State::SkippingToSync;
            return self.refuse(*b"26000", "prepared statement does not exist", turn);
        };
        let statement = Rc::clone(statement);
        self.wants_binary = wants_binary(rest).unwrap_or(false);
        if statement.canned.is_some() {
            self.bound_tail.clear();
            self.bound_tail.extend_from_slice(rest);
        }
        self.bound = Some((statement, self.wants_binary));
        reply::bare(&mut turn.answer.bytes, b'2');
    }

    fn describe(&mut self, body: &[u8], turn: &mut Turn<'_>) {
        let out = &mut turn.answer.bytes;
        let statement = if body.first() == Some(&b'S') {
            let (name, _) = split_zero(&body[1..]);
            let known = self.prepared.iter().find(|(known, _)| **known == *name);
            let Some((_, statement)) = known else {
                self.state = State::SkippingToSync;
                return self.refuse(*b"26000", "prepared statement does not exist", turn);
            };
            reply::message(out, b't', |out| {
                out.extend_from_slice(&statement.parameters.to_be_bytes());
                (0..statement.parameters)
                    .for_each(|_| out.extend_from_slice(&23_u32.to_be_bytes()));
            });
            Some(Rc::clone(statement))
        } else {
            self.bound.as_ref().map(|(statement, _)| Rc::clone(statement))
        };
        if let Some(canned) = statement.as_ref().and_then(|statement| statement.canned.as_ref()) {
            return canned.describe(out);
        }
        match statement.map_or(Rows::None, |statement| statement.rows) {
            Rows::None => reply::bare(out, b'n'),
            Rows::One if turn.behaviour.stamps => describe_stamps(out),
            rows => describe_rows(out, rows),
        }
    }

    /// Run one statement; false when it failed.
    fn execute(&mut self, statement: &Statement, turn: &mut Turn<'_>) -> bool {
        self.statement_count += 1;
        turn.tally.statements += 1;
        turn.answer.statements += 1;
        if turn.behaviour.close_after.is_some_and(|after| self.statement_count > after) {
            turn.answer.closes = true;
            return true;
        }
        if let Some(garbage) = turn.behaviour.garbage {
            spoil(turn.answer, garbage);
            return true;
        }
        let ends = matches!(statement.effect, Effect::Commit | Effect::Rollback);
        if self.transaction == b'E' && !ends {
            self.refuse(*b"25P02", "current transaction is aborted", turn);
            return false;
        }
        if let Some(sqlstate) = turn.behaviour.error_of(turn.tally.statements) {
            self.refuse(sqlstate, "told to fail", turn);
            return false;
        }
        let count = self.rows(statement, turn);
        let is_lost = self.transaction == b'E' && statement.effect == Effect::Commit;
        let tag = match (count, is_lost) {
            (_, true) => Cow::Borrowed("ROLLBACK"),
            (None, false) => Cow::Borrowed(&*statement.tag),
            (Some(count), false) => Cow::Owned(format!("{}{count}", statement.tag_without_count())),
        };
        match statement.effect {
            Effect::CopyIn => {
                reply::message(&mut turn.answer.bytes, b'G', |out| out.extend_from_slice(&[0; 3]));
                self.state = State::CopyIn;
                return true;
            }
            Effect::Begin => self.transaction = b'T',
            Effect::Commit | Effect::Rollback => {
                turn.tally.commits +=
                    u64::from(self.transaction == b'T' && statement.effect == Effect::Commit);
                self.transaction = b'I';
            }
            Effect::None => turn.tally.commits += u64::from(self.transaction == b'I'),
        }
        reply::command_complete(&mut turn.answer.bytes, &tag);
        true
    }

    /// Append the rows. Returns: how many, where a listed result says so.
    fn rows(&self, statement: &Statement, turn: &mut Turn<'_>) -> Option<usize> {
        let out = &mut turn.answer.bytes;
        if let Some(canned) = &statement.canned {
            return Some(canned.rows(&self.bound_tail, out));
        }
        match statement.rows {
            Rows::None => {}
            Rows::Partitions => reply::data_row(out, &[Some(b"1"), None, Some(b"0")]),
            Rows::One if turn.behaviour.stamps => {
                turn.answer.stamps.push(reply::stamped_row(out, turn.received_ns));
            }
            Rows::One | Rows::Count if self.wants_binary => {
                reply::data_row(out, &[Some(&[0, 0, 0, 1])])
            }
            Rows::One | Rows::Count => reply::data_row(out, &[Some(b"1")]),
        }
        None
    }

    fn refuse(&mut self, sqlstate: [u8; 5], text: &str, turn: &mut Turn<'_>) {
        turn.tally.errors += 1;
        if self.transaction == b'T' {
            self.transaction = b'E';
        }
        reply::error(&mut turn.answer.bytes, &sqlstate, text);
    }
}

/// What one call of `feed` works with.
struct Turn<'a> {
    behaviour: &'a Behaviour,
    tally: &'a mut Tally,
    answer: &'a mut Answer,
    received_ns: u64,
}

fn describe_rows(out: &mut Vec<u8>, rows: Rows) {
    match rows {
        Rows::None => {}
        Rows::One | Rows::Count => reply::row_description(out, &["abalance"], 23, 4),
        Rows::Partitions => reply::row_description(out, &["n", "partstrat", "count"], 25, -1),
    }
}

fn describe_stamps(out: &mut Vec<u8>) {
    reply::row_description(out, &["received_ns", "sent_ns"], 20, 8);
}

fn spoil(answer: &mut Answer, garbage: Garbage) {
    match garbage {
        Garbage::Type => reply::message(&mut answer.bytes, 0xff, |out| out.push(7)),
        Garbage::Length => answer.bytes.extend_from_slice(b"D\x7f\xff\xff\xff\0\0"),
        Garbage::Truncated => {
            answer.bytes.extend_from_slice(b"C\0\0\0\x0dSEL");
            answer.closes = true;
        }
    }
}

/// The last result format of a Bind's tail (formats, values, result formats) is binary.
fn wants_binary(tail: &[u8]) -> Option<bool> {
    let u16_at = |at: usize| Some(u16::from_be_bytes([*tail.get(at)?, *tail.get(at + 1)?]));
    let mut at = 2 + 2 * usize::from(u16_at(0)?);
    let values = u16_at(at)?;
    at += 2;
    for _ in 0..values {
        let length = i32::from_be_bytes(tail.get(at..at + 4)?.try_into().ok()?);
        at += 4 + usize::try_from(length).unwrap_or(0);
    }
    Some(u16_at(at)? > 0 && u16_at(at + 2)? == 1)
}

fn split_zero(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or(&[]))
}

fn until_zero(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(split_zero(bytes).0)
}
