//! A template of the job, ready to run: steps whose values have slots.

use super::copied::CopiedRows;
use super::counts::{Counts, is_spread};
use super::existing::Access;
use super::keys::Wanted;
use super::needs::role_of;
use super::sources::{Draw, Number};
use crate::load::{MirrorLoad, MirrorStep, MirrorTemplate, ParameterSource, Pick};
use crate::values::Values;
use pgdyno_engine::plan::{StatementKind, is_copy_in};
use pgdyno_engine::program::{Pauses, TransactionType};

/// A template. Its slots hold the parameters of all steps, and then the returned columns.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) steps: Vec<Step>,
    pub(super) slot_count: usize,
}

#[derive(Debug)]
pub(super) struct Step {
    /// Place among the statements of the transaction type.
    pub(super) statement: usize,
    pub(super) first_slot: usize,
    /// The rows from which some parameters come.
    pub(super) rows: Vec<OfRow>,
    /// Parameters that come from rows which have the values of others.
    pub(super) given_rows: Vec<GivenRow>,
    /// The other parameters: their slots, and how to get them.
    pub(super) draws: Vec<(usize, Draw)>,
    /// Of a COPY FROM STDIN: its rows, in place of parameters.
    pub(super) copied: Option<CopiedRows>,
    /// Returned columns that later steps use.
    pub(super) returns: Vec<Return>,
    /// Returned columns that other transactions take, and the places of their queues.
    pub(super) gives: Vec<(usize, usize)>,
    /// Steps whose returned columns this one uses.
    pub(super) awaits: Vec<usize>,
    pub(super) repeat: Counts,
    /// How often the step is executed, if that follows from what came before.
    pub(super) turns: Option<Number>,
    pub(super) probability: f64,
    pub(super) pause_ns_mean: u64,
    pub(super) same_trip: bool,
    /// The slots that are null if their value does not exist.
    pub(super) optional: Vec<usize>,
    /// The slots of parameters that must not be null, and whether they are lists.
    pub(super) not_null: Vec<(usize, bool)>,
    /// The step after the last one of the loop that this step begins.
    pub(super) loop_end: usize,
    pub(super) rolls_back: bool,
    /// The statement is not sent.
    pub(super) left_out: bool,
    /// The role that the statement takes.
    pub(super) role: Option<Box<str>>,
}

/// Parameters that come from one row of a table.
#[derive(Debug)]
pub(super) struct OfRow {
    /// Place among the keys of the run.
    pub(super) keys: usize,
    pub(super) access: Access,
    /// Columns of the row, and the slots that get them.
    pub(super) columns: Vec<(usize, usize)>,
    group: Option<(String, u32)>,
}

/// A parameter that comes from a row which has the values of other parameters.
#[derive(Debug)]
pub(super) struct GivenRow {
    pub(super) keys: usize,
    pub(super) slot: usize,
    /// The slots of the values that the row has.
    pub(super) given: Vec<usize>,
}

/// A returned column that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) column: usize,
    pub(super) slot: usize,
    pub(super) pick: Pick,
    /// The array has the rows of all turns of the loop.
    pub(super) is_whole: bool,
}

/// The keys that the templates of a job use.
#[derive(Debug, Default)]
pub(super) struct KeysOfJob {
    pub(super) existing: Vec<Wanted>,
    pub(super) fresh: Vec<Wanted>,
    /// Values that transactions take from others: a statement of the load, and its column.
    pub(super) taken: Vec<(u32, u32)>,
}

impl KeysOfJob {
    /// The places of the values that the steps of these templates take from other transactions.
    pub(super) fn of_queues(templates: &[MirrorTemplate]) -> KeysOfJob {
        let mut keys = KeysOfJob::default();
        let steps = templates.iter().flat_map(|template| &template.steps);
        for source in steps.flat_map(|step| &step.parameters) {
            let source = match source {
                ParameterSource::List { of, .. } => of,
                source => source,
            };
            if let &ParameterSource::Taken { statement, column } = source
                && !keys.taken.contains(&(statement, column))
            {
                keys.taken.push((statement, column));
            }
        }
        keys
    }
}

pub(super) fn place_of(list: &mut Vec<Wanted>, wanted: Wanted) -> usize {
    list.iter().position(|known| *known == wanted).unwrap_or_else(|| {
        list.push(wanted);
        list.len() - 1
    })
}

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
            let is_unread = |step: &Step| step.returns.is_empty() && step.gives.is_empty();
            steps.iter().all(|step| step.statement != place || is_unread(step))
        })
        .collect();
    Ok((Template { steps, slot_count: planner.slot_count }, kind))
}

