//! Logs in the format jsonlog (15): one object a line, with texts and numbers as its values.
//!
//! Operators of clusters put a record into an object of theirs, under the names of csvlog's
//! columns: the members of objects within a line count as those of the line.
//!
//! The server writes texts in the encoding of the database, so a line need not be UTF-8.

use crate::message::{Message, digits, severity};
use crate::time;

const DEPTH_MAX: usize = 8;

/// Reads a line into the message. Returns None if it is not a whole object of the log.
pub(crate) fn read(line: &[u8], message: &mut Message) -> Option<()> {
    message.clear();
    let mut pid = Vec::new();
    members(line, |key, value| set(key, value, message, &mut pid))?;
    if message.session.is_empty() {
        message.session.append(&mut pid);
    } else {
        message.is_session_id = true;
    }
    message.time_ns.map(|_| ())
}

/// Calls `take` with each key and its value, those of inner objects, too. Arrays are left out.
/// Returns None if the line is not a whole object.
pub(crate) fn members(line: &[u8], mut take: impl FnMut(&[u8], &[u8])) -> Option<()> {
    object_end(line, skip_spaces(line, 0), 0, &mut take).map(|_| ())
}

/// Returns the place after the object that begins at `at`.
fn object_end(
    line: &[u8],
    mut at: usize,
    depth: usize,
    take: &mut impl FnMut(&[u8], &[u8]),
) -> Option<usize> {
    if line.get(at) != Some(&b'{') || depth > DEPTH_MAX {
        return None;
    }
    let mut value = Vec::new();
    loop {
        at = skip_spaces(line, at + 1);
        if line.get(at) == Some(&b'}') {
            return Some(at + 1);
        }
        let key_end = string_end(line, at)?;
        let key = &line[at + 1..key_end - 1];
        at = skip_spaces(line, key_end);
        if line.get(at) != Some(&b':') {
            return None;
        }
        at = skip_spaces(line, at + 1);
        let end = match line.get(at)? {
            b'{' => object_end(line, at, depth + 1, take)?,
            b'[' => array_end(line, at)?,
            _ => value_end(line, at)?,
        };
        value.clear();
        match line[at] {
            b'"' => unescape(&line[at + 1..end - 1], &mut value),
            b'{' | b'[' => {}
            _ => value.extend_from_slice(&line[at..end]),
        }
        if !matches!(line[at], b'{' | b'[') {
            take(key, &value);
        }
        at = skip_spaces(line, end);
        match line.get(at)? {
            b',' => {}
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Returns the place after the array that begins at `at`.
fn array_end(line: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match line.get(at)? {
            b'"' => at = string_end(line, at)? - 1,
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

fn set(key: &[u8], value: &[u8], message: &mut Message, pid: &mut Vec<u8>) {
    let part = match key {
        b"timestamp" | b"log_time" => {
            return message.time_ns = time::read(value).map(|(time_ns, _)| time_ns);
        }
        b"line_num" | b"session_line_num" => return message.line_number = digits(value),
        b"error_severity" => return message.severity = severity(value),
        b"pid" | b"process_id" => pid,
        b"session_id" => &mut message.session,
        b"user" | b"user_name" => &mut message.user,
        b"dbname" | b"database_name" => &mut message.database,
        b"application_name" => &mut message.application,
        b"state_code" | b"sql_state_code" => &mut message.sqlstate,
        b"message" => &mut message.text,
        b"detail" => &mut message.detail,
        b"statement" | b"query" => &mut message.statement,
        _ => return,
    };
    part.extend_from_slice(value);
}

fn skip_spaces(line: &[u8], at: usize) -> usize {
    at + line.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b' ').count()
}

/// Returns the place after the string that begins at `start`.
fn string_end(line: &[u8], start: usize) -> Option<usize> {
    if line.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn value_end(line: &[u8], start: usize) -> Option<usize> {
    match line.get(start)? {
        b'"' => string_end(line, start),
        _ => memchr::memchr2(b',', b'}', &line[start..]).map(|length| start + length),
    }
}

fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let letter = rest.get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match letter {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => rest = unescape_code(rest, out),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
}

/// Write the character of `\uXXXX`. PostgreSQL writes only control characters in this way.
fn unescape_code<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let code = rest.get(..4).and_then(|hex| std::str::from_utf8(hex).ok());
    let code = code.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let Some(code) = code else { return rest };
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    &rest[4..]
}
