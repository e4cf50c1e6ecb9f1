//! A template of the job, ready to run: steps whose values have slots.

use pgdyno_script::Prng;

use super::keys::Wanted;
use crate::contract::job::{
    Distribution, MirrorLoad, MirrorStep, MirrorTemplate, ParameterSource, Pick, Spread,
};
use crate::plan::StatementKind;
use crate::program::{Pauses, TransactionType};
use crate::values::Values;

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
    /// The other parameters: their slots, and how to get them.
    pub(super) draws: Vec<(usize, Draw)>,
    /// Returned columns that later steps use.
    pub(super) returns: Vec<Return>,
    /// Returned columns that other transactions take, and the places of their queues.
    pub(super) gives: Vec<(usize, usize)>,
    /// Steps whose returned columns this one uses.
    pub(super) awaits: Vec<usize>,
    pub(super) repeat: Counts,
    pub(super) probability: f64,
    pub(super) pause_ns_mean: u64,
    pub(super) same_trip: bool,
    /// The step after the last one of the loop that this step begins.
    pub(super) loop_end: usize,
    pub(super) rolls_back: bool,
}

/// Parameters that come from one row of a table.
#[derive(Debug)]
pub(super) struct OfRow {
    /// Place among the keys of the run.
    pub(super) keys: usize,
    pub(super) access: Option<Box<Values>>,
    pub(super) range: Option<(i64, i64)>,
    /// Columns of the row, and the slots that get them.
    pub(super) columns: Vec<(usize, usize)>,
    group: Option<(String, u32)>,
}

/// How to get a value.
#[derive(Debug)]
pub(super) enum Draw {
    Constant(Option<String>),
    Drawn(Box<Values>),
    Copy {
        slot: usize,
    },
    Linear {
        slot: usize,
        slope: f64,
        offset: f64,
    },
    Between {
        slot: usize,
        least: f64,
        most: f64,
    },
    Fresh {
        keys: usize,
    },
    Now {
        minus_s: f64,
    },
    Taken {
        queue: usize,
    },
    Record(Vec<Draw>),
    List {
        of: Box<Draw>,
        length: Counts,
        /// The slot of an array with as many elements.
        as_long_as: Option<usize>,
        is_one_value: bool,
    },
    /// One element of a list: a value of a column.
    Existing {
        keys: usize,
        access: Option<Box<Values>>,
        range: Option<(i64, i64)>,
    },
}

/// A returned column that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) column: usize,
    pub(super) slot: usize,
    pub(super) pick: Pick,
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

fn place_of(list: &mut Vec<Wanted>, table: &str, columns: &[&str]) -> usize {
    let wanted = Wanted::new(table, columns);
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
        let place = kind.statements.iter().position(|text| *text == statement.text);
        let statement_place = place.unwrap_or_else(|| {
            kind.statements.push(statement.text.clone());
            kind.parameter_types.push(statement.parameter_types.clone());
            kind.statements.len() - 1
        });
        let planned = planner.step(number, parameters_before(number), step, statement_place);
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(what) => return wrong(number, &what),
        };
        planned.rolls_back = StatementKind::of(&statement.text) == StatementKind::Rollback;
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

struct Planner<'a> {
    given: &'a MirrorTemplate,
    slot_count: usize,
    /// Returned columns, each with the step that returns it.
    returns: Vec<(usize, Return)>,
    keys: &'a mut KeysOfJob,
}

