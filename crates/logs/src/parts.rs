//! Parts of sessions: a transaction from its BEGIN to its end, or a statement outside of one.
//!
//! A part is written as `[sequence, session, is_first, cut, began_us, ended_us, busy_us, [times],`
//! and the values of each statement after a tab. The lab reads only the numbers of most parts.
//! Where a transaction begins and ends is guessed by the first word. The lab looks at it again.

use std::collections::HashMap;

use crate::line::Line;

/// A part of more statements or bytes is written before its end.
const ITEMS_MAX: usize = 200;
const PART_BYTES_MAX: usize = 64 << 10;
const SEQUENCES_MAX: usize = 1 << 13;
const ITEMS_OF_SEQUENCES_MAX: usize = 1 << 18;
const SESSIONS_MAX: usize = 1 << 16;
/// What a session without a part may keep for the next one.
const SPARE_BYTES: usize = 512;

/// Where in a transaction a statement is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Begins,
    Ends,
    #[default]
    Within,
}

impl Place {
    /// Guess the place of a statement by its words.
    pub(crate) fn of(text: &[u8]) -> Place {
        let mut words = text.split(|byte| !byte.is_ascii_alphabetic()).filter(|w| !w.is_empty());
        let first = words.next().unwrap_or_default();
        let is = |word: &str| first.eq_ignore_ascii_case(word.as_bytes());
        if is("BEGIN") || is("START") {
            return Place::Begins;
        }
        let is_end = is("COMMIT") || is("END") || is("ROLLBACK") || is("ABORT");
        let is_other = words
            .any(|word| word.eq_ignore_ascii_case(b"TO") || word.eq_ignore_ascii_case(b"PREPARED"));
        if is_end && !is_other { Place::Ends } else { Place::Within }
    }
}

/// How a statement was sent, or that it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Simple,
    Extended,
    Prepared,
    Error,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Simple => "simple",
            Kind::Extended => "extended",
            Kind::Prepared => "prepared",
            Kind::Error => "error",
        }
    }
}

/// A statement of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) shape: u64,
    pub(crate) kind: Kind,
    pub(crate) parameters_count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Time {
    began_us: i64,
    took_us: Option<i64>,
}

/// What is known of a transaction, or of a statement outside of one.
#[derive(Debug, Default)]
pub(crate) struct Part {
    items: Vec<Item>,
    times: Vec<Time>,
    pub(crate) values: Vec<u8>,
    pub(crate) cut_count: u64,
    is_first: bool,
    is_block: bool,
    has_ended: bool,
}

impl Part {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.values.len() + self.items.len() * (size_of::<Item>() + size_of::<Time>())
    }

    /// Begin the next statement; its values and its end follow.
    pub(crate) fn begin(
        &mut self,
        time_ns: i64,
        duration_ns: Option<u64>,
        prepared_ns: u64,
        is_first: bool,
    ) {
        let took_us = (duration_ns.unwrap_or(0) / 1000 + prepared_ns / 1000).cast_signed();
        // Planning belongs to it: what is left is time of the client.
        let time =
            Time { began_us: time_ns / 1000 - took_us, took_us: duration_ns.map(|_| took_us) };
        self.is_first |= self.items.is_empty() && is_first;
        self.times.push(time);
        self.values.extend_from_slice(b",\t");
    }

    pub(crate) fn end(&mut self, item: Item, place: Place) {
        self.is_block |= self.items.is_empty() && place == Place::Begins;
        self.has_ended = !self.is_block || place == Place::Ends || item.kind == Kind::Error;
        self.items.push(item);
        if item.kind == Kind::Error {
            self.is_block = false;
        }
    }

    /// The last statement took this long. Returns false if there is none whose time is not known.
    pub(crate) fn took(&mut self, duration_ns: u64) -> bool {
        let last = self.times.last_mut().filter(|time| time.took_us.is_none());
        last.map(|time| time.took_us = Some((duration_ns / 1000).cast_signed())).is_some()
    }

    /// The last statement went on for this long: more of its rows were fetched.
    pub(crate) fn went_on(&mut self, duration_ns: u64) {
        if let Some(took_us) = self.times.last_mut().and_then(|time| time.took_us.as_mut()) {
            *took_us += (duration_ns / 1000).cast_signed();
        }
    }

    fn is_timed(&self) -> bool {
        let is_error = self.items.last().is_some_and(|item| item.kind == Kind::Error);
        is_error || self.times.last().is_some_and(|time| time.took_us.is_some())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.has_ended && self.is_timed()
    }

    /// Whether the part would have ended if its last duration were known.
    pub(crate) fn is_waiting_for_its_duration(&self) -> bool {
        self.has_ended && !self.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.values.len() > PART_BYTES_MAX
    }

    fn bytes_reserved(&self) -> usize {
        let item = size_of::<Item>() * self.items.capacity();
        item + size_of::<Time>() * self.times.capacity() + self.values.capacity()
    }

    fn clear(&mut self) {
        self.items.clear();
        self.times.clear();
        self.values.clear();
        if self.bytes_reserved() > SPARE_BYTES {
            self.items.shrink_to(8);
            self.times.shrink_to(8);
            self.values.shrink_to(SPARE_BYTES / 4);
        }
        self.cut_count = 0;
        (self.is_first, self.is_block, self.has_ended) = (false, false, false);
    }
}

/// Sequences of statements that were written; each has a number.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    numbers: HashMap<Vec<Item>, u64>,
    seen: u64,
    items_count: usize,
}

