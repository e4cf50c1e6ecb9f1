//! Logs that came through syslog, the journal, or a program that collects the output of containers:
//! lines of many processes, each with a head.
//!
//! The server splits a message at its ends of lines and before 900 bytes, and numbers the parts:
//! `[7-2]` is the second part of the seventh message of a process, `[2]` without
//! `syslog_sequence_numbers`. Parts of different processes alternate, so a message waits until its
//! process begins the next one, or is silent for many lines.
//!
//! Limits: rsyslog writes a tab as `#011`; a quoted `'#011'` may be a colour and is left alone.
//! Heads such as `Nov 30 09:17:38` have no year, so only distances between their times are right.

use std::collections::{HashMap, VecDeque};

use crate::json;
use crate::message::{Counts, Label, MESSAGE_BYTES_MAX, Message, digits, label};
use crate::prefix::Prefix;
use crate::time;

/// A message is whole if its process wrote none of this number of lines.
const LINES_BETWEEN_PARTS: u64 = 5000;
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// Of heads without a year; a leap year.
const YEAR: i64 = 2000;

/// What syslog or the journal says of a line, and the text that the server gave them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Head {
    pub(crate) time_ns: Option<i64>,
    pub(crate) is_whole_second: bool,
    pub(crate) pid: Vec<u8>,
    pub(crate) text: Vec<u8>,
    /// The text is as the server gave it: no control characters are escaped.
    pub(crate) is_raw: bool,
}

/// Takes the heads off lines; an entry of `journalctl -o export` has several lines.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    entry: Head,
    has_unread_text: bool,
    month: i64,
    year: i64,
}

impl Heads {
    /// Returns the head of a line; None if the line has none, or if its entry goes on.
    pub(crate) fn read(&mut self, line: &[u8], counts: &mut Counts) -> Option<Head> {
        if line.is_empty() {
            let entry = std::mem::take(&mut self.entry);
            counts.incomplete_messages += u64::from(std::mem::take(&mut self.has_unread_text));
            return (!entry.text.is_empty()).then_some(Head { is_raw: true, ..entry });
        }
        if line.starts_with(b"{") {
            return in_json(line);
        }
        if self.field(line) {
            return None;
        }
        let line = after_priority(line).unwrap_or(line);
        let (time, line) = match line.strip_prefix(b"1 ") {
            Some(rest) => return after_names(iso_time(rest)?),
            None => match iso_time(line) {
                Some((time, rest)) => {
                    return after_tag(&time, rest).or_else(|| of_container(time, rest));
                }
                None => self.time_without_year(line)?,
            },
        };
        after_tag(&time, line)
    }

    /// Whether this line is a field of an entry of the journal.
    fn field(&mut self, line: &[u8]) -> bool {
        let Some(at) = memchr::memchr(b'=', line) else {
            // The text has control characters: its length and its bytes follow.
            self.has_unread_text |= line == b"MESSAGE";
            return line == b"MESSAGE";
        };
        let value = &line[at + 1..];
        match &line[..at] {
            b"MESSAGE" => self.entry.text = value.to_vec(),
            b"_PID" if self.entry.pid.is_empty() => self.entry.pid = value.to_vec(),
            b"SYSLOG_PID" => self.entry.pid = value.to_vec(),
            b"__REALTIME_TIMESTAMP" => {
                let text = std::str::from_utf8(value).ok();
                let us = text.and_then(|text| text.parse::<i64>().ok());
                self.entry.time_ns = us.map(|us| us * 1000);
            }
            name => {
                let is_name =
                    |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
                return !name.is_empty() && name.iter().all(is_name);
            }
        }
        true
    }

    /// Reads `Nov 30 09:17:38`, perhaps with a fraction. Returns what follows the space after it.
    fn time_without_year<'a>(&mut self, line: &'a [u8]) -> Option<(Head, &'a [u8])> {
        let name = line.get(..3)?;
        let month = MONTHS.chunks(3).position(|month| month == name)? as i64 + 1;
        let day = match line.get(4..6)? {
            [b' ', day] => [b'0', *day],
            [ten, day] => [*ten, *day],
            _ => return None,
        };
        if self.year == 0 || month + 6 < self.month {
            self.year += if self.year == 0 { YEAR } else { 1 };
        }
        self.month = month;
        let end = line.iter().skip(7).position(|byte| *byte == b' ')? + 7;
        let text = [
            format!("{}-{month:02}-{}{} ", self.year, char::from(day[0]), char::from(day[1]))
                .as_bytes(),
            line.get(7..end)?,
        ]
        .concat();
        Some((timed(&text)?, &line[end + 1..]))
    }
}

