//! The mirror: the transaction templates of a capture, with values that fit the database.
//!
//! The job has the templates. Before the load `keys` reads which keys exist. Then a transaction is
//! the walk through the steps of its template.

mod copied;
mod counts;
mod existing;
mod keys;
mod needs;
mod number;
mod slots;
mod sources;
mod template;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pgdyno_script::Prng;

use self::existing::{Access, Chosen};
use self::keys::Keys;
use self::slots::{Element, Slots, elements, sort, write_record};
use self::sources::{Draw, Length};
use self::template::{KeysOfJob, Step, Template};
use super::rows::Parameter;
use super::{
    Asked, Done, Mix, Native, Pauses, Planned, Rows, Session, Task, Transactions, Unready,
};
use crate::clock::now_ns;
use crate::contract::job::{ClockPair, Pick};
use crate::outcome::Stopped;

/// Most values that wait for a transaction that takes them; later ones are not kept.
const TAKEN_MAX: usize = 100_000;
/// Most rows whose values become an array.
const ROWS_MAX: u64 = 10_000;

/// The program as `-b` knows it.
pub(super) struct Mirror;

impl Native for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn description(&self) -> &'static str {
        "mirror: the load of a capture, given as -b FILE"
    }

    fn dataset(&self) -> &'static str {
        "capture"
    }

    fn takes_templates(&self) -> bool {
        true
    }

    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String> {
        let load = asked.mirror.expect("a job without templates was refused");
        if load.templates.is_empty() {
            return Err("needs at least one template".to_owned());
        }
        let mut wanted = KeysOfJob::of_queues(&load.templates);
        let (mut templates, mut types) = (Vec::new(), Vec::new());
        for given in &load.templates {
            let (template, kind) = template::plan(given, load, &mut wanted)?;
            templates.push(template);
            types.push(kind);
        }
        let run = Run {
            templates,
            queues: wanted.taken.iter().map(|_| Mutex::default()).collect(),
            wanted,
            tables: load.tables.clone(),
            terminals: asked.terminal_count,
            clock: ClockPair::now(),
            data_age_us: (load.data_age_s * 1e6) as i64,
            keys: OnceLock::new(),
            missing_roles: OnceLock::new(),
        };
        let settings = load.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
        let settings = settings.collect();
        Ok(Planned { types, mix: Mix::Even, transactions: Arc::new(run), settings })
    }
}

/// A run: its templates, and the keys of the database.
#[derive(Debug)]
struct Run {
    templates: Vec<Template>,
    wanted: KeysOfJob,
    /// Values that transactions have returned for others.
    queues: Vec<Mutex<VecDeque<Box<[u8]>>>>,
    tables: Vec<String>,
    terminals: u32,
    clock: ClockPair,
    data_age_us: i64,
    keys: OnceLock<Keys>,
    /// Roles of the load that the database lacks, or that this user may not take.
    missing_roles: OnceLock<Vec<String>>,
}

impl Transactions for Run {
    fn prepare<'s>(&'s self, session: Session<'s>) -> Task<'s, Result<(), Unready>> {
        Box::pin(async move {
            if self.keys.get().is_none() {
                self.look_at_tables(session).await?;
                self.look_at_roles(session).await?;
                let KeysOfJob { existing, fresh, .. } = &self.wanted;
                let keys = Keys::read(session, existing, fresh, self.terminals).await?;
                // Another thread may have read the same, because no transaction has begun.
                self.keys.get_or_init(|| keys);
            }
            Ok(())
        })
    }

    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Task<'s, Result<Done, Stopped>> {
        Box::pin(self.transaction(&self.templates[number], session))
    }
}

thread_local! {
    /// The memory of transactions that have ended.
    static SPARE: RefCell<Vec<Walk>> = const { RefCell::new(Vec::new()) };
}

/// The state of one transaction.
#[derive(Debug, Default)]
struct Walk {
    slots: Slots,
    trip: Trip,
}

/// Steps that were added and not answered.
#[derive(Debug, Default)]
struct Trip {
    /// Each with its turn.
    steps: Vec<(usize, usize)>,
    is_read: bool,
}

