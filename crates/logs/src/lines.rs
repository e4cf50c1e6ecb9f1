//! What the lab reads of a log: JSON, one object a line.
//!
//! `session` and `shape` lines introduce a number, which the lines of statements use. If the tables
//! of known ones are full, they are emptied, and the same session or shape gets another number.

use std::collections::HashMap;

use crate::message::{Message, Recognizer, Severity, What};
use crate::parameters::{Parameter, parameters};
use crate::shape::{Shape, list_values, write_value};

const SESSIONS_MAX: usize = 1 << 16;
const SHAPES_BYTES_MAX: usize = 64 << 20;
/// Longer statements are cut before their shape is made: the lab cannot parse them, and says so.
const STATEMENT_BYTES_MAX: usize = 1 << 18;
/// Longer values are written as their beginning and their length.
const VALUE_BYTES_MAX: usize = 256;

#[derive(Debug, Default)]
struct Session {
    number: u64,
    /// User, database and application, as last written.
    names: Vec<u8>,
    /// The time of parse and bind messages before the next execute.
    preparing_ns: u64,
}

/// Numbers of what the lines say.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub statements: u64,
    pub errors: u64,
    pub without_session: u64,
    pub not_utf8_texts: u64,
    pub cut_statements: u64,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
}

/// Makes lines of messages. Memory: the tables of sessions and shapes, which are bounded.
#[derive(Debug, Default)]
pub struct Lines {
    recognizer: Recognizer,
    sessions: HashMap<Vec<u8>, Session>,
    sessions_seen: u64,
    shapes: HashMap<Vec<u8>, u64>,
    shapes_seen: u64,
    shapes_bytes: usize,
    shape: Shape,
    names: Vec<u8>,
    value: Vec<u8>,
    written: Written,
}