/// Joins the parts of messages. `LINES_BETWEEN_PARTS` bounds how many wait.
#[derive(Debug)]
pub(crate) struct Syslog {
    prefix: Prefix,
    heads: Heads,
    waiting: VecDeque<Waiting>,
    /// Process -> number of its last message, counted from the first that waited.
    last_of: HashMap<Vec<u8>, u64>,
    released_count: u64,
    line_count: u64,
    is_raw: bool,
    probe: Message,
}

/// A message that may go on.
#[derive(Debug)]
struct Waiting {
    head: Head,
    /// Of the message within its process, with `syslog_sequence_numbers`.
    number: Option<u64>,
    /// Of its last part; 0 if parts are not numbered.
    part: u64,
    last_line: u64,
    has_ended: bool,
    is_torn: bool,
}

impl Syslog {
    pub(crate) fn new(prefix: Prefix) -> Syslog {
        Syslog {
            prefix,
            heads: Heads::default(),
            waiting: VecDeque::new(),
            last_of: HashMap::new(),
            released_count: 0,
            line_count: 0,
            is_raw: false,
            probe: Message::default(),
        }
    }

    /// Take a line, and pass on the messages that are whole: head and lines.
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Head, &mut Counts),
    ) {
        if let Some(head) = self.heads.read(line, counts) {
            self.line_count += 1;
            self.take(head, counts);
        } else if line.starts_with(b"    ") && !self.waiting.is_empty() {
            // journalctl indents the further lines of a text.
            self.append_to_last(line.trim_ascii_start());
        } else {
            let is_field = line.is_empty() || self.heads.field(line);
            counts.unreadable_lines += u64::from(!is_field);
        }
        self.release(self.line_count, counts, sink);
    }

    pub(crate) fn end_of_file(
        &mut self,
        torn: &[u8],
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Head, &mut Counts),
    ) {
        counts.torn_messages += u64::from(!torn.is_empty());
        self.line(b"", counts, sink);
        self.release(u64::MAX, counts, sink);
    }

    fn take(&mut self, mut head: Head, counts: &mut Counts) {
        let mut text = std::mem::take(&mut head.text);
        let has_pid = !head.pid.is_empty();
        let rest = numbered(&text, has_pid).map_or(&text[..], |(.., rest)| rest);
        self.is_raw |= head.is_raw || rest.starts_with(b"\t");
        if !self.is_raw {
            text = unescaped(&text);
        }
        let last = self.last_of.get(&head.pid);
        let last = last.map(|number| (number - self.released_count) as usize);
        let last = last.map(|at| (at, self.waiting[at].number, self.waiting[at].part));
        let (number, part, rest) = numbered(&text, has_pid).unwrap_or((0, None, &text));
        let is_numbered = rest.len() < text.len();
        match (part, last) {
            (Some(1), _) => self.begin(head, Some(number), 1, rest),
            (Some(part), Some((at, last_number, last_part))) if last_number == Some(number) => {
                self.append(at, part, rest);
                self.waiting[at].is_torn |= last_part + 1 != part;
            }
            (Some(_), _) => counts.unreadable_lines += 1,
            (None, Some((at, None, last @ 1..)))
                if is_numbered && last + 1 == number && !self.begins(rest) =>
            {
                self.append(at, number, rest);
            }
            // A prefix such as `[%p] %u` reads a text with its number, too.
            (None, _) if is_numbered && self.begins(rest) => {
                self.begin(head, None, u64::from(number == 1), rest);
            }
            (None, _) if self.begins(&text) => self.begin(head, None, 0, &text),
            (None, Some((at, ..))) if !is_numbered && self.goes_on(&text) => {
                self.append(at, 0, &text);
            }
            _ => counts.unreadable_lines += 1,
        }
    }

    fn begin(&mut self, mut head: Head, number: Option<u64>, part: u64, text: &[u8]) {
        let number_here = self.released_count + self.waiting.len() as u64;
        if let Some(before) = self.last_of.insert(head.pid.clone(), number_here) {
            self.waiting[(before - self.released_count) as usize].has_ended = true;
        }
        head.text = text.to_vec();
        self.waiting.push_back(Waiting {
            head,
            number,
            part,
            last_line: self.line_count,
            has_ended: false,
            is_torn: false,
        });
    }

    /// Add a part. A part that begins neither with a tab nor with the prefix continues a line.
    fn append(&mut self, at: usize, part: u64, text: &[u8]) {
        let is_line = self.goes_on(text);
        let waiting = &mut self.waiting[at];
        if is_line {
            waiting.head.text.push(b'\n');
        }
        waiting.head.text.extend_from_slice(text);
        waiting.is_torn |= waiting.head.text.len() > 2 * MESSAGE_BYTES_MAX;
        (waiting.part, waiting.last_line) = (part, self.line_count);
    }

    fn append_to_last(&mut self, text: &[u8]) {
        let at = self.waiting.len() - 1;
        let part = self.waiting[at].part;
        match self.label(text) {
            Some(_) => self.append(at, part, text),
            None => self.append(at, part, &[b"\t", text].concat()),
        }
    }

    fn begins(&mut self, text: &[u8]) -> bool {
        matches!(self.label(text), Some(Label::Begins(_)))
    }

    fn goes_on(&mut self, text: &[u8]) -> bool {
        text.starts_with(b"\t") || self.label(text).is_some()
    }

    fn label(&mut self, text: &[u8]) -> Option<Label> {
        self.probe.clear();
        let (text_start, label_start) = self.prefix.read(text, &mut self.probe)?;
        label(&text[label_start..text_start - 3])
    }

    fn release(
        &mut self,
        line_count: u64,
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Head, &mut Counts),
    ) {
        let is_whole = |waiting: &Waiting| {
            waiting.has_ended || line_count - waiting.last_line > LINES_BETWEEN_PARTS
        };
        while self.waiting.front().is_some_and(is_whole) {
            let Some(Waiting { head, has_ended, is_torn, .. }) = self.waiting.pop_front() else {
                return;
            };
            self.released_count += 1;
            if !has_ended {
                self.last_of.remove(&head.pid);
            }
            match is_torn {
                true => counts.incomplete_messages += 1,
                false => sink(&head, counts),
            }
        }
    }
}