impl Run {
    async fn transaction(
        &self,
        template: &Template,
        session: Session<'_>,
    ) -> Result<Done, Stopped> {
        let mut walk = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        walk.slots.begin(template.slot_count, template.steps.len());
        let done = self.walk(template, &mut walk, session).await?;
        if done == Done::Committed {
            for (queue, value) in walk.slots.given.drain(..) {
                let mut queue = self.queues[queue].lock().unwrap_or_else(PoisonError::into_inner);
                if queue.len() < TAKEN_MAX {
                    queue.push_back(value);
                }
            }
        }
        SPARE.with_borrow_mut(|spare| spare.push(walk));
        Ok(done)
    }

    async fn walk(
        &self,
        template: &Template,
        Walk { slots, trip }: &mut Walk,
        session: Session<'_>,
    ) -> Result<Done, Stopped> {
        let mut done = Done::Committed;
        let mut at = 0;
        while at < template.steps.len() {
            let first = &template.steps[at];
            slots.turn = 0;
            let turns = session.random(|random| turns(first, slots, random));
            for turn in 0..turns {
                slots.turn = turn as usize;
                for number in at..first.loop_end {
                    let step = &template.steps[number];
                    let is_left_out = number > at && session.random(|r| turns_once(step, r)) == 0;
                    if !is_left_out && self.add(template, number, slots, trip, session).await? {
                        done = if step.rolls_back { Done::RolledBack } else { Done::Committed };
                    }
                }
            }
            at = first.loop_end;
        }
        flush(template, trip, slots, session).await?;
        Ok(done)
    }

    /// Add a step to the trip, after it has sent the steps on which this one waits.
    ///
    /// Returns: false if the step is not executed, because a value is missing.
    async fn add(
        &self,
        template: &Template,
        number: usize,
        slots: &mut Slots,
        trip: &mut Trip,
        session: Session<'_>,
    ) -> Result<bool, Stopped> {
        let step = &template.steps[number];
        if self.lacks_role(step) {
            return Ok(false);
        }
        let is_alone = !step.same_trip || step.pause_ns_mean > 0;
        if is_alone
            || step.awaits.iter().any(|before| trip.steps.iter().any(|(step, _)| step == before))
        {
            flush(template, trip, slots, session).await?;
        }
        if step.pause_ns_mean > 0 {
            let pauses = Pauses { keying_ns: 0, think_ns_mean: step.pause_ns_mean };
            let pause_ns = session.random(|random| pauses.think_ns(random));
            session.sleep(pause_ns).await?;
        }
        if let Some(copied) = &step.copied {
            flush(template, trip, slots, session).await?;
            let is_done = self.copy(step, copied, slots, session).await?;
            slots.turns[number] += u64::from(is_done);
            return Ok(is_done);
        }
        let terminal = session.terminal();
        if !session.random(|random| self.draw(step, slots, random, terminal)) {
            return Ok(false);
        }
        session.pipeline().add_written(step.statement, &|place, out| {
            let value = slots.get(step.first_slot + place).flatten();
            out.extend_from_slice(value.unwrap_or_default());
            value.is_some()
        });
        slots.turns[number] += 1;
        trip.steps.push((number, slots.turn));
        trip.is_read |= !step.returns.is_empty() || !step.gives.is_empty();
        Ok(true)
    }

    /// Draw the parameters of a step.
    ///
    /// Returns: false if a parameter needs a value that does not exist.
    fn draw(&self, step: &Step, slots: &mut Slots, random: &mut Prng, terminal: u32) -> bool {
        let keys = self.keys.get().expect("the keys are read before the load");
        for row in &step.rows {
            let existing = &keys.existing[row.keys];
            let own = self.own(&row.access, terminal, random);
            let chosen = existing.choose(&row.access, own, random);
            for &(column, slot) in &row.columns {
                match chosen {
                    Chosen::Number(number) => slots.write(slot, |out| number.write(out)),
                    Chosen::Row(row) => slots.set(slot, existing.column(row, column)),
                    Chosen::Nothing => slots.set(slot, None),
                }
            }
        }
        let is_whole = step.draws.iter().all(|(slot, draw)| {
            let is_there = self.draw_one(draw, *slot, slots, keys, (terminal, random));
            if !is_there {
                // A later step that has this value does not have it, either.
                slots.clear(*slot);
            }
            is_there || step.optional.contains(slot)
        });
        is_whole
            && step.not_null.iter().all(|&(slot, is_list)| {
                slots.get(slot).flatten().is_some_and(|value| {
                    !is_list || elements(value).iter().all(|element| element.0.is_some())
                })
            })
    }

