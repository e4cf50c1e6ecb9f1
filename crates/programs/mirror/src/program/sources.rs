//! How to get the value of a parameter, planned from its source in the job.

use super::catalog::Wanted;
use super::counts::{Counts, is_spread};
use super::step::{Access, Counted, Draw, Length, Number, OfRow, Return, Seen, Sight};
use crate::load::{Case, Count, Giver, MirrorStep, MirrorTemplate, ParameterSource, Pick};
use crate::load::{Sighting, Take};
use crate::values::Values;

/// Plans the steps of one template.
///
/// Args of its methods: number, the place of the step in the template.
pub(super) struct Planner<'a> {
    pub(super) given: &'a MirrorTemplate,
    pub(super) slot_count: usize,
    /// Returned columns, each with the step that returns it.
    pub(super) returns: Vec<(usize, Return)>,
    pub(super) keys: &'a mut KeysOfJob,
}

/// The keys that the templates of a job use.
#[derive(Debug, Default)]
pub(super) struct KeysOfJob {
    pub(super) existing: Vec<Wanted>,
    pub(super) fresh: Vec<Wanted>,
    /// Values that transactions take from others.
    pub(super) taken: Vec<Giver>,
    /// The places whose values each client remembers.
    pub(super) recalled: Vec<Vec<Giver>>,
    /// The statements that show each column of rows which steps must know.
    pub(super) seen: Vec<Vec<Sighting>>,
}

impl KeysOfJob {
    /// The places of the values that the steps of these templates take from other transactions.
    pub(super) fn of_queues(templates: &[MirrorTemplate]) -> KeysOfJob {
        let mut keys = KeysOfJob::default();
        let steps = templates.iter().flat_map(|template| &template.steps);
        let mut left: Vec<_> = steps.flat_map(|step| &step.parameters).collect();
        left.reverse();
        while let Some(source) = left.pop() {
            match source {
                ParameterSource::List { of, .. } => left.push(of),
                ParameterSource::Record { fields, .. } => left.extend(fields),
                ParameterSource::Cases { cases, otherwise, .. } => {
                    left.push(otherwise);
                    left.extend(cases.iter().map(|case| &case.source));
                }
                ParameterSource::Recalled { givers, otherwise, .. } => {
                    left.push(otherwise);
                    if !keys.recalled.contains(givers) {
                        keys.recalled.push(givers.clone());
                    }
                }
                ParameterSource::Known { sightings, otherwise, .. } => {
                    left.push(otherwise);
                    if !keys.seen.contains(sightings) {
                        keys.seen.push(sightings.clone());
                    }
                }
                ParameterSource::Taken(giver) if !keys.taken.contains(giver) => {
                    keys.taken.push(*giver);
                }
                _ => {}
            }
        }
        keys
    }
}

