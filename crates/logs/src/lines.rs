//! What the lab reads of a log: JSON, one object or array a line.
//!
//! `session`, `shape` and `sequence` lines introduce a number. An array is a sequence of statements
//! of one session, a whole transaction if the log has it: `parts.rs`. If a table of known ones is
//! full, it is emptied, which a line says, and the same shape gets another number.

use std::collections::HashMap;

use crate::line::Line;
use crate::message::{Message, Recognizer, What};
use crate::parameters::{Parameter, parameters};
use crate::parts::{Item, Kind, Part, Place, Sequences, Session, Sessions};
use crate::shape::{Shape, list_values, write_value};

const SHAPES_MAX: usize = 1 << 14;
const SHAPES_BYTES_MAX: usize = 16 << 20;
/// Longer statements are cut before their shape is made: the lab cannot parse them, and says so.
const STATEMENT_BYTES_MAX: usize = 1 << 18;
/// Longer values are written as their beginning and their length.
const VALUE_BYTES_MAX: usize = 256;
/// A time that is earlier by more than this is a step of the server's clock.
const STEP_NS: i64 = 1_000_000_000;
/// Parts of all sessions that wait for their end; more are written before it.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Numbers of what the lines say.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub statements: u64,
    pub errors: u64,
    pub without_session: u64,
    pub not_utf8_texts: u64,
    pub cut_statements: u64,
    pub clock_steps: u64,
    /// Durations of statements that the log does not have, or of parse and bind messages.
    pub durations_alone: u64,
    pub shortest_ns: Option<u64>,
    /// Times have no fractions of seconds.
    pub has_whole_seconds: bool,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
}

impl Written {
    fn timed(&mut self, is_whole_second: bool, duration_ns: Option<u64>) {
        self.has_whole_seconds |= is_whole_second;
        self.shortest_ns = self.shortest_ns.into_iter().chain(duration_ns).min();
    }
}

/// Makes lines of messages. Memory: the tables of sessions, shapes and sequences, and the parts of
/// transactions that have not ended; all are bounded.
#[derive(Debug, Default)]
pub struct Lines {
    /// Long values are written whole, too.
    keeps_whole: bool,
    recognizer: Recognizer,
    sessions: Sessions,
    sequences: Sequences,
    shapes: HashMap<Vec<u8>, (u64, Place)>,
    shapes_seen: u64,
    shapes_bytes: usize,
    shape: Shape,
    value: Vec<u8>,
    waiting_bytes: usize,
    written: Written,
}

impl Lines {
    /// Args: `keeps_whole`, whether long values are written whole, and not only their beginning.
    pub fn new(keeps_whole: bool) -> Lines {
        Lines { keeps_whole, ..Lines::default() }
    }

    pub fn written(&self) -> Written {
        self.written
    }