    /// Draw one parameter into its slot.
    ///
    /// Returns: false if it needs a value that does not exist.
    fn draw_one(
        &self,
        draw: &Draw,
        slot: usize,
        slots: &mut Slots,
        keys: &Keys,
        (terminal, random): (u32, &mut Prng),
    ) -> bool {
        match draw {
            &Draw::Copy { slot: from, take } => return slots.copy(from, slot, take),
            Draw::Either(both) => {
                let (first, other) = &**both;
                return self.draw_one(first, slot, slots, keys, (terminal, random))
                    || self.draw_one(other, slot, slots, keys, (terminal, random));
            }
            &Draw::Count(number) => {
                let count = slots.number(number);
                slots.write(slot, |out| count.write(out));
            }
            &Draw::Turn { offset } => {
                let number = slots.turn as i64 + offset;
                slots.write(slot, |out| number.write(out));
            }
            Draw::Linear { .. } | Draw::Between { .. } => return derive(draw, slot, slots, random),
            Draw::Taken { queue } => {
                let mut queue = self.queues[*queue].lock().unwrap_or_else(PoisonError::into_inner);
                let taken = queue.pop_front();
                slots.set(slot, taken.as_deref());
                return taken.is_some();
            }
            Draw::List { .. } => match self.list(draw, slots, keys, terminal, random) {
                Some(array) => slots.set(slot, Some(&array)),
                None => return false,
            },
            _ => slots.write(slot, |out| self.write(draw, keys, terminal, random, out)),
        }
        true
    }

    /// Return the place of a client among all if it takes the value that it keeps.
    fn own(&self, access: &Access, terminal: u32, random: &mut Prng) -> Option<f64> {
        let takes_own = access.kept > 0.0 && random.unit() < access.kept;
        takes_own.then(|| (f64::from(terminal) + 0.5) / f64::from(self.terminals))
    }

    /// Append a value that depends on no other one.
    ///
    /// Returns: false for null.
    fn write(
        &self,
        draw: &Draw,
        keys: &Keys,
        terminal: u32,
        random: &mut Prng,
        out: &mut Vec<u8>,
    ) -> bool {
        match draw {
            Draw::Constant(value) => value.as_ref().is_some_and(|value| value.write(out)),
            Draw::Drawn(distribution) => distribution.draw(random, out),
            Draw::Fresh { keys: place } => {
                keys.fresh[*place].write(terminal, out);
                true
            }
            Draw::Now { minus_s } => {
                let now_us = (self.clock.unix_ns(now_ns()) / 1000) as i64 - self.data_age_us;
                number::write_instant(now_us - (minus_s * 1e6) as i64, out);
                true
            }
            Draw::Existing { keys: place, access } => {
                let existing = &keys.existing[*place];
                match existing.choose(access, self.own(access, terminal, random), random) {
                    Chosen::Number(number) => number.write(out),
                    Chosen::Row(row) => Element(existing.column(row, 0).map(Vec::from)).write(out),
                    Chosen::Nothing => false,
                }
            }
            Draw::Record(fields) => {
                write_record(out, fields, |field, value| {
                    self.write(field, keys, terminal, random, value)
                });
                true
            }
            Draw::Copy { .. }
            | Draw::Either(_)
            | Draw::Linear { .. }
            | Draw::Between { .. }
            | Draw::Taken { .. }
            | Draw::Count { .. }
            | Draw::Turn { .. }
            | Draw::List { .. } => false,
        }
    }

