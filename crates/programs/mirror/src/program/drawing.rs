//! The values of parameters, drawn when a step is added.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pgdyno_script::Prng;

use super::existing::Chosen;
use super::keys::Keys;
use super::number;
use super::slots::{Element, Slots, elements, sort, write_json, write_record};
use super::sources::KeysOfJob;
use super::step::{Access, Draw, Length, Seen, Step, Template};
use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::job::ClockPair;
use pgdyno_engine::program::Parameter;
use pgdyno_engine::program::Session;

/// Most values that wait for a transaction that takes them; later ones are not kept.
const TAKEN_MAX: usize = 100_000;
/// How often an element of a list is drawn until it is another one than those before.
const TRIES_MAX: usize = 20;
/// Most rows of a table that are known; later ones are not.
const SEEN_MAX: usize = 500_000;
/// Values of one memory.
const REMEMBERED_MAX: usize = 8;
/// Most rows whose values become an array.
pub(super) const LIST_MAX: u64 = 10_000;

/// The last values of a memory, the latest one first.
type Remembered = VecDeque<Box<[u8]>>;
/// The values by which a row is known.
type RowKey = Vec<Box<[u8]>>;

/// What the transactions of all clients take values from.
#[derive(Debug)]
pub(super) struct Stock {
    pub(super) keys: OnceLock<Keys>,
    /// Values that transactions have returned for others.
    queues: Vec<Mutex<VecDeque<Box<[u8]>>>>,
    /// Of each terminal: its memories.
    memories: Vec<Mutex<Vec<Remembered>>>,
    /// What the load sent and read of rows, by their keys.
    rows: Vec<Mutex<HashMap<RowKey, Box<[u8]>>>>,
    pub(super) terminals: u32,
    clock: ClockPair,
    data_age_us: i64,
}

impl Stock {
    pub(super) fn new(of: &KeysOfJob, terminals: u32, data_age_s: f64) -> Self {
        Self {
            keys: OnceLock::new(),
            queues: of.taken.iter().map(|_| Mutex::default()).collect(),
            rows: of.seen.iter().map(|_| Mutex::default()).collect(),
            memories: (0..terminals).map(|_| Mutex::default()).collect(),
            terminals,
            clock: ClockPair::now(),
            data_age_us: (data_age_s * 1e6) as i64,
        }
    }

    /// Keep a returned value for a transaction that takes it.
    pub(super) fn give(&self, queue: usize, value: Box<[u8]>) {
        let mut queue = locked(&self.queues[queue]);
        if queue.len() < TAKEN_MAX {
            queue.push_back(value);
        }
    }

    /// Take the value that was kept first; `None` if no value was kept.
    fn take(&self, queue: usize) -> Option<Box<[u8]>> {
        locked(&self.queues[queue]).pop_front()
    }

    /// Keep the last value that a transaction has for each memory of its terminal.
    pub(super) fn remember(&self, terminal: u32, template: &Template, slots: &mut Slots) {
        // The last turn of each step counts, and of several steps the last one.
        slots.turn = usize::MAX;
        let mut done = Vec::new();
        for (step, turns) in template.steps.iter().zip(&slots.turns).rev() {
            for &(memory, slot) in step.remembers.iter().filter(|_| *turns > 0) {
                let Some(value) = slots.get(slot).flatten() else { continue };
                if done.contains(&memory) {
                    continue;
                }
                done.push(memory);
                let mut known = locked(&self.memories[terminal as usize]);
                let count = known.len().max(memory + 1);
                known.resize_with(count, VecDeque::new);
                known[memory].push_front(Box::from(value));
                known[memory].truncate(REMEMBERED_MAX);
            }
        }
    }