impl Sequences {
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.items_count = 0;
    }

    /// Write a part and empty it; introduce its sequence if it is new.
    pub(crate) fn write(&mut self, session: u64, part: &mut Part, out: &mut Vec<u8>) {
        let (Some(first), Some(last)) = (part.times.first(), part.times.last()) else { return };
        let (first_us, last_us) = (first.began_us, last.began_us + last.took_us.unwrap_or(0));
        let number = match self.numbers.get(&part.items) {
            Some(&number) => number,
            None => self.introduce(&part.items, out),
        };
        let busy_us: i64 = part.times.iter().filter_map(|time| time.took_us).sum();
        out.push(b'[');
        let mut line = Line { out };
        let numbers = [
            number.cast_signed(),
            session.cast_signed(),
            i64::from(part.is_first),
            part.cut_count.cast_signed(),
            first_us,
            last_us,
            busy_us,
        ];
        for number in numbers {
            line.signed(number);
            line.out.push(b',');
        }
        line.out.push(b'[');
        for (at, time) in part.times.iter().enumerate() {
            if at > 0 {
                line.out.push(b',');
            }
            line.signed(time.began_us - first_us);
            line.out.push(b',');
            line.signed(time.took_us.unwrap_or(-1));
        }
        line.out.push(b']');
        line.out.extend_from_slice(&part.values);
        line.out.extend_from_slice(b"]\n");
        part.clear();
    }

    fn introduce(&mut self, items: &[Item], out: &mut Vec<u8>) -> u64 {
        self.seen += 1;
        self.items_count += items.len();
        if self.numbers.len() >= SEQUENCES_MAX || self.items_count > ITEMS_OF_SEQUENCES_MAX {
            self.clear();
            self.items_count = items.len();
            out.extend_from_slice(b"{\"forget\":\"sequences\"}\n");
        }
        self.numbers.insert(items.to_vec(), self.seen);
        let mut line = Line { out };
        line.first_number("sequence", self.seen);
        line.key("items");
        for (at, item) in items.iter().enumerate() {
            line.out.push(if at > 0 { b',' } else { b'[' });
            line.out.push(b'[');
            line.digits(item.shape);
            line.out.push(b',');
            line.string(item.kind.word().as_bytes());
            line.out.push(b',');
            line.digits(u64::from(item.parameters_count));
            line.out.push(b']');
        }
        line.out.push(b']');
        line.end();
        self.seen
    }
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) number: u64,
    /// User, database and application, as last written.
    names: Vec<u8>,
    /// The time of parse and bind messages before the next execute.
    pub(crate) preparing_ns: u64,
    pub(crate) part: Part,
    /// When it was last used, in messages.
    used: u64,
}

/// The sessions that were used last.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    places: HashMap<Vec<u8>, usize>,
    known: Vec<Session>,
    free: Vec<usize>,
    seen: u64,
    messages: u64,
    names: Vec<u8>,
}

impl Sessions {
    /// Returns the place of a session that is known by these names.
    pub(crate) fn find(&mut self, id: &[u8], names: [&Vec<u8>; 3]) -> Option<usize> {
        self.messages += 1;
        self.names.clear();
        for name in names {
            self.names.extend_from_slice(name);
            self.names.push(0);
        }
        let at = *self.places.get(id)?;
        self.known[at].used = self.messages;
        (self.known[at].names == self.names).then_some(at)
    }

    /// Add the session that `find` has not found, or give it its other names. Returns its place.
    pub(crate) fn add(&mut self, id: &[u8]) -> usize {
        let at = match self.places.get(id) {
            Some(&at) => at,
            None => {
                self.seen += 1;
                let session =
                    Session { number: self.seen, used: self.messages, ..Session::default() };
                let at = self.free.pop().unwrap_or(self.known.len());
                if at == self.known.len() {
                    self.known.push(session);
                } else {
                    self.known[at] = session;
                }
                self.places.insert(id.to_vec(), at);
                at
            }
        };
        self.known[at].names.clone_from(&self.names);
        at
    }

    /// Returns the place of a session that may have other names now.
    pub(crate) fn place(&self, id: &[u8]) -> Option<usize> {
        self.places.get(id).copied()
    }

    pub(crate) fn are_full(&self) -> bool {
        self.places.len() >= SESSIONS_MAX
    }

    /// Forget the half that was not used for the longest time.
    pub(crate) fn release(&mut self, out: &mut Vec<u8>) {
        let mut used: Vec<u64> = self.places.values().map(|&at| self.known[at].used).collect();
        used.sort_unstable();
        let middle = used[used.len() / 2];
        let mut gone = Vec::new();
        let (known, free) = (&mut self.known, &mut self.free);
        self.places.retain(|_, &mut at| {
            if known[at].used >= middle {
                return true;
            }
            gone.push(known[at].number);
            known[at] = Session::default();
            free.push(at);
            false
        });
        gone.sort_unstable();
        let mut line = Line { out };
        line.out.extend_from_slice(b"{\"gone\":");
        for (at, number) in gone.iter().enumerate() {
            line.out.push(if at > 0 { b',' } else { b'[' });
            line.digits(*number);
        }
        line.out.push(b']');
        line.end();
    }

    pub(crate) fn get(&mut self, at: usize) -> &mut Session {
        &mut self.known[at]
    }

    pub(crate) fn take(&mut self, at: usize) -> Session {
        std::mem::take(&mut self.known[at])
    }

    pub(crate) fn put(&mut self, at: usize, session: Session) {
        self.known[at] = session;
    }

    pub(crate) fn each(&mut self, mut write: impl FnMut(u64, &mut Part)) {
        for session in &mut self.known {
            write(session.number, &mut session.part);
        }
    }
}