impl Planner<'_> {
    fn step(
        &mut self,
        number: usize,
        first_slot: usize,
        step: &MirrorStep,
        statement: usize,
    ) -> Result<Step, String> {
        let spread = step.repeat;
        if !(0.0..=1.0).contains(&step.probability) || !is_spread(spread) {
            return Err("has a probability or a repetition that is not possible".into());
        }
        let mut planned = Step {
            statement,
            first_slot,
            rows: Vec::new(),
            draws: Vec::new(),
            returns: Vec::new(),
            gives: self.gives(step.statement),
            awaits: Vec::new(),
            repeat: Counts::new(spread),
            probability: step.probability,
            pause_ns_mean: nanoseconds(step.pause_ms),
            same_trip: step.same_trip,
            loop_end: number + 1,
            rolls_back: false,
        };
        for (place, source) in step.parameters.iter().enumerate() {
            let slot = first_slot + place;
            match source {
                ParameterSource::Column { table, column, distribution, range, group } => {
                    let group = group.map(|group| (table.clone(), group));
                    let together =
                        planned.rows.iter_mut().find(|row| group.is_some() && row.group == group);
                    if let Some(row) = together {
                        let known = &mut self.keys.existing[row.keys];
                        // The list of columns of this step belongs to this step alone.
                        known.add(column);
                        row.columns.push((known.columns.len() - 1, slot));
                        continue;
                    }
                    let keys = match group {
                        Some(_) => {
                            self.keys.existing.push(Wanted::new(table, &[column]));
                            self.keys.existing.len() - 1
                        }
                        None => place_of(&mut self.keys.existing, table, &[column]),
                    };
                    planned.rows.push(OfRow {
                        keys,
                        access: values_of(distribution.as_deref())?,
                        range: *range,
                        columns: vec![(0, slot)],
                        group,
                    });
                }
                _ => {
                    let mut draw = self.draw(number, source, &mut planned.awaits)?;
                    if let Draw::List { as_long_as: Some(other), .. } = &mut draw {
                        if *other >= place {
                            return Err("has a list as long as one that is not before it".into());
                        }
                        *other += first_slot;
                    }
                    planned.draws.push((slot, draw));
                }
            }
        }
        Ok(planned)
    }

    /// Return the columns of a statement that other transactions take.
    fn gives(&self, statement: u32) -> Vec<(usize, usize)> {
        let taken = self.keys.taken.iter().enumerate();
        taken
            .filter(|(_, (of, _))| *of == statement)
            .map(|(queue, &(_, column))| (column as usize, queue))
            .collect()
    }

    fn draw(
        &mut self,
        number: usize,
        source: &ParameterSource,
        awaits: &mut Vec<usize>,
    ) -> Result<Draw, String> {
        Ok(match source {
            ParameterSource::Constant { value } => Draw::Constant(value.clone()),
            ParameterSource::Drawn { distribution } => {
                Draw::Drawn(Box::new(Values::new(distribution)?))
            }
            ParameterSource::Column { table, column, distribution, range, .. } => Draw::Existing {
                keys: place_of(&mut self.keys.existing, table, &[column]),
                access: values_of(distribution.as_deref())?,
                range: *range,
            },
            &ParameterSource::Equal { step, parameter } => {
                Draw::Copy { slot: self.slot(step, parameter)? }
            }
            &ParameterSource::Linear { step, parameter, slope, offset } => {
                Draw::Linear { slot: self.slot(step, parameter)?, slope, offset }
            }
            &ParameterSource::Between { step, parameter, least, most } => {
                Draw::Between { slot: self.slot(step, parameter)?, least, most }
            }
            &ParameterSource::Returned { step, column, pick } => {
                let from = step as usize;
                if from >= self.given.steps.len() || from == number {
                    return Err("uses a row of a step that does not come before".into());
                }
                awaits.push(from);
                let column = column as usize;
                let same = |(of, known): &&(usize, Return)| {
                    *of == from && known.column == column && known.pick == pick
                };
                let slot = self.returns.iter().find(same).map(|(_, known)| known.slot);
                Draw::Copy {
                    slot: slot.unwrap_or_else(|| {
                        let slot = self.slot_count;
                        self.slot_count += 1;
                        self.returns.push((from, Return { column, slot, pick }));
                        slot
                    }),
                }
            }
            ParameterSource::Fresh { table, column } => {
                Draw::Fresh { keys: place_of(&mut self.keys.fresh, table, &[column]) }
            }
            &ParameterSource::Now { minus_s } => Draw::Now { minus_s },
            &ParameterSource::Taken { statement, column } => {
                let wanted = (statement, column);
                let queue = self.keys.taken.iter().position(|known| *known == wanted);
                Draw::Taken { queue: queue.ok_or("takes a value inside of a list of lists")? }
            }
            ParameterSource::Record { fields } => {
                Draw::Record(self.fields(number, fields, awaits)?)
            }
            ParameterSource::List { of, length, as_long_as, is_one_value } => {
                if !is_spread(*length) {
                    return Err("has a list whose length is not possible".into());
                }
                Draw::List {
                    of: Box::new(self.draw(number, of, awaits)?),
                    length: Counts::new(*length),
                    as_long_as: as_long_as.map(|other| other as usize),
                    is_one_value: *is_one_value,
                }
            }
        })
    }

    fn fields(
        &mut self,
        number: usize,
        fields: &[ParameterSource],
        awaits: &mut Vec<usize>,
    ) -> Result<Vec<Draw>, String> {
        fields.iter().map(|field| self.draw(number, field, awaits)).collect()
    }

    fn slot(&self, step: u32, parameter: u32) -> Result<usize, String> {
        let (step, parameter) = (step as usize, parameter as usize);
        match self.given.steps.get(step) {
            Some(from) if parameter < from.parameters.len() => {
                let before = self.given.steps[..step].iter().map(|step| step.parameters.len());
                Ok(before.sum::<usize>() + parameter)
            }
            _ => Err("uses a parameter that does not exist".into()),
        }
    }
}