impl Lines {
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
        self.written.last_ns = Some(time_ns);
        let session = self.session(message, out);
        let (word, text, duration_ns) = match *what {
            What::Preparing { duration_ns } => {
                if let Some(session) = self.sessions.get_mut(&message.session) {
                    session.preparing_ns += duration_ns;
                }
                return;
            }
            What::Statement { text, duration_ns } => ("statement", text, duration_ns),
            What::Execute { text, duration_ns, is_fetch: false, .. } => {
                ("execute", text, duration_ns)
            }
            What::Execute { text, duration_ns, .. } => ("fetch", text, duration_ns),
            What::Duration { duration_ns } => ("duration", &b""[..], Some(duration_ns)),
            What::Error { text } => ("error", text, None),
            What::Other => return,
        };
        let number = if text.is_empty() {
            self.shape.scan(text);
            None
        } else {
            Some(self.shape(text, out))
        };
        let mut line = Line { out };
        line.begin("do", word);
        line.number("s", session);
        line.number("us", (time_ns / 1000) as u64);
        if let Some(number) = number {
            line.number("shape", number);
        }
        if let Some(duration_ns) = duration_ns {
            line.number("ns", duration_ns);
        }
        if let Some(number) = message.line_number {
            line.number("line", number);
        }
        self.further(message, what, &mut line);
        line.end();
    }

    /// What only some kinds of messages have.
    fn further(&mut self, message: &Message, what: &What<'_>, line: &mut Line<'_>) {
        if !message.virtual_transaction.is_empty() {
            self.text("vx", &message.virtual_transaction, line);
        }
        match what {
            What::Execute { name, .. } => {
                self.written.statements += 1;
                self.text("name", name, line);
                let session = self.sessions.get_mut(&message.session);
                let preparing_ns =
                    session.map_or(0, |known| std::mem::take(&mut known.preparing_ns));
                if preparing_ns > 0 {
                    line.number("prepared_ns", preparing_ns);
                }
            }
            What::Statement { .. } => self.written.statements += 1,
            What::Error { .. } => {
                self.written.errors += 1;
                self.text("state", &message.sqlstate, line);
            }
            _ => return,
        }
        self.values(message, line);
    }

    /// Returns the number of the session, introduced if it is new or has other names now.
    fn session(&mut self, message: &Message, out: &mut Vec<u8>) -> u64 {
        self.names.clear();
        for name in [&message.user, &message.database, &message.application] {
            self.names.extend_from_slice(name);
            self.names.push(0);
        }
        if let Some(session) = self.sessions.get(&message.session) {
            if session.names == self.names {
                return session.number;
            }
        } else if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.clear();
        }
        let names = self.names.clone();
        let seen = &mut self.sessions_seen;
        let session = self.sessions.entry(message.session.clone()).or_insert_with(|| {
            *seen += 1;
            Session { number: *seen, ..Session::default() }
        });
        session.names = names;
        let number = session.number;
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
        number
    }

    /// Returns the number of the statement's shape, introduced if it is new.
    fn shape(&mut self, text: &[u8], out: &mut Vec<u8>) -> u64 {
        let is_cut = text.len() > STATEMENT_BYTES_MAX;
        self.written.cut_statements += u64::from(is_cut);
        self.shape.scan(&text[..text.len().min(STATEMENT_BYTES_MAX)]);
        if let Some(&number) = self.shapes.get(&self.shape.key) {
            return number;
        }
        self.shapes_seen += 1;
        let number = self.shapes_seen;
        self.shapes_bytes += self.shape.key.len();
        if self.shapes_bytes > SHAPES_BYTES_MAX {
            self.shapes.clear();
            self.shapes_bytes = self.shape.key.len();
        }
        self.shapes.insert(self.shape.key.clone(), number);
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
        number
    }

    /// Write the parameters, then the constants of the statement.
    fn values(&mut self, message: &Message, line: &mut Line<'_>) {
        if !message.detail.is_empty() {
            let mut is_first = true;
            for parameter in parameters(&message.detail) {
                if is_first {
                    line.key("parameters");
                }
                line.out.push(if is_first { b'[' } else { b',' });
                is_first = false;
                match parameter {
                    Parameter::Null => line.out.extend_from_slice(b"null"),
                    Parameter::Quoted(raw) => self.value(raw, line),
                    Parameter::Cut => line.out.extend_from_slice(b"false"),
                }
            }
            if !is_first {
                line.out.push(b']');
            }
        }
        if self.shape.literals.is_empty() || message.severity == Severity::Error {
            return;
        }
        line.key("constants");
        let shape = std::mem::take(&mut self.shape);
        for (at, literal) in shape.literals.iter().enumerate() {
            line.out.push(if at > 0 { b',' } else { b'[' });
            let raw = &shape.text[literal.start..literal.end];
            if literal.is_list {
                let mut is_first = true;
                list_values(raw, |raw| {
                    line.out.push(if is_first { b'[' } else { b',' });
                    is_first = false;
                    self.value(raw, line);
                });
                line.out.push(b']');
            } else {
                self.value(raw, line);
            }
        }
        line.out.push(b']');
        self.shape = shape;
    }

    fn value(&mut self, raw: &[u8], line: &mut Line<'_>) {
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        write_value(raw, &mut value);
        if value.len() > VALUE_BYTES_MAX {
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
        self.value = value;
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

/// One line of JSON.
struct Line<'a> {
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    fn begin(&mut self, key: &str, word: &str) {
        self.out.extend_from_slice(b"{\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.string(word.as_bytes());
    }

    fn first_number(&mut self, key: &str, number: u64) {
        self.out.extend_from_slice(b"{\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.digits(number);
    }

    fn key(&mut self, key: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.digits(number);
    }

    fn digits(&mut self, number: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Write a string; bytes that are not UTF-8 become the characters of Latin-1 with their
    /// numbers, so equal texts stay equal. Returns 1 if there were any, else 0.
    fn string(&mut self, text: &[u8]) -> u64 {
        self.out.push(b'"');
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let mut start = 0;
        for (at, &byte) in text.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' && (byte < 0x80 || is_utf8) {
                continue;
            }
            self.out.extend_from_slice(&text[start..at]);
            start = at + 1;
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0..0x20 => {
                    let hex = b"0123456789abcdef";
                    let digits = [hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]];
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend_from_slice(&digits);
                }
                _ => {
                    let character = char::from(byte);
                    self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        self.out.extend_from_slice(&text[start..]);
        self.out.push(b'"');
        u64::from(!is_utf8)
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }
}
