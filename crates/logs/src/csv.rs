//! Logs in the format csvlog: a record has one line, or several if a text has them.

use std::mem;

use crate::message::{Counts, MESSAGE_BYTES_MAX, Message, digits, severity};
use crate::time;

/// Joins lines to records. The columns are those of every version since 9.0; newer versions added
/// some at the end.
#[derive(Debug, Default)]
pub(crate) struct Csv {
    record: Vec<u8>,
    /// The record has an open quote.
    is_open: bool,
    message: Message,
}

impl Csv {
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Message),
    ) {
        if self.is_open && begins_record(line) {
            // The record before was cut, or the log begins within one.
            counts.unreadable_lines += 1;
            self.drop_record();
        }
        let is_odd = memchr::memchr_iter(b'"', line).count() % 2 == 1;
        if !self.is_open && !is_odd {
            return self.whole(line, counts, sink);
        }
        if !self.is_open && !begins_record(line) {
            counts.unreadable_lines += 1;
            return;
        }
        if self.is_open {
            self.record.push(b'\n');
        }
        self.record.extend_from_slice(line);
        self.is_open ^= is_odd;
        if !self.is_open {
            let record = mem::take(&mut self.record);
            self.whole(&record, counts, sink);
            self.record = record;
            self.record.clear();
        } else if self.record.len() > MESSAGE_BYTES_MAX {
            counts.cut_messages += 1;
            self.drop_record();
        }
    }

    /// `torn`: the last line if it has no end. Then its record is not whole.
    pub(crate) fn end_of_file(&mut self, torn: &[u8], counts: &mut Counts) {
        counts.torn_messages += u64::from(self.is_open || !torn.is_empty());
        self.drop_record();
    }

    fn drop_record(&mut self) {
        self.record.clear();
        self.is_open = false;
    }

    fn whole(&mut self, record: &[u8], counts: &mut Counts, sink: &mut dyn FnMut(&Message)) {
        if record.is_empty() {
            return;
        }
        let message = &mut self.message;
        message.clear();
        let mut rest = Some(record);
        let mut columns = 0;
        while let Some(text) = rest {
            let (field, after) = next_field(text);
            set_column(columns, field, message);
            rest = after;
            columns += 1;
        }
        if columns >= 14 && message.time_ns.is_some() {
            counts.messages += 1;
            sink(message);
        } else {
            counts.unreadable_lines += 1;
        }
    }
}

/// Whether a line looks like the first line of a record: a time, then a comma. Programs that write
/// records again quote the time, too.
pub(crate) fn begins_record(line: &[u8]) -> bool {
    let bare = line.strip_prefix(b"\"");
    let rest = time::read(bare.unwrap_or(line)).map(|(_, length)| &bare.unwrap_or(line)[length..]);
    rest.is_some_and(|rest| rest.starts_with(if bare.is_some() { b"\"," } else { b"," }))
}

/// Returns the first field as it is written, and what follows its comma.
fn next_field(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut end = 0;
    if text.first() == Some(&b'"') {
        end = 1;
        while let Some(length) = memchr::memchr(b'"', &text[end..]) {
            end += length + 1;
            if text.get(end) != Some(&b'"') {
                break;
            }
            end += 1;
        }
    }
    match memchr::memchr(b',', &text[end..]) {
        Some(length) => (&text[..end + length], Some(&text[end + length + 1..])),
        None => (text, None),
    }
}

fn set_column(column: usize, field: &[u8], message: &mut Message) {
    match column {
        0 => message.time_ns = time::read(bare(field)).map(|(time_ns, _)| time_ns),
        1 => unquote(field, &mut message.user),
        2 => unquote(field, &mut message.database),
        // Without a session id, the process id.
        3 => unquote(field, &mut message.session),
        5 if !field.is_empty() => {
            message.session.clear();
            unquote(field, &mut message.session);
            message.is_session_id = true;
        }
        6 => message.line_number = digits(bare(field)),
        11 => message.severity = severity(bare(field)),
        12 => unquote(field, &mut message.sqlstate),
        13 => unquote(field, &mut message.text),
        14 => unquote(field, &mut message.detail),
        19 => unquote(field, &mut message.statement),
        22 => unquote(field, &mut message.application),
        _ => {}
    }
}

/// Returns a field that has no quote within, without those around it.
fn bare(field: &[u8]) -> &[u8] {
    let inner = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inner.unwrap_or(field)
}

fn unquote(field: &[u8], out: &mut Vec<u8>) {
    let mut inner = bare(field);
    if inner.len() == field.len() {
        return out.extend_from_slice(field);
    }
    while let Some(at) = memchr::memchr(b'"', inner) {
        out.extend_from_slice(&inner[..=at]);
        inner = inner.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(inner);
}
