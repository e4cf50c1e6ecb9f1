//! The reader: takes the bytes of a log in pieces of any size, and passes on its messages.

use crate::csv::{Csv, begins_record};
use crate::message::{Counts, MESSAGE_BYTES_MAX, Message};
use crate::prefix::Prefix;
use crate::stderr::Stderr;
use crate::syslog::{Heads, Syslog, numbered};
use crate::{json, time};

/// A line is longer than a message only if it is damaged.
const LINE_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// The format of a log, as in `log_destination`.
#[derive(Debug, Clone)]
pub enum Format {
    Stderr(Prefix),
    /// Through syslog or the journal, whose head stands before the prefix.
    Syslog(Prefix),
    Csv,
    Json,
}

impl Format {
    pub fn name(&self) -> &'static str {
        match self {
            Format::Stderr(_) => "stderr",
            Format::Syslog(_) => "syslog",
            Format::Csv => "csvlog",
            Format::Json => "jsonlog",
        }
    }
}

/// Why a log cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No known prefix reads its lines, or the given one reads none.
    Prefix,
    /// The prefix has neither `%c` nor `%p`.
    NoSession,
    /// The prefix has none of `%m`, `%t` and `%n`.
    NoTime,
    /// Programs that show logs begin with the newest line.
    NewestFirst,
}

/// What the beginning of a file says.
#[derive(Debug)]
pub struct Beginning {
    pub format: Format,
    /// The time of the first message; None before it.
    pub time_ns: Option<i64>,
}

impl Beginning {
    /// Recognises the format. `prefix`: that of the server, if it is known.
    pub fn of(head: &[u8], prefix: Option<&Prefix>) -> Result<Beginning, Trouble> {
        let lines =
            || head.split(|&byte| byte == b'\n').map(trimmed).filter(|line| !line.is_empty());
        if lines().take(100).any(|line| json::read(line, &mut Message::default()).is_some()) {
            let times = lines().filter_map(|line| {
                let mut message = Message::default();
                json::read(line, &mut message).and(message.time_ns)
            });
            return in_order(times, Format::Json);
        }
        let is_read = |prefix: &Prefix| {
            lines().take(1000).any(|line| prefix.read(line, &mut Message::default()).is_some())
        };
        let record = lines().take(1000).find(|line| begins_record(line));
        if let Some(line) = record.filter(|_| !prefix.is_some_and(is_read)) {
            let line = line.strip_prefix(b"\"").unwrap_or(line);
            let time_ns = time::read(line).map(|(time_ns, _)| time_ns);
            return Ok(Beginning { format: Format::Csv, time_ns });
        }
        if let Some(beginning) = of_syslog(head, prefix) {
            return beginning;
        }
        let prefix = match prefix {
            Some(prefix) => prefix.clone(),
            None => Prefix::detect(lines().take(1000)).ok_or(Trouble::Prefix)?,
        };
        match prefix.says_time_and_session() {
            (true, true) => {}
            (true, false) => return Err(Trouble::NoSession),
            (false, _) => return Err(Trouble::NoTime),
        }
        let time_ns = lines().find_map(|line| {
            let mut message = Message::default();
            prefix.read(line, &mut message).and(message.time_ns)
        });
        // A short file may end before its first message. A file that another prefix reads, or a
        // long one without any message, has another prefix.
        let has_other = || Prefix::detect(lines().take(1000)).is_some();
        if time_ns.is_none() && (lines().count() > 10 || has_other()) {
            return Err(Trouble::Prefix);
        }
        Ok(Beginning { format: Format::Stderr(prefix), time_ns })
    }
}

/// Returns the beginning of a log that came through syslog; None if it did not.
fn of_syslog(head: &[u8], prefix: Option<&Prefix>) -> Option<Result<Beginning, Trouble>> {
    let (mut heads, mut counts) = (Heads::default(), Counts::default());
    let lines = head.split(|&byte| byte == b'\n').map(trimmed).take(1000);
    let lines: Vec<&[u8]> = lines.collect();
    let is_export = lines.first().is_some_and(|line| line.starts_with(b"__CURSOR="));
    // Further lines of a text are indented.
    let filled = lines.iter().filter(|line| !line.is_empty() && line[0] > b' ').count();
    let read: Vec<_> = lines.iter().filter_map(|line| heads.read(line, &mut counts)).collect();
    if read.is_empty() || !is_export && 2 * read.len() < filled {
        return None;
    }
    let is_read =
        |prefix: &Prefix, text: &[u8]| prefix.read(text, &mut Message::default()).is_some();
    let texts = || {
        read.iter().map(|head| match numbered(&head.text, !head.pid.is_empty()) {
            Some((.., rest)) if prefix.is_none_or(|prefix| is_read(prefix, rest)) => rest,
            _ => &head.text,
        })
    };
    let prefix = match prefix {
        Some(prefix) if texts().any(|text| is_read(prefix, text)) => Some(prefix.clone()),
        Some(_) => None,
        None => Prefix::detect(texts()),
    };
    let Some(prefix) = prefix else { return Some(Err(Trouble::Prefix)) };
    if !prefix.says_time_and_session().1 && read.iter().all(|head| head.pid.is_empty()) {
        return Some(Err(Trouble::NoSession));
    }
    Some(in_order(read.iter().filter_map(|head| head.time_ns), Format::Syslog(prefix)))
}

