//! One transaction of a captured load: the walk through the steps of its template.
//!
//! A step is a statement. Steps from a `first` one to its `loop_end` are a loop: they are walked
//! together, once for each *turn*. Values are kept in slots (`Slots`), where later steps find them.

use std::cell::RefCell;
use std::sync::OnceLock;

use pgdyno_script::Prng;

use super::drawing::{LIST_MAX, Stock};
use super::keys::Keys;
use super::needs::{missing_roles, refuse_missing_tables};
use super::slots::{Element, Slots};
use super::sources::KeysOfJob;
use super::step::{Step, Template};
use crate::load::Pick;
use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::Parameter;
use pgdyno_engine::program::{
    BoxFuture, Done, Pauses, Rows, Running, Session, Transactions, Unready,
};

thread_local! {
    /// The memory of transactions that have ended.
    static SPARE: RefCell<Vec<Slots>> = const { RefCell::new(Vec::new()) };
}

/// A run: its templates, and what their values are taken from.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) templates: Vec<Template>,
    /// The columns whose keys are read before the load.
    pub(super) wanted: KeysOfJob,
    pub(super) stock: Stock,
    pub(super) tables: Vec<String>,
    /// Each transaction is rolled back.
    pub(super) is_probe: bool,
    /// Roles of the load that the database lacks, or that this user may not take.
    pub(super) missing_roles: OnceLock<Vec<String>>,
}

impl Transactions for Run {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(async move {
            if self.stock.keys.get().is_none() {
                refuse_missing_tables(&self.tables, session).await?;
                let missing = missing_roles(&self.templates, session).await?;
                self.missing_roles.get_or_init(|| missing);
                let KeysOfJob { existing, fresh, .. } = &self.wanted;
                let keys = Keys::read(session, existing, fresh, self.stock.terminals).await?;
                // Another thread may have read the same, because no transaction has begun.
                self.stock.keys.get_or_init(|| keys);
            }
            Ok(())
        })
    }

    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Running<'s> {
        Box::pin(self.transaction(&self.templates[number], session))
    }
}

impl Run {
    /// Return whether a step takes a role that is missing.
    fn lacks_role(&self, step: &Step) -> bool {
        let Some(role) = &step.role else { return false };
        self.missing_roles.get().is_some_and(|missing| missing.iter().any(|name| **name == **role))
    }

    /// Carry out one transaction. What it returns for others is theirs only after a commit.
    async fn transaction(
        &self,
        template: &Template,
        session: Session<'_>,
    ) -> Result<Done, Stopped> {
        let mut slots = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        slots.begin(template.slot_count, template.steps.len());
        if self.is_probe {
            session.ask("BEGIN", |_| Ok(())).await?;
        }
        let mut done = self.walk(template, &mut slots, session).await?;
        if self.is_probe {
            session.ask("ROLLBACK", |_| Ok(())).await?;
            done = Done::RolledBack;
        }
        if done == Done::Committed {
            for (queue, value) in slots.given.drain(..) {
                self.stock.give(queue, value);
            }
            self.stock.see(template, &slots);
            self.stock.remember(session.terminal(), template, &mut slots);
        }
        SPARE.with_borrow_mut(|spare| spare.push(slots));
        Ok(done)
    }

    /// Walk through all steps, loops included.
    async fn walk(
        &self,
        template: &Template,
        slots: &mut Slots,
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
                    if !is_left_out && self.carry_out(step, number, slots, session).await? {
                        done = if step.rolls_back { Done::RolledBack } else { Done::Committed };
                    }
                }
            }
            at = first.loop_end;
        }
        Ok(done)
    }

    /// Carry out one step.
    ///
    /// Returns: false if the step is not executed, because a value is missing.
    async fn carry_out(
        &self,
        step: &Step,
        number: usize,
        slots: &mut Slots,
        session: Session<'_>,
    ) -> Result<bool, Stopped> {
        if self.lacks_role(step) {
            return Ok(false);
        }
        if step.pause_ns_mean > 0 {
            let pauses = Pauses { keying_ns: 0, think_ns_mean: step.pause_ns_mean };
            let pause_ns = session.random(|random| pauses.think_ns(random));
            session.sleep(pause_ns).await?;
        }
        if let Some(copied) = step.copied.as_ref().filter(|_| !step.left_out) {
            let is_done = copied.send(&self.stock, step.statement, slots, session).await?;
            slots.turns[number] += u64::from(is_done);
            return Ok(is_done);
        }
        let is_drawn =
            step.copied.is_none() && self.stock.draw(session, |drawing| drawing.step(step, slots));
        slots.turns[number] += u64::from(is_drawn);
        if !is_drawn || step.left_out {
            return Ok(is_drawn);
        }
        session.pipeline().add_written(step.statement, &|place, out| {
            let value = slots.get(step.first_slot + place).flatten();
            out.extend_from_slice(value.unwrap_or_default());
            value.is_some()
        });
        let is_read = !step.returns.is_empty() || !step.gives.is_empty();
        let read = |rows: &mut Rows| match is_read {
            true => keep(step, rows, slots),
            // A change that finds no row says nothing of the row.
            false if !step.sights.is_empty() => {
                let is_there = rows.count()? > 0;
                slots.missing.extend((!is_there).then_some(number));
                Ok(())
            }
            false => Ok(()),
        };
        session.pipeline().send(read).await?;
        Ok(true)
    }
}

/// Draw how often a step is executed; of a loop, how many turns it has.
fn turns(step: &Step, slots: &Slots, random: &mut Prng) -> u64 {
    match (turns_once(step, random), step.turns) {
        (0, _) => 0,
        (_, Some(number)) => slots.number(number).min(LIST_MAX),
        _ => step.repeat.draw(random),
    }
}

/// Draw whether a step is executed: 1, or 0.
fn turns_once(step: &Step, random: &mut Prng) -> u64 {
    u64::from(step.probability >= 1.0 || random.unit() < step.probability)
}

/// Read the rows of one step. Of an array there are at most `LIST_MAX` elements.
fn keep(step: &Step, rows: &mut Rows, slots: &mut Slots) -> Result<(), Stopped> {
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
        let is_row = rows.next_columns(|column, value| {
            for &(_, queue) in step.gives.iter().filter(|(given, _)| *given == column) {
                slots.given.extend(value.map(|value| (queue, Box::from(value))));
            }
            for (place, returned) in step.returns.iter().enumerate() {
                if returned.column != column {
                } else if whole(returned.pick) {
                    if let Some(value) = value.filter(|_| count < LIST_MAX) {
                        arrays[place].push(Element(Some(value.to_vec())));
                    }
                } else if count == 0 || returned.pick == Pick::Last {
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