    pub fn language(&self) -> &'static str {
        self.recognizer.language()
    }

    /// Add the lines of a message to `out`.
    pub fn message(&mut self, message: &Message, out: &mut Vec<u8>) {
        let mut recognizer = std::mem::take(&mut self.recognizer);
        let what = recognizer.what(message);
        self.what(message, &what, out);
        self.recognizer = recognizer;
    }

    /// Add the lines of what has not ended to `out`: the log ends.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.waiting_bytes = 0;
        let Lines { sessions, sequences, .. } = self;
        sessions.each(|number, part| sequences.write(number, part, out));
    }

    fn what(&mut self, message: &Message, what: &What<'_>, out: &mut Vec<u8>) {
        let Some(time_ns) = message.time_ns else { return };
        if *what == What::Other {
            return;
        }
        if message.session.is_empty() {
            self.written.without_session += 1;
            return;
        }
        self.written.first_ns.get_or_insert(time_ns);
        let at = self.session(message, out);
        self.statement(message, what, (at, time_ns), out);
    }

    /// Add a statement, or what else a message says, to the part of its session.
    fn statement(
        &mut self,
        message: &Message,
        what: &What<'_>,
        (at, time_ns): (usize, i64),
        out: &mut Vec<u8>,
    ) {
        let (kind, text, duration_ns) = match *what {
            What::Preparing { duration_ns } => {
                self.sessions.get(at).preparing_ns += duration_ns;
                return;
            }
            What::Statement { text, duration_ns } => (Kind::Simple, text, duration_ns),
            What::Execute { is_fetch: true, duration_ns, .. } => {
                self.sessions.get(at).part.went_on(duration_ns.unwrap_or(0));
                return;
            }
            What::Execute { name: b"", text, duration_ns, .. } => {
                (Kind::Extended, text, duration_ns)
            }
            What::Execute { text, duration_ns, .. } => (Kind::Prepared, text, duration_ns),
            What::Duration { duration_ns } => (Kind::Simple, &b""[..], Some(duration_ns)),
            What::Error { text } => (Kind::Error, text, None),
            What::Other => return,
        };
        let last_ns = self.written.last_ns.replace(time_ns);
        self.written.clock_steps += u64::from(last_ns.is_some_and(|ns| time_ns < ns - STEP_NS));
        self.written.timed(message.is_whole_second, duration_ns);
        match what {
            What::Duration { duration_ns } => {
                let is_known = self.sessions.get(at).part.took(*duration_ns);
                self.written.durations_alone += u64::from(!is_known);
                return self.write_if_complete(at, out);
            }
            What::Error { .. } => self.written.errors += 1,
            _ => self.written.statements += 1,
        }
        if self.sessions.get(at).part.is_waiting_for_its_duration() {
            self.write(at, out);
        }
        // An empty statement, as pools send it to test a connection, or an error without one.
        if text.is_empty() {
            return;
        }
        let (shape, place) = self.shape(text, out);
        let mut session = self.sessions.take(at);
        if place == Place::Begins && !session.part.is_empty() {
            self.write_part(&mut session, out);
        }
        let is_execute = matches!(what, What::Execute { .. });
        let prepared_ns = if is_execute { std::mem::take(&mut session.preparing_ns) } else { 0 };
        let before = session.part.bytes();
        let part = &mut session.part;
        part.begin(time_ns, duration_ns, prepared_ns, message.line_number == Some(1));
        let parameters_count = self.values(message, part);
        part.end(Item { shape, kind, parameters_count }, place);
        self.waiting_bytes += part.bytes() - before;
        if part.is_complete() || part.is_full() {
            self.write_part(&mut session, out);
        }
        self.sessions.put(at, session);
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.end(out);
        }
    }

    fn write_if_complete(&mut self, at: usize, out: &mut Vec<u8>) {
        if self.sessions.get(at).part.is_complete() {
            self.write(at, out);
        }
    }

    fn write(&mut self, at: usize, out: &mut Vec<u8>) {
        let mut session = self.sessions.take(at);
        self.write_part(&mut session, out);
        self.sessions.put(at, session);
    }

    fn write_part(&mut self, session: &mut Session, out: &mut Vec<u8>) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(session.part.bytes());
        self.sequences.write(session.number, &mut session.part, out);
    }

    /// Returns the place of the session, introduced if it is new or has other names now.
    fn session(&mut self, message: &Message, out: &mut Vec<u8>) -> usize {
        let names = [&message.user, &message.database, &message.application];
        if let Some(at) = self.sessions.find(&message.session, names) {
            return at;
        }
        if let Some(at) = self.sessions.place(&message.session) {
            self.write(at, out);
        } else if self.sessions.are_full() {
            self.end(out);
            self.sessions.release(out);
        }
        let at = self.sessions.add(&message.session);
        let number = self.sessions.get(at).number;
        let mut line = Line { out };
        line.first_number("session", number);
        for (key, name) in [
            ("id", &message.session),
            ("user", &message.user),
            ("database", &message.database),
            ("application", &message.application),
        ] {
            self.text(key, name, &mut line);
        }
        line.end();
        at
    }

    /// Returns the number of the statement's shape, introduced if it is new.
    fn shape(&mut self, text: &[u8], out: &mut Vec<u8>) -> (u64, Place) {
        let is_cut = text.len() > STATEMENT_BYTES_MAX;
        self.written.cut_statements += u64::from(is_cut);
        self.shape.scan(&text[..text.len().min(STATEMENT_BYTES_MAX)]);
        if let Some(&known) = self.shapes.get(&self.shape.key) {
            return known;
        }
        self.shapes_seen += 1;
        let number = self.shapes_seen;
        self.shapes_bytes += self.shape.key.len();
        if self.shapes.len() >= SHAPES_MAX || self.shapes_bytes > SHAPES_BYTES_MAX {
            self.end(out);
            self.shapes.clear();
            self.shapes_bytes = self.shape.key.len();
            self.sequences.clear();
            out.extend_from_slice(b"{\"forget\":\"shapes\"}\n");
        }
        let place = Place::of(&self.shape.key);
        self.shapes.insert(self.shape.key.clone(), (number, place));
        let shape = std::mem::take(&mut self.shape);
        let mut line = Line { out };
        line.first_number("shape", number);
        // Literals count characters, as the lab does.
        let places = character_places(&shape);
        self.text("sql", &shape.text, &mut line);
        line.key("literals");
        line.out.push(b'[');
        for (at, (literal, (start, end))) in shape.literals.iter().zip(places).enumerate() {
            line.out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
            line.digits(start as u64);
            line.out.push(b',');
            line.digits(end as u64);
            line.out.extend_from_slice(if literal.is_list { b",true]" } else { b",false]" });
        }
        line.out.push(b']');
        if is_cut {
            line.key("cut");
            line.out.extend_from_slice(b"true");
        }
        line.end();
        self.shape = shape;
        (number, place)
    }

    /// Write the parameters and the constants of the statement. Returns how many parameters it has.
    fn values(&mut self, message: &Message, part: &mut Part) -> u32 {
        let mut line = Line { out: &mut part.values };
        let mut count = 0;
        let (start, mut is_cut) = (line.out.len(), false);
        line.out.extend_from_slice(b"[[");
        for parameter in parameters(&message.detail) {
            if count > 0 {
                line.out.push(b',');
            }
            count += 1;
            match parameter {
                Parameter::Null => line.out.extend_from_slice(b"null"),
                Parameter::Quoted(raw) => is_cut |= self.value(raw, &mut line),
                Parameter::Cut => {
                    is_cut = true;
                    line.out.extend_from_slice(b"false");
                }
            }
        }
        line.out.extend_from_slice(b"],[");
        if !message.severity.is_error() {
            is_cut |= self.constants(&mut line);
        }
        line.out.extend_from_slice(b"]]");
        if line.out[start..] == *b"[[],[]]" {
            line.out.truncate(start);
            line.out.push(b'0');
        }
        part.cut_count += u64::from(is_cut);
        count
    }

    /// Returns whether one of the constants is cut.
    fn constants(&mut self, line: &mut Line<'_>) -> bool {
        let mut is_cut = false;
        let shape = std::mem::take(&mut self.shape);
        for (at, literal) in shape.literals.iter().enumerate() {
            if at > 0 {
                line.out.push(b',');
            }
            let raw = &shape.text[literal.start..literal.end];
            if literal.is_list {
                let mut is_first = true;
                line.out.push(b'[');
                list_values(raw, |raw| {
                    if !std::mem::take(&mut is_first) {
                        line.out.push(b',');
                    }
                    self.value(raw, line);
                });
                line.out.push(b']');
            } else {
                is_cut |= self.value(raw, line);
            }
        }
        self.shape = shape;
        is_cut
    }

    /// Write a value. Returns whether the server has cut it.
    fn value(&mut self, raw: &[u8], line: &mut Line<'_>) -> bool {
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        write_value(raw, &mut value);
        let is_long = value.len() > VALUE_BYTES_MAX && !self.keeps_whole;
        if is_long {
            let end = (VALUE_BYTES_MAX - 3..=VALUE_BYTES_MAX)
                .rev()
                .find(|&at| (value[at] & 0xC0) != 0x80)
                .unwrap_or(VALUE_BYTES_MAX);
            line.out.extend_from_slice(b"{\"begins\":");
            self.written.not_utf8_texts += line.string(&value[..end]);
            line.number("bytes", value.len() as u64);
            line.out.push(b'}');
        } else {
            self.written.not_utf8_texts += line.string(&value);
        }
        let is_cut = !is_long && value.ends_with(b"...");
        self.value = value;
        is_cut
    }

    fn text(&mut self, key: &str, text: &[u8], line: &mut Line<'_>) {
        line.key(key);
        self.written.not_utf8_texts += line.string(text);
    }
}

/// The places of the constants in characters instead of bytes.
fn character_places(shape: &Shape) -> Vec<(usize, usize)> {
    let is_utf8 = std::str::from_utf8(&shape.text).is_ok();
    let (mut characters, mut last) = (0, 0);
    let mut place = |at: usize| {
        let part = &shape.text[last..at];
        let starts = part.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
        characters += if is_utf8 { starts } else { part.len() };
        last = at;
        characters
    };
    shape.literals.iter().map(|literal| (place(literal.start), place(literal.end))).collect()
}
