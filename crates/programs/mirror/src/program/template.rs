//! Plans a template of the job: steps whose values have slots.

use super::catalog::Wanted;
use super::counts::{Counts, is_spread};
use super::needs::role_of;
use super::sources::{KeysOfJob, Planner, place_of};
use super::step::{Draw, GivenRow, Step, Template};
use crate::load::{Giver, MirrorLoad, MirrorStep, MirrorTemplate, ParameterSource};
use pgdyno_engine::plan::{StatementKind, is_copy_in};
use pgdyno_engine::program::{Pauses, TransactionType};

/// Plan a template.
///
/// Returns: the template, and its transaction type. Errors: the wrong part, and the rule.
pub(super) fn plan(
    given: &MirrorTemplate,
    load: &MirrorLoad,
    keys: &mut KeysOfJob,
) -> Result<(Template, TransactionType), String> {
    let wrong = |number: usize, what: &str| {
        Err(format!("has a wrong template: step {number} of \"{}\" {what}", given.name))
    };
    if given.weight == 0 || given.steps.is_empty() {
        return Err(format!("has a template without weight or steps: \"{}\"", given.name));
    }
    let parameters_before = |number: usize| -> usize {
        given.steps[..number].iter().map(|step| step.parameters.len()).sum()
    };
    let mut planner = Planner {
        given,
        slot_count: parameters_before(given.steps.len()),
        returns: Vec::new(),
        keys,
    };
    let mut steps = Vec::new();
    let mut kind = TransactionType {
        name: given.name.clone(),
        weight: given.weight,
        reads_only: given.reads_only,
        pauses: Pauses { keying_ns: 0, think_ns_mean: nanoseconds(given.think_ms) },
        protocol: given.protocol,
        ..TransactionType::default()
    };
    for (number, step) in given.steps.iter().enumerate() {
        let Some(statement) = load.statements.get(step.statement as usize) else {
            return wrong(number, "has no statement");
        };
        let control = StatementKind::of(&statement.text);
        let is_control = !matches!(control, StatementKind::Other | StatementKind::Ddl);
        let left_out = step.left_out || load.is_probe && is_control;
        let place = kind.statements.iter().position(|text| *text == statement.text);
        let place = if left_out { place.or(Some(0)) } else { place };
        let statement_place = place.unwrap_or_else(|| {
            kind.statements.push(statement.text.clone());
            kind.parameter_types.push(statement.parameter_types.clone());
            kind.statements.len() - 1
        });
        let first_slot = parameters_before(number);
        let planned = planner.step(number, first_slot, step, (statement_place, &statement.text));
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(what) => return wrong(number, &what),
        };
        planned.left_out = left_out;
        planned.rolls_back = control == StatementKind::Rollback && !left_out;
        steps.push(planned);
    }
    for (number, returned) in planner.returns {
        steps[number].returns.push(returned);
    }
    for (number, step) in steps.iter_mut().enumerate() {
        let members = given.steps[number + 1..].iter().take_while(|later| later.loops_with_before);
        step.loop_end = number + 1 + members.count();
    }
    kind.unread = (0..kind.statements.len())
        .filter(|&place| {
            let is_unread = |step: &Step| {
                step.returns.is_empty() && step.gives.is_empty() && step.sights.is_empty()
            };
            steps.iter().all(|step| step.statement != place || is_unread(step))
        })
        .collect();
    Ok((Template { steps, slot_count: planner.slot_count }, kind))
}

/// Return the slots of the lists of a step that have one length.
fn equal_lists(step: &MirrorStep, first_slot: usize) -> Vec<Vec<usize>> {
    let mut equal: Vec<Vec<usize>> = Vec::new();
    for (place, source) in step.parameters.iter().enumerate() {
        let ParameterSource::List { as_long_as: Some(other), .. } = source else { continue };
        let (first, slot) = (first_slot + *other as usize, first_slot + place);
        match equal.iter_mut().find(|lists| lists.contains(&first)) {
            Some(lists) => lists.push(slot),
            None => equal.push(vec![first, slot]),
        }
    }
    equal
}

/// Return the slots of the parameters of a step that must not be null, and whether they are lists.
fn not_null(step: &MirrorStep, first_slot: usize) -> Vec<(usize, bool)> {
    let places = step.not_null.iter().map(|&place| place as usize);
    let is_list = |place: usize| matches!(step.parameters[place], ParameterSource::List { .. });
    places.map(|place| (first_slot + place, is_list(place))).collect()
}