    /// Keep what a transaction has sent for others, and what it has sent and read of rows.
    pub(super) fn see(&self, template: &Template, slots: &Slots) {
        for (number, (step, turns)) in template.steps.iter().zip(&slots.turns).enumerate() {
            for &(slot, queue) in step.sends.iter().filter(|_| *turns > 0) {
                for value in slots.all(Seen { slot, is_returned: false }) {
                    value.0.into_iter().for_each(|value| self.give(queue, value.into()));
                }
            }
            let is_there = *turns > 0 && !slots.missing.contains(&number);
            for sight in step.sights.iter().filter(|_| is_there) {
                let key: Vec<_> = sight.key.iter().map(|own| slots.all(*own)).collect();
                let values = sight.value.map(|own| slots.all(own));
                let lists = || key.iter().chain(&values);
                let count = lists().map(Vec::len).max().unwrap_or(0);
                // What is sent once belongs to all rows of the result.
                if lists().any(|list| list.len() != count && list.len() != 1) {
                    continue;
                }
                let of = |list: &Vec<Element>, at: usize| {
                    list[at.min(list.len() - 1)].0.clone().map(Vec::into_boxed_slice)
                };
                let mut known = locked(&self.rows[sight.rows]);
                for at in 0..count {
                    let Some(own) = key.iter().map(|list| of(list, at)).collect::<Option<_>>()
                    else {
                        continue;
                    };
                    let own: RowKey = own;
                    let value = match &values {
                        Some(list) => of(list, at),
                        None => known.get(&own).cloned(),
                    };
                    let value = value.and_then(|value| added(value, sight.plus));
                    match value {
                        Some(value) if known.len() < SEEN_MAX || known.contains_key(&own) => {
                            known.insert(own, value);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Return the value that a terminal remembers; `None` if the random number is for another one.
    fn recalled(
        &self,
        terminal: u32,
        memory: usize,
        shares: &[f64],
        mut luck: f64,
    ) -> Option<Box<[u8]>> {
        let back = shares.iter().position(|share| {
            luck -= share;
            luck < 0.0
        })?;
        locked(&self.memories[terminal as usize]).get(memory)?.get(back).cloned()
    }

    /// Draw with the random numbers of a session's terminal.
    pub(super) fn draw<T>(
        &self,
        session: Session<'_>,
        draw: impl FnOnce(&mut Drawing<'_>) -> T,
    ) -> T {
        let keys = self.keys.get().expect("the keys are read before the load");
        let terminal = session.terminal();
        session
            .random(|random| draw(&mut Drawing { stock: self, keys, terminal, random, luck: 0.0 }))
    }
}

/// Add a number to the text of a whole number.
fn added(value: Box<[u8]>, plus: i64) -> Option<Box<[u8]>> {
    if plus == 0 {
        return Some(value);
    }
    let number: i64 = std::str::from_utf8(&value).ok()?.parse().ok()?;
    Some(number.wrapping_add(plus).to_string().into_bytes().into_boxed_slice())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws values for one terminal.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    stock: &'a Stock,
    keys: &'a Keys,
    terminal: u32,
    random: &'a mut Prng,
    /// The random number of the step that decides which transaction is recalled.
    luck: f64,
}

impl<'a> Drawing<'a> {
    /// Draw the parameters of a step.
    ///
    /// Returns: false if a parameter needs a value that does not exist.
    pub(super) fn step(&mut self, step: &Step, slots: &mut Slots) -> bool {
        for row in &step.rows {
            let chosen = self.choose(row.keys, &row.access);
            for &(column, slot) in &row.columns {
                match chosen {
                    Chosen::Number(number) => slots.write(slot, |out| number.write(out)),
                    Chosen::Row(at) => slots.set(slot, self.column(row.keys, at, column)),
                    Chosen::Nothing => slots.set(slot, None),
                }
            }
        }
        if let Some((_, Draw::Recalled { .. })) = step.draws.first() {
            self.luck = self.random.unit();
        }
        let mut is_whole = step.draws.iter().all(|(slot, draw)| {
            let is_there = self.parameter(draw, *slot, slots);
            if !is_there {
                // A later step that has this value does not have it, either.
                slots.clear(*slot);
            }
            is_there || step.optional.contains(slot)
        });
        for lists in &step.equal_lists {
            slots.cut_to_shortest(lists);
        }
        for row in &step.given_rows {
            let values: Vec<_> = row.given.iter().map(|&slot| slots.get(slot).flatten()).collect();
            let keys = &self.keys.existing[row.keys];
            match keys.choose_given(&values, self.random) {
                Some(at) => slots.set(row.slot, keys.column(at, 0)),
                None => {
                    slots.clear(row.slot);
                    is_whole &= step.optional.contains(&row.slot);
                }
            }
        }
        is_whole
            && step.not_null.iter().all(|&(slot, is_list)| {
                slots.get(slot).flatten().is_some_and(|value| {
                    !is_list || elements(value).iter().all(|element| element.0.is_some())
                })
            })
    }

    /// Choose an existing row, or the one that the client keeps.
    pub(super) fn choose(&mut self, keys: usize, access: &Access) -> Chosen {
        let takes_own = access.kept > 0.0 && self.random.unit() < access.kept;
        // The place of the client among all.
        let own =
            takes_own.then(|| (f64::from(self.terminal) + 0.5) / f64::from(self.stock.terminals));
        self.keys.existing[keys].choose(access, own, self.random)
    }

    /// Return a column of a row that was chosen; `None` for null.
    pub(super) fn column(&self, keys: usize, row: usize, column: usize) -> Option<&'a [u8]> {
        self.keys.existing[keys].column(row, column)
    }

    /// Draw one parameter into its slot.
    ///
    /// Returns: false if it needs a value that does not exist.
    fn parameter(&mut self, draw: &Draw, slot: usize, slots: &mut Slots) -> bool {
        match draw {
            &Draw::Copy { slot: from, take } => return slots.copy(from, slot, take),
            &Draw::Count(number) => {
                let count = slots.number(number);
                slots.write(slot, |out| count.write(out));
            }
            &Draw::Turn { offset } => {
                let number = slots.turn as i64 + offset;
                slots.write(slot, |out| number.write(out));
            }
            Draw::Linear { .. } | Draw::Between { .. } => return self.derive(draw, slot, slots),
            &Draw::Taken { queue } => {
                let taken = self.stock.take(queue);
                slots.set(slot, taken.as_deref());
                return taken.is_some();
            }
            Draw::Recalled { memory, shares, otherwise } => {
                match self.stock.recalled(self.terminal, *memory, shares, self.luck) {
                    Some(value) => slots.set(slot, Some(&value)),
                    None => return self.parameter(otherwise, slot, slots),
                }
            }
            Draw::Known { rows, keys, given, otherwise } => {
                let values: Vec<_> = given.iter().map(|&own| slots.get(own).flatten()).collect();
                let key: Option<RowKey> = values.iter().map(|own| own.map(Box::from)).collect();
                let seen = key.and_then(|key| locked(&self.stock.rows[*rows]).get(&key).cloned());
                let existing = &self.keys.existing[*keys];
                match seen {
                    Some(value) => slots.set(slot, Some(&value)),
                    None => match existing.choose_given(&values, self.random) {
                        Some(at) => slots.set(slot, existing.column(at, 0)),
                        None => return self.parameter(otherwise, slot, slots),
                    },
                }
            }
            Draw::Cases { slot: from, cases, otherwise } => {
                let Some(value) = slots.get(*from) else { return false };
                let chosen = case_of(value, cases, otherwise);
                return self.parameter(chosen, slot, slots);
            }
            Draw::Record { .. } => match self.element(draw, slots.turn as u64, slots, &[]) {
                Some(record) => slots.set(slot, record.0.as_deref()),
                None => return false,
            },
            Draw::List { .. } => match self.list(draw, slots) {
                Some(array) => slots.set(slot, Some(&array)),
                None => return false,
            },
            _ => slots.write(slot, |out| self.value(draw, out)),
        }
        true
    }

    /// Append a value that depends on no other one.
    ///
    /// Returns: false for null.
    pub(super) fn value(&mut self, draw: &Draw, out: &mut Vec<u8>) -> bool {
        match draw {
            Draw::Constant(value) => value.as_ref().is_some_and(|value| value.write(out)),
            Draw::Drawn(distribution) => distribution.draw(self.random, out),
            Draw::Fresh { keys } => {
                self.keys.fresh[*keys].write(self.terminal, out);
                true
            }
            Draw::Now { minus_s } => {
                let now_us = (self.stock.clock.unix_ns(now_ns()) / 1000) as i64;
                let age_us = self.stock.data_age_us + (minus_s * 1e6) as i64;
                number::write_instant(now_us - age_us, out);
                true
            }
            Draw::Existing { keys, access } => match self.choose(*keys, access) {
                Chosen::Number(number) => number.write(out),
                Chosen::Row(row) => self.column(*keys, row, 0).is_some_and(|value| {
                    out.extend_from_slice(value);
                    true
                }),
                Chosen::Nothing => false,
            },
            Draw::Record { fields, .. } => {
                write_record(out, fields, |field, value| self.value(field, value));
                true
            }
            Draw::Cases { .. }
            | Draw::Copy { .. }
            | Draw::Linear { .. }
            | Draw::Between { .. }
            | Draw::Taken { .. }
            | Draw::Recalled { .. }
            | Draw::Known { .. }
            | Draw::Count { .. }
            | Draw::Turn { .. }
            | Draw::List { .. } => false,
        }
    }

    /// Return the text of an array; `None` if it needs a value that does not exist.
    fn list(&mut self, draw: &Draw, slots: &Slots) -> Option<Vec<u8>> {
        let Draw::List { of, length, is_one_value, is_distinct, is_sorted, is_json } = draw else {
            return None;
        };
        let count = match *length {
            Length::Known(number) => slots.number(number),
            Length::Drawn(counts) => counts.draw(self.random),
        };
        let others = match **of {
            Draw::Cases { slot, .. } => slots.get(slot).flatten().map(elements).unwrap_or_default(),
            _ => Vec::new(),
        };
        let only = if *is_one_value { Some(self.element(of, 0, slots, &others)?) } else { None };
        let mut elements = Vec::new();
        let mut seen = HashSet::new();
        let is_taken = takes(of);
        'places: for place in 0..count.min(LIST_MAX) {
            for _ in 0..if *is_distinct { TRIES_MAX } else { 1 } {
                let element = match &only {
                    Some(element) => element.clone(),
                    None => match self.element(of, place, slots, &others) {
                        Some(element) => element,
                        // Other transactions have left no more values.
                        None if is_taken && !elements.is_empty() => break 'places,
                        // The table is empty: an element that is NULL would be another value.
                        None if matches!(**of, Draw::Existing { .. }) => break 'places,
                        None => return None,
                    },
                };
                if !*is_distinct || element.0.is_none() || seen.insert(element.clone()) {
                    elements.push(element);
                    break;
                }
            }
        }
        if *is_sorted {
            sort(&mut elements);
        }
        let mut array = Vec::new();
        if *is_json {
            let known = elements.iter().map(|element| element.0.as_deref().unwrap_or(b"null"));
            array = [b"[", known.collect::<Vec<_>>().join(&b","[..]).as_slice(), b"]"].concat();
            return Some(array);
        }
        elements.as_slice().write(&mut array).then_some(array)
    }

    /// Draw one element of a list; `None` if it needs a value that does not exist.
    ///
    /// Args: others, the elements of the list that decides between cases.
    fn element(
        &mut self,
        draw: &Draw,
        place: u64,
        slots: &Slots,
        others: &[Element],
    ) -> Option<Element> {
        let mut text = Vec::new();
        let is_there = match *draw {
            Draw::Cases { ref cases, ref otherwise, .. } => {
                let value = others.get(place as usize).and_then(|element| element.0.as_deref());
                let chosen = case_of(value, cases, otherwise);
                return self.element(chosen, place, slots, others);
            }
            Draw::Record { ref fields, ref names, ref bare } => {
                let own = fields.iter().map(|field| self.element(field, place, slots, others));
                let own: Vec<_> = own.collect::<Option<_>>()?;
                match names.is_empty() {
                    true => write_record(&mut text, &own, |field, out| field.write(out)),
                    false => write_json(&mut text, names, &own, bare),
                }
                true
            }
            Draw::Copy { slot, .. } => return Some(Element(slots.get(slot)?.map(Vec::from))),
            Draw::Turn { offset } => (place as i64 + offset).write(&mut text),
            Draw::Taken { queue } => {
                return Some(Element(Some(self.stock.take(queue)?.into_vec())));
            }
            Draw::Existing { keys, ref access } => match self.choose(keys, access) {
                Chosen::Number(number) => number.write(&mut text),
                Chosen::Row(row) => return Some(Element(self.column(keys, row, 0).map(Vec::from))),
                Chosen::Nothing if access.by_frequency => false,
                Chosen::Nothing => return None,
            },
            ref draw => self.value(draw, &mut text),
        };
        Some(Element(is_there.then_some(text)))
    }

    /// Give a slot a value that follows from another one.
    fn derive(&mut self, draw: &Draw, slot: usize, slots: &mut Slots) -> bool {
        let (from, slope, offset) = match *draw {
            Draw::Linear { slot, slope, offset, plus } => {
                let more = plus.map(|(other, factor)| {
                    let text = std::str::from_utf8(slots.get(other)??).ok()?;
                    text.parse::<f64>().ok().map(|value| factor * value)
                });
                match more {
                    Some(None) => return false,
                    more => (slot, slope, offset + more.flatten().unwrap_or(0.0)),
                }
            }
            Draw::Between { slot, least, most } => {
                let is_whole = least.fract() == 0.0 && most.fract() == 0.0;
                let offset = match is_whole {
                    true => self.random.uniform(least as i64, most.max(least) as i64) as f64,
                    false => least + self.random.unit() * (most - least),
                };
                (slot, 1.0, offset)
            }
            _ => return false,
        };
        slots.derive(from, slot, |text, out| number::write_linear(text, slope, offset, out))
    }
}

/// Choose the case of a value.
fn case_of<'a>(
    value: Option<&[u8]>,
    cases: &'a [(Option<String>, Draw)],
    otherwise: &'a Draw,
) -> &'a Draw {
    let case = cases.iter().find(|(own, _)| own.as_deref().map(str::as_bytes) == value);
    case.map_or(otherwise, |(_, draw)| draw)
}

/// Whether a value needs one that another transaction returned.
fn takes(draw: &Draw) -> bool {
    match draw {
        Draw::Taken { .. } => true,
        Draw::Record { fields, .. } => fields.iter().any(takes),
        _ => false,
    }
}