fn values_of(distribution: Option<&Distribution>) -> Result<Option<Box<Values>>, String> {
    distribution.map(|distribution| Ok(Box::new(Values::new(distribution)?))).transpose()
}

fn is_spread(spread: Spread) -> bool {
    0.0 <= spread.least
        && spread.least <= spread.mean
        && spread.mean <= spread.most
        && spread.most <= 1e6
}

/// Whole numbers between the ends of a spread, with its mean: a truncated geometric distribution.
/// If the mean is in the middle, it is uniform; if the mean is near an end, far numbers are rare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    least: u64,
    places: f64,
    /// Each number is this much rarer than the one before it; 1 = uniform.
    ratio: f64,
    /// Each number is rarer than the one after it.
    is_mirrored: bool,
}

impl Counts {
    /// Args: a spread that `is_spread`.
    fn new(spread: Spread) -> Counts {
        let (least, most) = (spread.least.round(), spread.most.round());
        let places = (most - least + 1.0).max(1.0);
        let wanted = (spread.mean - least).clamp(0.0, places - 1.0);
        let is_mirrored = wanted > (places - 1.0) / 2.0;
        let wanted = if is_mirrored { places - 1.0 - wanted } else { wanted };
        let mean = |ratio: f64| {
            let last = ratio.powf(places);
            ratio / (1.0 - ratio) - places * last / (1.0 - last)
        };
        // The mean grows with the ratio, up to the middle.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let ratio = 0.5 * (low + high);
            if mean(ratio) < wanted { low = ratio } else { high = ratio }
        }
        let is_uniform = wanted >= (places - 1.0) / 2.0 * (1.0 - 1e-6);
        Counts {
            least: least as u64,
            places,
            ratio: if is_uniform { 1.0 } else { low },
            is_mirrored,
        }
    }

    pub(super) fn draw(&self, random: &mut Prng) -> u64 {
        if self.places <= 1.0 {
            return self.least;
        }
        let unit = random.unit();
        let place = match self.ratio {
            1.0 => unit * self.places,
            ratio if ratio < 1e-9 => 0.0,
            ratio => (1.0 - unit * (1.0 - ratio.powf(self.places))).ln() / ratio.ln(),
        };
        let place = place.floor().clamp(0.0, self.places - 1.0);
        let place = if self.is_mirrored { self.places - 1.0 - place } else { place };
        self.least + place as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_mean_and_the_ends_of_their_spread() {
        let mut random = Prng::from_seed(5);
        let spreads = [
            (5.0, 10.0, 15.0),
            (1.0, 2.0, 40.0),
            (0.0, 8.5, 10.0),
            (3.0, 3.0, 9.0),
            (2.0, 2.0, 2.0),
        ];
        for (least, mean, most) in spreads {
            let counts = Counts::new(Spread { least, mean, most });
            let drawn: Vec<_> = (0..100_000).map(|_| counts.draw(&mut random)).collect();
            let seen = drawn.iter().sum::<u64>() as f64 / 1e5;
            assert!((seen - mean).abs() < 0.02 * mean, "{counts:?}: {seen}");
            assert!(drawn.iter().all(|&count| (least..=most).contains(&(count as f64))));
        }
    }
}