/// Returns `[7-2] rest` as (7, 2, rest), and `[2] rest` as (2, None, rest). Only syslog numbers
/// parts, and it knows the process: elsewhere `[2]` belongs to the prefix.
pub(crate) fn numbered(text: &[u8], has_pid: bool) -> Option<(u64, Option<u64>, &[u8])> {
    let inner = text.strip_prefix(b"[").filter(|_| has_pid)?;
    let end = memchr::memchr(b']', &inner[..inner.len().min(32)])?;
    let numbers = std::str::from_utf8(&inner[..end]).ok()?;
    let rest = inner.get(end + 1..)?.strip_prefix(b" ")?;
    Some(match numbers.split_once('-') {
        Some((number, part)) => (number.parse().ok()?, Some(part.parse().ok()?), rest),
        None => (numbers.parse().ok()?, None, rest),
    })
}

/// Reads an entry of `journalctl -o json`, of Docker's json-file or of a cloud's log. Returns None
/// for other lines.
fn in_json(line: &[u8]) -> Option<Head> {
    let mut head = Head { is_raw: true, ..Head::default() };
    let mut sender = Vec::new();
    json::members(line, |key, value| match key {
        b"MESSAGE" | b"textPayload" | b"log" => {
            head.text.extend_from_slice(value.strip_suffix(b"\n").unwrap_or(value));
        }
        b"timestamp" | b"time" => {
            let time = iso_time(&[value, b" "].concat()).map(|(time, _)| time);
            head.time_ns = head.time_ns.or(time.and_then(|time| time.time_ns));
        }
        b"_PID" => head.pid.extend_from_slice(value),
        b"SYSLOG_PID" => sender.extend_from_slice(value),
        b"__REALTIME_TIMESTAMP" => {
            let us = digits(value).and_then(|us| i64::try_from(us).ok());
            head.time_ns = us.map(|us| us * 1000);
        }
        _ => {}
    })?;
    if !sender.is_empty() {
        head.pid = sender;
    }
    head.time_ns.map(|_| head)
}

fn after_priority(line: &[u8]) -> Option<&[u8]> {
    let inner = line.strip_prefix(b"<")?;
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
    inner.get(digits..)?.strip_prefix(b">").filter(|_| (1..=3).contains(&digits))
}