/// Return draws in an order in which each value comes before those that follow from it.
fn in_order(mut draws: Vec<(usize, Draw)>) -> Vec<(usize, Draw)> {
    // Others follow from what a client remembers, and some from what is known of a row.
    let known = draws.iter().filter(|(_, draw)| matches!(draw, Draw::Known { .. }));
    let known: Vec<_> = known.map(|&(slot, _)| slot).collect();
    draws.sort_by_key(|(_, draw)| match draw {
        Draw::Recalled { .. } => 0,
        Draw::Known { given, .. } if given.iter().any(|slot| known.contains(slot)) => 3,
        Draw::Known { .. } => 2,
        Draw::Copy { slot, .. } | Draw::Linear { slot, .. } | Draw::Between { slot, .. }
            if known.contains(slot) =>
        {
            4
        }
        _ => 1,
    });
    draws
}

fn nanoseconds(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6) as u64
}

impl Planner<'_> {
    fn step(
        &mut self,
        number: usize,
        first_slot: usize,
        step: &MirrorStep,
        (statement, text): (usize, &str),
    ) -> Result<Step, String> {
        if !(0.0..=1.0).contains(&step.probability) || !is_spread(step.repeat) {
            return Err("has a probability or a repetition that is not possible".into());
        }
        let mut named = step.not_null.iter().chain(&step.optional);
        if named.any(|&place| place as usize >= step.parameters.len()) {
            return Err("names a parameter that it does not have".into());
        }
        let [gives, sends] = self.gives(number, step.statement)?;
        let mut planned = Step {
            statement,
            first_slot,
            rows: Vec::new(),
            given_rows: Vec::new(),
            draws: Vec::new(),
            copied: None,
            returns: Vec::new(),
            gives,
            sends: if step.left_out { Vec::new() } else { sends },
            remembers: self.remembered(number, step)?,
            sights: self.sights(number, step)?,
            repeat: Counts::new(step.repeat),
            turns: step.turns.map(|count| self.number(count)).transpose()?,
            probability: step.probability,
            pause_ns_mean: nanoseconds(step.pause_ms),
            optional: step.optional.iter().map(|&place| first_slot + place as usize).collect(),
            not_null: Vec::new(),
            equal_lists: equal_lists(step, first_slot),
            loop_end: number + 1,
            rolls_back: false,
            left_out: step.left_out,
            role: role_of(text).map(Box::from),
        };
        if is_copy_in(text) {
            planned.copied = Some(self.copied_rows(number, step)?);
            return Ok(planned);
        }
        for (place, source) in step.parameters.iter().enumerate() {
            let slot = first_slot + place;
            if let ParameterSource::Column { given, .. } = source
                && !given.is_empty()
            {
                planned.given_rows.push(self.given_row(source, slot)?);
                continue;
            }
            if let ParameterSource::Column { .. } = source {
                self.column(&mut planned.rows, source, slot)?;
                continue;
            }
            if let ParameterSource::List { as_long_as: Some(other), .. } = source
                && *other as usize >= place
            {
                return Err("has a list as long as one that is not before it".into());
            }
            planned.draws.push((slot, self.draw(number, source)?));
        }
        planned.draws = in_order(planned.draws);
        planned.not_null = not_null(step, first_slot);
        Ok(planned)
    }

    /// Plan a parameter that is a column of a row which has the values of other parameters.
    fn given_row(&mut self, source: &ParameterSource, slot: usize) -> Result<GivenRow, String> {
        let ParameterSource::Column { table, column, given, .. } = source else {
            unreachable!("the caller has a column");
        };
        let slots: Result<Vec<_>, String> =
            given.iter().map(|other| self.slot(other.step, other.parameter)).collect();
        let slots = slots?;
        if slots.contains(&slot) {
            return Err("has a parameter that is given by itself".into());
        }
        let mut columns = vec![column.as_str()];
        columns.extend(given.iter().map(|other| other.column.as_str()));
        let wanted = Wanted { is_given: true, ..Wanted::new(table, &columns) };
        Ok(GivenRow { keys: place_of(&mut self.keys.existing, wanted), slot, given: slots })
    }

    /// Return the columns that a step returns, and the slots of what it sends, that other
    /// transactions take; each with its queue.
    fn gives(&self, number: usize, statement: u32) -> Result<[Vec<(usize, usize)>; 2], String> {
        let mut made = [Vec::new(), Vec::new()];
        for (queue, own) in self.keys.taken.iter().enumerate() {
            match *own {
                Giver { statement: of, .. } if of != statement => {}
                Giver { column: Some(column), .. } => made[0].push((column as usize, queue)),
                Giver { parameter: Some(place), .. } => {
                    made[1].push((self.slot(number as u32, place)?, queue));
                }
                _ => return Err("gives neither a parameter nor a returned column".into()),
            }
        }
        Ok(made)
    }
}