impl Planner<'_> {
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

    pub(super) fn draw(&mut self, number: usize, source: &ParameterSource) -> Result<Draw, String> {
        Ok(match source {
            ParameterSource::Constant { value } => Draw::Constant(value.clone()),
            ParameterSource::Drawn { distribution } => {
                Draw::Drawn(Box::new(Values::new(distribution)?))
            }
            ParameterSource::Column { .. } => Draw::Existing {
                keys: place_of(&mut self.keys.existing, Wanted::of(source)),
                access: access_of(source)?,
            },
            &ParameterSource::Equal { step, parameter, take } => {
                Draw::Copy { slot: self.slot(step, parameter)?, take }
            }
            ParameterSource::Linear { .. } => self.linear(number, source)?,
            &ParameterSource::Between { step, parameter, least, most } => {
                Draw::Between { slot: self.slot(step, parameter)?, least, most }
            }
            &ParameterSource::Returned { step, column, pick } => {
                let slot = self.returned(number, step, column, pick)?;
                Draw::Copy { slot, take: Take::Value }
            }
            ParameterSource::Fresh { table, column } => {
                Draw::Fresh { keys: place_of(&mut self.keys.fresh, Wanted::new(table, &[column])) }
            }
            &ParameterSource::Now { minus_s } => Draw::Now { minus_s },
            ParameterSource::Taken(giver) => {
                let queue = self.keys.taken.iter().position(|known| known == giver);
                Draw::Taken { queue: queue.ok_or("takes a value inside of a list of lists")? }
            }
            ParameterSource::Recalled { givers, shares, otherwise } => Draw::Recalled {
                memory: self
                    .keys
                    .recalled
                    .iter()
                    .position(|known| known == givers)
                    .ok_or("recalls a value inside of a list of lists")?,
                shares: shares.clone(),
                otherwise: Box::new(self.draw(number, otherwise)?),
            },
            ParameterSource::Known { .. } => self.known(number, source)?,
            &ParameterSource::Count(count) => Draw::Count(self.number(count)?),
            &ParameterSource::Turn { offset } => Draw::Turn { offset },
            ParameterSource::Record { fields, names, bare } => {
                if !names.is_empty() && names.len() != fields.len() {
                    return Err("has a document whose fields have no names".into());
                }
                Draw::Record {
                    fields: self.fields(number, fields)?,
                    names: names.clone(),
                    bare: bare.iter().map(|&place| place as usize).collect(),
                }
            }
            ParameterSource::Cases { parameter, cases, otherwise } => Draw::Cases {
                slot: self.slot(number as u32, *parameter)?,
                cases: cases
                    .iter()
                    .map(|Case { value, source }| Ok((value.clone(), self.draw(number, source)?)))
                    .collect::<Result<_, String>>()?,
                otherwise: Box::new(self.draw(number, otherwise)?),
            },
            ParameterSource::List { .. } => self.list(number, source)?,
        })
    }

    fn known(&mut self, number: usize, source: &ParameterSource) -> Result<Draw, String> {
        let ParameterSource::Known { table, column, given, sightings, otherwise } = source else {
            unreachable!("the caller has a known source");
        };
        let slots = given.iter().map(|other| self.slot(other.step, other.parameter));
        let slots = slots.collect::<Result<Vec<_>, String>>()?;
        let mut columns = vec![column.as_str()];
        columns.extend(given.iter().map(|other| other.column.as_str()));
        let wanted = Wanted { is_given: true, ..Wanted::new(table, &columns) };
        let rows = self.keys.seen.iter().position(|known| known == sightings);
        Ok(Draw::Known {
            rows: rows.ok_or("knows a value inside of a list of lists")?,
            keys: place_of(&mut self.keys.existing, wanted),
            given: slots,
            otherwise: Box::new(self.draw(number, otherwise)?),
        })
    }

    fn linear(&mut self, number: usize, source: &ParameterSource) -> Result<Draw, String> {
        let &ParameterSource::Linear { step, parameter, column, slope, offset, plus } = source
        else {
            unreachable!("the caller has a linear source");
        };
        let slot = match (parameter, column) {
            (Some(parameter), None) => self.slot(step, parameter)?,
            (None, Some(column)) => self.returned(number, step, column, Pick::First)?,
            _ => return Err("needs either a parameter or a returned column".into()),
        };
        let plus = match plus {
            Some(plus) => Some((self.slot(plus.step, plus.parameter)?, plus.slope)),
            None => None,
        };
        Ok(Draw::Linear { slot, slope, offset, plus })
    }

    fn list(&mut self, number: usize, source: &ParameterSource) -> Result<Draw, String> {
        let ParameterSource::List { of, is_one_value, is_distinct, is_sorted, is_json, .. } =
            source
        else {
            unreachable!("the caller has a list");
        };
        Ok(Draw::List {
            length: self.length(number, source)?,
            of: Box::new(self.draw(number, of)?),
            is_one_value: *is_one_value,
            is_distinct: *is_distinct,
            is_sorted: *is_sorted,
            is_json: *is_json,
        })
    }

    /// Plan how many elements a list has.
    pub(super) fn length(&self, number: usize, list: &ParameterSource) -> Result<Length, String> {
        let ParameterSource::List { length, as_long_as, count, .. } = list else {
            unreachable!("the caller has a list");
        };
        if !is_spread(*length) {
            return Err("has a list whose length is not possible".into());
        }
        let own = as_long_as.map(|parameter| Count {
            step: number as u32,
            parameter: Some(parameter),
            offset: 0,
        });
        Ok(match count.or(own) {
            Some(count) => Length::Known(self.number(count)?),
            None => Length::Drawn(Counts::new(*length)),
        })
    }

    /// Plan a number that follows from an earlier step, or from an array.
    pub(super) fn number(&self, count: Count) -> Result<Number, String> {
        let of = match count.parameter {
            Some(parameter) => Counted::Elements { slot: self.slot(count.step, parameter)? },
            None if (count.step as usize) < self.given.steps.len() => {
                Counted::Turns { step: count.step as usize }
            }
            None => return Err("counts the turns of a step that does not exist".into()),
        };
        Ok(Number { of, offset: count.offset })
    }

    /// Return the slot of a column that an earlier step returns.
    fn returned(
        &mut self,
        number: usize,
        step: u32,
        column: u32,
        pick: Pick,
    ) -> Result<usize, String> {
        let (from, column) = (step as usize, column as usize);
        if from >= self.given.steps.len() || from == number {
            return Err("uses a row of a step that does not come before".into());
        }
        let is_whole = pick == Pick::All && self.loop_of(from) != self.loop_of(number);
        let wanted = Return { column, slot: 0, pick, is_whole };
        let same =
            |(of, known): &&(usize, Return)| *of == from && Return { slot: 0, ..*known } == wanted;
        if let Some((_, known)) = self.returns.iter().find(same) {
            return Ok(known.slot);
        }
        let slot = self.slot_count;
        self.slot_count += 1;
        self.returns.push((from, Return { slot, ..wanted }));
        Ok(slot)
    }

    /// Return the memories that get a value of a step, and the slots with these values.
    pub(super) fn remembered(
        &mut self,
        number: usize,
        step: &MirrorStep,
    ) -> Result<Vec<(usize, usize)>, String> {
        let mut made = Vec::new();
        let count = if step.left_out { 0 } else { self.keys.recalled.len() };
        for memory in 0..count {
            let mut givers = self.keys.recalled[memory].iter();
            let own = givers.find(|own| own.statement == step.statement);
            if let Some(&own) = own {
                made.push((memory, self.seen(number, own, Pick::Last)?.slot));
            }
        }
        Ok(made)
    }

    /// Return what a step sends or reads of rows that other transactions must know.
    pub(super) fn sights(
        &mut self,
        number: usize,
        step: &MirrorStep,
    ) -> Result<Vec<Sight>, String> {
        let mut made = Vec::new();
        let count = if step.left_out { 0 } else { self.keys.seen.len() };
        for rows in 0..count {
            for own in self.keys.seen[rows].clone() {
                if own.key.first().is_none_or(|part| part.statement != step.statement) {
                    continue;
                }
                let key = own.key.iter().map(|&part| self.seen(number, part, Pick::All));
                let key = key.collect::<Result<Vec<_>, String>>()?;
                let value = own.value.map(|part| self.seen(number, part, Pick::All)).transpose()?;
                made.push(Sight { rows, key, value, plus: own.plus });
            }
        }
        Ok(made)
    }

    /// Return the slot of a value that a step sends or returns.
    fn seen(&mut self, number: usize, of: Giver, pick: Pick) -> Result<Seen, String> {
        let slot = match (of.parameter, of.column) {
            (Some(parameter), None) => self.slot(number as u32, parameter)?,
            (None, Some(column)) => {
                let (slot, column) = (self.slot_count, column as usize);
                let wanted = Return { column, slot, pick, is_whole: pick == Pick::All };
                self.slot_count += 1;
                self.returns.push((number, wanted));
                slot
            }
            _ => return Err("gives either a parameter or a returned column".into()),
        };
        Ok(Seen { slot, is_returned: of.column.is_some() })
    }

    /// Return the first step of the loop that a step belongs to.
    fn loop_of(&self, number: usize) -> usize {
        let before = self.given.steps[..=number].iter().rev();
        number - before.take_while(|step| step.loops_with_before).count()
    }

    fn fields(&mut self, number: usize, fields: &[ParameterSource]) -> Result<Vec<Draw>, String> {
        fields.iter().map(|field| self.draw(number, field)).collect()
    }

    pub(super) fn slot(&self, step: u32, parameter: u32) -> Result<usize, String> {
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

pub(super) fn place_of(list: &mut Vec<Wanted>, wanted: Wanted) -> usize {
    list.iter().position(|known| *known == wanted).unwrap_or_else(|| {
        list.push(wanted);
        list.len() - 1
    })
}

/// Plan how the keys of a source that is a column are used.
fn access_of(source: &ParameterSource) -> Result<Access, String> {
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