/// Reads `2026-11-30T09:17:38.123+01:00`. Returns what follows the space after it.
fn iso_time(line: &[u8]) -> Option<(Head, &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    let (date, clock) = (line.get(..10)?, line.get(11..end)?);
    if line[10] != b'T' {
        return None;
    }
    let digits = clock.iter().take_while(|byte| byte.is_ascii_digit() || b":.".contains(byte));
    let (clock, zone) = clock.split_at(digits.count());
    let zone: Vec<u8> = zone.iter().copied().filter(|byte| *byte != b':').collect();
    let text = [date, b" ", clock, b" ", if zone == b"Z" { b"UTC" } else { &zone }].concat();
    Some((timed(&text)?, &line[end + 1..]))
}

/// Reads what follows the time of a container: `stderr F text`, or the text alone.
fn of_container(time: Head, line: &[u8]) -> Option<Head> {
    let stream = line.strip_prefix(b"stderr ").or_else(|| line.strip_prefix(b"stdout "));
    let text = stream.and_then(|rest| rest.strip_prefix(b"F "));
    Some(Head { text: text.unwrap_or(line).to_vec(), is_raw: true, ..time })
}

fn timed(text: &[u8]) -> Option<Head> {
    let (time_ns, _) = time::read(text)?;
    let is_whole_second = text.get(19) != Some(&b'.');
    Some(Head { time_ns: Some(time_ns), is_whole_second, ..Head::default() })
}

/// Reads `host postgres[77]: text`, or `app[postgres.77]: [COLOUR] text` without a host.
fn after_tag(head: &Head, line: &[u8]) -> Option<Head> {
    let end = memchr::memmem::find(&line[..line.len().min(300)], b": ")?;
    let names: Vec<&[u8]> = line[..end].split(|byte| *byte == b' ').collect();
    let (tag, text) = (*names.last()?, &line[end + 2..]);
    let pid = tag.strip_suffix(b"]").and_then(|tag| tag.rsplit(|byte| *byte == b'[').next());
    let text = match (&names[..], pid) {
        ([_, _], _) if label(tag).is_none() => text,
        ([_], Some(_)) => after_colour(text),
        _ => return None,
    };
    Some(Head { pid: pid.unwrap_or_default().to_vec(), text: text.to_vec(), ..head.clone() })
}

/// Returns what follows `[COLOUR] `, the name of a database at a host of applications.
fn after_colour(text: &[u8]) -> &[u8] {
    let end = text.strip_prefix(b"[").and_then(|rest| memchr::memmem::find(rest, b"] "));
    end.map_or(text, |end| match text[1..=end].iter().all(u8::is_ascii_uppercase) {
        true => &text[end + 3..],
        false => text,
    })
}

/// Reads `host postgres 77 - - text` of RFC 5424; `-`, or elements in brackets, are its data.
fn after_names((head, line): (Head, &[u8])) -> Option<Head> {
    let mut fields = line.splitn(5, |byte| *byte == b' ');
    let pid = fields.by_ref().nth(2)?;
    let rest = fields.nth(1)?;
    let text = if let Some(text) = rest.strip_prefix(b"- ") {
        text
    } else {
        &rest[memchr::memmem::find(rest.strip_prefix(b"[").map(|_| rest)?, b"] ")? + 2..]
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).to_vec();
    let pid = if pid == b"-" { b"" } else { pid };
    Some(Head { pid: pid.to_vec(), text, ..head })
}

/// Returns a text with the tabs and ends of lines that rsyslog wrote as `#011` and `#012`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'#', rest) {
        out.extend_from_slice(&rest[..at]);
        let is_colour = out.last().is_some_and(|quote| is_colour(*quote, &rest[at + 1..]));
        let control = match rest.get(at + 1..at + 4) {
            Some(b"011") if !is_colour => Some(b'\t'),
            Some(b"012") if !is_colour => Some(b'\n'),
            Some(b"015") if !is_colour => Some(b'\r'),
            _ => None,
        };
        out.push(control.unwrap_or(b'#'));
        rest = &rest[at + if control.is_some() { 4 } else { 1 }..];
    }
    out.extend_from_slice(rest);
    out
}

/// Whether the text is the rest of a quoted colour, such as `'#012345'`.
fn is_colour(quote: u8, text: &[u8]) -> bool {
    let length = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    matches!(quote, b'\'' | b'"') && text.get(length) == Some(&quote) && [3, 6, 8].contains(&length)
}
