//! `log_line_prefix`: reads the beginning of a line with it, and finds it if it is not known.

use std::collections::HashSet;

use crate::guess::guessed;
use crate::message::{Message, digits, label};
use crate::time;

/// Prefixes that are tried if none is given: the defaults of PostgreSQL, of distributions, of
/// services and of other readers of logs.
const USUAL: &[&str] = &[
    "%m [%p] ",
    "%m [%p] %q%u@%d ",
    "%m [%p]: ",
    "%t [%p] ",
    "%t [%p]: ",
    "%t [%p]: [%l-1] ",
    "%m [%p]: [%l-1] ",
    "%m [%p] [%l-1] ",
    "%t [%p-%l] %q%u@%d ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%t [%p]: [%l-1] %q%u@%d ",
    "%t [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%m [%p] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p] %u@%d ",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%m [%p]: %q[%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%m|%u|%d|%c|",
    "%m %c ",
    "%m [%c] ",
    "%m %c %v ",
    "%m [%p] %c %v ",
    "%m [%p] %c ",
    "%t %c ",
    "%n [%p] ",
    "%n %c ",
    "[%m] [%p] ",
    "%t-%c-",
    "%t-%p-",
];
/// From how many lines a prefix that is not among the usual ones is guessed.
const GUESSED_MAX: usize = 20;
/// The longest text of an escape such as the name of an application, in bytes.
const NAME_BYTES_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Escape {
        letter: u8,
        is_padded: bool,
    },
    /// `%q`: processes without a session write no more than this.
    SessionOnly,
}

/// A prefix that is ready to read lines.
#[derive(Debug, Clone)]
pub struct Prefix {
    setting: String,
    parts: Vec<Part>,
}

/// What the prefix said, as places in its line.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    time_ns: Option<i64>,
    is_whole_second: bool,
    line_number: Option<u64>,
    /// Start and end of the texts of %c, %p, %u, %d, %a, %e.
    texts: [(u32, u32); 6],
}

const TEXTS: &[u8; 6] = b"cpudae";

impl Prefix {
    /// Makes a prefix of the setting's value.
    pub fn new(setting: &str) -> Prefix {
        let mut parts: Vec<Part> = Vec::new();
        let mut bytes = setting.bytes().peekable();
        while let Some(byte) = bytes.next() {
            let mut add = |byte: u8| match parts.last_mut() {
                Some(Part::Literal(text)) => text.push(byte),
                _ => parts.push(Part::Literal(vec![byte])),
            };
            if byte != b'%' {
                add(byte);
                continue;
            }
            let mut is_padded = false;
            while bytes.next_if(|byte| byte.is_ascii_digit() || *byte == b'-').is_some() {
                is_padded = true;
            }
            match bytes.next() {
                None => {}
                Some(b'%') => add(b'%'),
                Some(b'q') => parts.push(Part::SessionOnly),
                Some(letter) => parts.push(Part::Escape { letter, is_padded }),
            }
        }
        Prefix { setting: setting.to_owned(), parts }
    }

    pub fn setting(&self) -> &str {
        &self.setting
    }

    /// Whether lines say their time and their session (`%c` or `%p`).
    pub fn says_time_and_session(&self) -> (bool, bool) {
        let has = |letters: &[u8]| {
            self.parts
                .iter()
                .any(|part| matches!(part, Part::Escape { letter, .. } if letters.contains(letter)))
        };
        (has(b"mtn"), has(b"cp"))
    }

    /// Returns the prefix that reads most of these lines; None if none reads at least half of
    /// those that could be the first line of a message.
    pub fn detect<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Prefix> {
        let mut message = Message::default();
        let begins =
            |line: &&[u8]| !line.starts_with(b"\t") && memchr::memmem::find(line, b":  ").is_some();
        let possible = lines.clone().filter(begins).count();
        let mut best: Option<((usize, usize, usize), Prefix)> = None;
        let mut settings: Vec<String> = USUAL.iter().map(|&setting| setting.into()).collect();
        for line in lines.clone().filter(|line| !line.starts_with(b"\t")).take(GUESSED_MAX) {
            let new = guessed(line).into_iter().filter(|setting| !settings.contains(setting));
            settings.extend(new.collect::<Vec<_>>());
        }
        for setting in &settings {
            let prefix = Prefix::new(setting);
            let says = prefix.says_time_and_session();
            let (mut count, mut named) = (0, 0);
            for line in lines.clone() {
                message.clear();
                let is_read = prefix.read(line, &mut message).is_some();
                // A name with spaces is rather a part of another prefix.
                let names = [&message.user, &message.database];
                if is_read && !names.iter().any(|name| name.contains(&b' ')) {
                    count += 1;
                    named += usize::from(!message.user.is_empty());
                }
            }
            // A prefix that says more counts more; of two that say as much, the shorter one.
            let score = (count, usize::from(says.1), named);
            let is_better = |(other, _): &((usize, usize, usize), Prefix)| score > *other;
            if count > 0 && best.as_ref().is_none_or(is_better) {
                best = Some((score, prefix));
            }
        }
        best.filter(|((count, ..), _)| 2 * count >= possible).map(|(_, prefix)| prefix)
    }