    /// Return the text of an array; `None` if it needs a value that does not exist.
    fn list(
        &self,
        draw: &Draw,
        slots: &Slots,
        keys: &Keys,
        terminal: u32,
        random: &mut Prng,
    ) -> Option<Vec<u8>> {
        let Draw::List { of, length, is_one_value, is_sorted } = draw else { return None };
        let count = match *length {
            Length::Known(number) => slots.number(number),
            Length::Drawn(counts) => counts.draw(random),
        };
        let element = |place: u64, random: &mut Prng| {
            let mut element = Vec::new();
            let is_there = match **of {
                Draw::Copy { slot, .. } => return Some(slots.get(slot)?.map(Vec::from)),
                Draw::Turn { offset } => (place as i64 + offset).write(&mut element),
                ref of => self.write(of, keys, terminal, random, &mut element),
            };
            Some(is_there.then_some(element))
        };
        let mut elements = Vec::new();
        let only = if *is_one_value { Some(element(0, random)?) } else { None };
        for place in 0..count.min(ROWS_MAX) {
            elements.push(Element(match &only {
                Some(value) => value.clone(),
                None => element(place, random)?,
            }));
        }
        if *is_sorted {
            sort(&mut elements);
        }
        let mut array = Vec::new();
        elements.as_slice().write(&mut array).then_some(array)
    }
}

/// Give a slot a value that follows from another one.
fn derive(draw: &Draw, slot: usize, slots: &mut Slots, random: &mut Prng) -> bool {
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
                true => random.uniform(least as i64, most.max(least) as i64) as f64,
                false => least + random.unit() * (most - least),
            };
            (slot, 1.0, offset)
        }
        _ => return false,
    };
    slots.derive(from, slot, |text, out| number::write_linear(text, slope, offset, out))
}

/// Draw how often a step is executed; of a loop, how many turns it has.
fn turns(step: &Step, slots: &Slots, random: &mut Prng) -> u64 {
    match (turns_once(step, random), step.turns) {
        (0, _) => 0,
        (_, Some(number)) => slots.number(number).min(ROWS_MAX),
        _ => step.repeat.draw(random),
    }
}

/// Draw whether a step is executed.
fn turns_once(step: &Step, random: &mut Prng) -> u64 {
    u64::from(step.probability >= 1.0 || random.unit() < step.probability)
}

/// Send the steps of a trip, and keep the returned columns that later steps use.
async fn flush(
    template: &Template,
    trip: &mut Trip,
    slots: &mut Slots,
    session: Session<'_>,
) -> Result<(), Stopped> {
    if trip.steps.is_empty() {
        return Ok(());
    }
    let now = slots.turn;
    let read = |rows: &mut Rows| {
        let steps = if trip.is_read { trip.steps.as_slice() } else { &[] };
        steps.iter().try_for_each(|&(number, turn)| {
            slots.turn = turn;
            keep(&template.steps[number], rows, slots, session)
        })
    };
    session.pipeline().send(read).await?;
    slots.turn = now;
    trip.steps.clear();
    trip.is_read = false;
    Ok(())
}

/// Read the rows of one step. Of an array there are at most `ROWS_MAX` elements.
fn keep(
    step: &Step,
    rows: &mut Rows,
    slots: &mut Slots,
    session: Session<'_>,
) -> Result<(), Stopped> {
    for returned in step.returns.iter().filter(|returned| !returned.is_whole) {
        slots.clear(returned.slot);
    }
    let mut count = 0;
    let whole = |pick| pick == Pick::All;
    // One for each returned column, if there are arrays among them.
    let has_arrays = step.returns.iter().any(|returned| whole(returned.pick));
    let array_count = if has_arrays { step.returns.len() } else { 0 };
    let mut arrays: Vec<Vec<Element>> = vec![Vec::new(); array_count];
    loop {
        // The n-th row takes the place of the row before it in one of n cases.
        let is_any = count == 0 || session.random(|random| random.offset(count) == 0);
        let is_row = rows.next_columns(|column, value| {
            for &(_, queue) in step.gives.iter().filter(|(given, _)| *given == column) {
                slots.given.extend(value.map(|value| (queue, Box::from(value))));
            }
            for (place, returned) in step.returns.iter().enumerate() {
                if returned.column != column {
                } else if whole(returned.pick) {
                    if let Some(value) = value.filter(|_| count < ROWS_MAX) {
                        arrays[place].push(Element(Some(value.to_vec())));
                    }
                } else if count == 0 || is_any && returned.pick == Pick::Any {
                    slots.set(returned.slot, value);
                }
            }
        })?;
        if !is_row {
            for (returned, array) in step.returns.iter().zip(arrays) {
                if returned.is_whole {
                    slots.extend(returned.slot, array);
                } else if !array.is_empty() {
                    slots.write(returned.slot, |out| array.as_slice().write(out));
                }
            }
            return Ok(());
        }
        count += 1;
    }
}