fn nanoseconds(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6) as u64
}

pub(super) struct Planner<'a> {
    pub(super) given: &'a MirrorTemplate,
    pub(super) slot_count: usize,
    /// Returned columns, each with the step that returns it.
    pub(super) returns: Vec<(usize, Return)>,
    pub(super) keys: &'a mut KeysOfJob,
}

impl Planner<'_> {
    fn step(
        &mut self,
        number: usize,
        first_slot: usize,
        step: &MirrorStep,
        (statement, text): (usize, &str),
    ) -> Result<Step, String> {
        let spread = step.repeat;
        if !(0.0..=1.0).contains(&step.probability) || !is_spread(spread) {
            return Err("has a probability or a repetition that is not possible".into());
        }
        let mut named = step.not_null.iter().chain(&step.optional);
        if named.any(|&place| place as usize >= step.parameters.len()) {
            return Err("names a parameter that it does not have".into());
        }
        let mut planned = Step {
            statement,
            first_slot,
            rows: Vec::new(),
            given_rows: Vec::new(),
            draws: Vec::new(),
            copied: None,
            returns: Vec::new(),
            gives: self.gives(step.statement),
            awaits: Vec::new(),
            repeat: Counts::new(spread),
            turns: step.turns.map(|count| self.number(count)).transpose()?,
            probability: step.probability,
            pause_ns_mean: nanoseconds(step.pause_ms),
            same_trip: step.same_trip,
            optional: step.optional.iter().map(|&place| first_slot + place as usize).collect(),
            not_null: Vec::new(),
            loop_end: number + 1,
            rolls_back: false,
            left_out: step.left_out,
            role: role_of(text).map(Box::from),
        };
        if is_copy_in(text) {
            planned.copied = Some(self.copied_rows(number, step, &mut planned.awaits)?);
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
            let draw = self.draw(number, source, &mut planned.awaits)?;
            planned.draws.push((slot, draw));
        }
        let needed = step.not_null.iter().map(|&place| place as usize);
        planned.not_null = needed
            .map(|place| {
                let is_list = matches!(step.parameters[place], ParameterSource::List { .. });
                (first_slot + place, is_list)
            })
            .collect();
        Ok(planned)
    }

    /// Plan a parameter that is a column of an existing row.
    pub(super) fn column(
        &mut self,
        rows: &mut Vec<OfRow>,
        source: &ParameterSource,
        slot: usize,
    ) -> Result<(), String> {
        let ParameterSource::Column { table, column, group, .. } = source else {
            unreachable!("the caller has a column");
        };
        let group = group.map(|group| (table.clone(), group));
        let together = rows.iter_mut().find(|row| group.is_some() && row.group == group);
        if let Some(row) = together {
            let known = &mut self.keys.existing[row.keys];
            // The list of columns of this step belongs to this step alone.
            known.add(column);
            row.columns.push((known.columns.len() - 1, slot));
            return Ok(());
        }
        let keys = match group {
            Some(_) => {
                self.keys.existing.push(Wanted::new(table, &[column]));
                self.keys.existing.len() - 1
            }
            None => place_of(&mut self.keys.existing, Wanted::of(source)),
        };
        rows.push(OfRow { keys, access: access_of(source)?, columns: vec![(0, slot)], group });
        Ok(())
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

    /// Return the columns of a statement that other transactions take.
    fn gives(&self, statement: u32) -> Vec<(usize, usize)> {
        let taken = self.keys.taken.iter().enumerate();
        taken
            .filter(|(_, (of, _))| *of == statement)
            .map(|(queue, &(_, column))| (column as usize, queue))
            .collect()
    }
}

/// Plan how the keys of a source that is a column are used.
pub(super) fn access_of(source: &ParameterSource) -> Result<Access, String> {
    let ParameterSource::Column { distribution, range, kept, by_frequency, .. } = source else {
        unreachable!("the caller has a column");
    };
    if !(0.0..=1.0).contains(kept) {
        return Err("has a share of kept values that is not from 0 to 1".into());
    }
    let values = distribution.as_deref().map(|own| Ok::<_, String>(Box::new(Values::new(own)?)));
    let values = values.transpose()?;
    Ok(Access { values, range: *range, kept: *kept, by_frequency: *by_frequency })
}