    /// Reads the beginning of a line into the message. Returns the place after `LABEL:  `, and the
    /// place of the label; None if the line does not begin with this prefix.
    pub fn read(&self, line: &[u8], message: &mut Message) -> Option<(usize, usize)> {
        let mut captured = Found::default();
        let mut matcher = Matcher { line, failed: HashSet::new() };
        let label_start = matcher.parts_end(&self.parts, 0, &mut captured)?;
        let label_end = label_end(line, label_start)?;
        message.time_ns = captured.time_ns;
        message.is_whole_second = captured.is_whole_second;
        message.line_number = captured.line_number;
        let text = |at: usize| {
            let (start, end) = captured.texts[at];
            &line[start as usize..end as usize]
        };
        message.is_session_id = !text(0).is_empty();
        let session = if message.is_session_id { text(0) } else { text(1) };
        message.session.extend_from_slice(session);
        message.user.extend_from_slice(known(text(2)));
        message.database.extend_from_slice(known(text(3)));
        message.application.extend_from_slice(known(text(4)));
        message.sqlstate.extend_from_slice(text(5));
        Some((label_end + 3, label_start))
    }
}

/// PostgreSQL writes `[unknown]` before it knows a name.
fn known(name: &[u8]) -> &[u8] {
    if name == b"[unknown]" { b"" } else { name.trim_ascii_end() }
}

/// The place of `:  ` after a known label at `start`.
fn label_end(line: &[u8], start: usize) -> Option<usize> {
    let rest = line.get(start..)?;
    let window = &rest[..rest.len().min(48)];
    let length = memchr::memmem::find(window, b":  ")?;
    label(&window[..length]).map(|_| start + length)
}

/// Looks for the end of a prefix in one line.
///
/// Subtle: names may end at many places, and those of several names multiply. What fails for the
/// rest of a prefix at a place fails there whatever was before, so no such search is made twice.
struct Matcher<'a> {
    line: &'a [u8],
    /// The number of parts that were left, and the place at which they failed.
    failed: HashSet<(usize, usize)>,
}

impl Matcher<'_> {
    /// Returns the place after these parts, at which a label begins.
    fn parts_end(&mut self, parts: &[Part], at: usize, captured: &mut Found) -> Option<usize> {
        let Some((part, rest)) = parts.split_first() else {
            return label_end(self.line, at).map(|_| at);
        };
        match part {
            Part::Literal(text) => {
                let next = self.line.get(at..)?.starts_with(text).then_some(at + text.len())?;
                self.parts_end(rest, next, captured)
            }
            Part::SessionOnly => {
                let mut longer = *captured;
                if let Some(end) = self.parts_end(rest, at, &mut longer) {
                    *captured = longer;
                    return Some(end);
                }
                label_end(self.line, at).map(|_| at)
            }
            Part::Escape { letter, is_padded } => {
                let start = if *is_padded { self.spaces_end(at) } else { at };
                let shape = shape_of(*letter, self.line.get(start..)?, captured);
                let Some(length) = shape else {
                    return self.name_end(*letter, start, rest, captured);
                };
                if *letter == b'l' {
                    captured.line_number = digits(&self.line[start..start + length]);
                }
                note(*letter, start, start + length, captured);
                // Padding and a space of the prefix look alike.
                let end = start + length;
                let last = if *is_padded { self.spaces_end(end) } else { end };
                (end..=last).find_map(|end| self.parts_end(rest, end, captured))
            }
        }
    }

    fn spaces_end(&self, from: usize) -> usize {
        let rest = &self.line[from.min(self.line.len())..];
        from + rest.iter().take_while(|byte| **byte == b' ').count()
    }

    /// A name may hold any byte: it ends where the rest of the prefix matches first.
    fn name_end(
        &mut self,
        letter: u8,
        start: usize,
        rest: &[Part],
        captured: &mut Found,
    ) -> Option<usize> {
        if matches!(letter, b'm' | b't' | b'n' | b'e') || self.failed.contains(&(rest.len(), start))
        {
            return None;
        }
        let last = self.line.len().min(start + NAME_BYTES_MAX);
        let mut end = start;
        while end <= last {
            // Only places at which the next literal stands are tried.
            if let Some(Part::Literal(text)) = rest.first() {
                let Some(skipped) = memchr::memmem::find(self.line.get(end..)?, text) else {
                    break;
                };
                end += skipped;
            }
            let mut tried = *captured;
            note(letter, start, end, &mut tried);
            if let Some(place) = self.parts_end(rest, end, &mut tried) {
                *captured = tried;
                return Some(place);
            }
            end += 1;
        }
        self.failed.insert((rest.len(), start));
        None
    }
}

/// Returns the length of an escape that has one possible form at the beginning of `text`.
fn shape_of(letter: u8, text: &[u8], captured: &mut Found) -> Option<usize> {
    let while_is = |is: fn(u8) -> bool| text.iter().take_while(|byte| is(**byte)).count();
    match letter {
        b'm' | b't' => {
            let (time_ns, length) = time::read(text)?;
            captured.time_ns = Some(time_ns);
            captured.is_whole_second = text.get(19) != Some(&b'.');
            Some(length)
        }
        b'n' => {
            let (time_ns, length) = time::read_unix(text)?;
            captured.time_ns = Some(time_ns);
            Some(length)
        }
        b's' => time::read(text).map(|(_, length)| length),
        b'p' | b'l' | b'x' | b'P' => Some(while_is(|byte| byte.is_ascii_digit())),
        b'Q' => Some(while_is(|byte| byte.is_ascii_digit() || byte == b'-')),
        b'c' => Some(while_is(|byte| byte.is_ascii_hexdigit() || byte == b'.')),
        b'v' => Some(while_is(|byte| byte.is_ascii_digit() || byte == b'/')),
        b'e' => (while_is(|byte| byte.is_ascii_alphanumeric()) >= 5).then_some(5),
        _ => None,
    }
}

fn note(letter: u8, start: usize, end: usize, captured: &mut Found) {
    let places = (start as u32, end as u32);
    if let Some(at) = TEXTS.iter().position(|known| *known == letter) {
        captured.texts[at] = places;
    }
}