/// Returns the beginning of a log with these times, unless nearly all steps lead back.
fn in_order(times: impl Iterator<Item = i64>, format: Format) -> Result<Beginning, Trouble> {
    let times: Vec<i64> = times.collect();
    let later = times.windows(2).filter(|pair| pair[0] < pair[1]).count();
    let earlier = times.windows(2).filter(|pair| pair[0] > pair[1]).count();
    if earlier >= 5 && earlier > 10 * later {
        return Err(Trouble::NewestFirst);
    }
    Ok(Beginning { format, time_ns: times.first().copied() })
}

#[derive(Debug)]
enum Parser {
    Stderr(Box<Stderr>),
    Syslog(Box<(Syslog, Stderr)>),
    Csv(Box<Csv>),
    Json(Box<Message>),
}

/// Splits bytes into messages. Memory: one line and one message.
#[derive(Debug)]
pub struct Reader {
    parser: Parser,
    /// The beginning of a line whose end has not come.
    carry: Vec<u8>,
    is_line_dropped: bool,
    without_nul: Vec<u8>,
    counts: Counts,
}

impl Reader {
    pub fn new(format: &Format) -> Reader {
        let parser = match format {
            Format::Stderr(prefix) => Parser::Stderr(Box::new(Stderr::new(prefix.clone()))),
            Format::Syslog(prefix) => {
                let parsers = (Syslog::new(prefix.clone()), Stderr::new(prefix.clone()));
                Parser::Syslog(Box::new(parsers))
            }
            Format::Csv => Parser::Csv(Box::default()),
            Format::Json => Parser::Json(Box::default()),
        };
        Reader {
            parser,
            carry: Vec::new(),
            is_line_dropped: false,
            without_nul: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Read the next bytes of a file, and pass on the messages that are complete.
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&Message)) {
        self.counts.bytes += bytes.len() as u64;
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.carry.is_empty() && !self.is_line_dropped {
                self.line(line, sink);
                continue;
            }
            self.keep(line);
            self.carried_line(sink);
        }
        self.keep(bytes);
    }

    /// A file ends. The server ends each line, so the message of a line without an end is dropped;
    /// an object of JSON shows by itself that it is whole.
    pub fn end_of_file(&mut self, sink: &mut dyn FnMut(&Message)) {
        if self.carry.iter().all(|byte| *byte == 0) {
            self.carried_line(sink);
        }
        self.is_line_dropped = false;
        let (counts, torn) = (&mut self.counts, &self.carry);
        match &mut self.parser {
            Parser::Stderr(parser) => parser.end_of_file(torn, counts, sink),
            Parser::Syslog(parsers) => {
                let (syslog, stderr) = &mut **parsers;
                syslog.end_of_file(torn, counts, &mut |head, counts| {
                    stderr.lines(head, counts, sink);
                });
                stderr.end_of_file(b"", counts, sink);
            }
            Parser::Csv(parser) => parser.end_of_file(torn, counts),
            Parser::Json(message) => match json::read(torn, message) {
                Some(()) => {
                    counts.messages += 1;
                    sink(message);
                }
                None => counts.torn_messages += u64::from(!torn.is_empty()),
            },
        }
        self.carry.clear();
    }

    fn keep(&mut self, part: &[u8]) {
        if self.carry.len() + part.len() > LINE_BYTES_MAX {
            self.counts.cut_messages += u64::from(!self.is_line_dropped);
            self.is_line_dropped = true;
            self.carry.clear();
        } else if !self.is_line_dropped {
            self.carry.extend_from_slice(part);
        }
    }

    fn carried_line(&mut self, sink: &mut dyn FnMut(&Message)) {
        let carry = std::mem::take(&mut self.carry);
        if !self.is_line_dropped {
            self.line(&carry, sink);
        }
        self.is_line_dropped = false;
        self.carry = carry;
        self.carry.clear();
    }

    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(&Message)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if memchr::memchr(0, line).is_none() {
            return self.clean_line(line, sink);
        }
        // A crash of the host leaves NUL bytes in a file.
        let mut clean = std::mem::take(&mut self.without_nul);
        clean.clear();
        clean.extend(line.iter().filter(|byte| **byte != 0));
        self.counts.nul_bytes += (line.len() - clean.len()) as u64;
        self.clean_line(&clean, sink);
        self.without_nul = clean;
    }

    fn clean_line(&mut self, line: &[u8], sink: &mut dyn FnMut(&Message)) {
        let counts = &mut self.counts;
        match &mut self.parser {
            Parser::Stderr(parser) => parser.line(line, None, counts, sink),
            Parser::Syslog(parsers) => {
                let (syslog, stderr) = &mut **parsers;
                syslog.line(line, counts, &mut |head, counts| stderr.lines(head, counts, sink));
            }
            Parser::Csv(parser) => parser.line(line, counts, sink),
            Parser::Json(message) => match json::read(line, message) {
                Some(()) => {
                    counts.messages += 1;
                    sink(message);
                }
                None => counts.unreadable_lines += u64::from(!line.is_empty()),
            },
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    let start = line.iter().take_while(|byte| **byte == 0).count();
    line[start..].strip_suffix(b"\r").unwrap_or(&line[start..])
}
