//! How to get the value of a parameter, planned from its source in the job.

use super::counts::{Counts, is_spread};
use super::existing::Access;
use super::keys::Wanted;
use super::template::{Planner, Return, access_of, place_of};
use crate::load::{Count, ParameterSource, Pick, Take};
use crate::values::Values;

/// How to get a value.
#[derive(Debug)]
pub(super) enum Draw {
    Constant(Option<String>),
    Drawn(Box<Values>),
    Copy {
        slot: usize,
        take: Take,
    },
    /// The first one, or the other one if it does not exist. Not inside of a list or a record.
    Either(Box<(Draw, Draw)>),
    Linear {
        slot: usize,
        slope: f64,
        offset: f64,
        /// Another slot with its factor.
        plus: Option<(usize, f64)>,
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
    Count(Number),
    Turn {
        offset: i64,
    },
    Record(Vec<Draw>),
    List {
        of: Box<Draw>,
        length: Length,
        is_one_value: bool,
        is_distinct: bool,
        is_sorted: bool,
    },
    /// One element of a list: a value of a column.
    Existing {
        keys: usize,
        access: Access,
    },
}

/// How many elements a list has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Drawn(Counts),
    Known(Number),
}

/// A number that follows from what came before in the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) of: Counted,
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// The turns of a step.
    Turns { step: usize },
    /// The elements of the array in a slot.
    Elements { slot: usize },
}

impl Planner<'_> {
    pub(super) fn draw(
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
            ParameterSource::Column { .. } => Draw::Existing {
                keys: place_of(&mut self.keys.existing, Wanted::of(source)),
                access: access_of(source)?,
            },
            &ParameterSource::Equal { step, parameter, take } => {
                Draw::Copy { slot: self.slot(step, parameter)?, take }
            }
            ParameterSource::Linear { .. } => self.linear(number, source, awaits)?,
            &ParameterSource::Between { step, parameter, least, most } => {
                Draw::Between { slot: self.slot(step, parameter)?, least, most }
            }
            ParameterSource::Returned { step, column, pick, otherwise } => {
                let slot = self.returned(number, *step, *column, *pick, awaits)?;
                let returned = Draw::Copy { slot, take: Take::Value };
                match otherwise {
                    Some(other) => {
                        let other = self.draw(number, other, awaits)?;
                        Draw::Either(Box::new((returned, other)))
                    }
                    None => returned,
                }
            }
            ParameterSource::Fresh { table, column } => {
                Draw::Fresh { keys: place_of(&mut self.keys.fresh, Wanted::new(table, &[column])) }
            }
            &ParameterSource::Now { minus_s } => Draw::Now { minus_s },
            &ParameterSource::Taken { statement, column } => {
                let wanted = (statement, column);
                let queue = self.keys.taken.iter().position(|known| *known == wanted);
                Draw::Taken { queue: queue.ok_or("takes a value inside of a list of lists")? }
            }
            &ParameterSource::Count(count) => Draw::Count(self.number(count)?),
            &ParameterSource::Turn { offset } => Draw::Turn { offset },
            ParameterSource::Record { fields } => {
                Draw::Record(self.fields(number, fields, awaits)?)
            }
            ParameterSource::List { .. } => self.list(number, source, awaits)?,
        })
    }

    fn linear(
        &mut self,
        number: usize,
        source: &ParameterSource,
        awaits: &mut Vec<usize>,
    ) -> Result<Draw, String> {
        let &ParameterSource::Linear { step, parameter, column, slope, offset, plus } = source
        else {
            unreachable!("the caller has a linear source");
        };
        let slot = match (parameter, column) {
            (Some(parameter), None) => self.slot(step, parameter)?,
            (None, Some(column)) => self.returned(number, step, column, Pick::First, awaits)?,
            _ => return Err("needs either a parameter or a returned column".into()),
        };
        let plus = match plus {
            Some(plus) => Some((self.slot(plus.step, plus.parameter)?, plus.slope)),
            None => None,
        };
        Ok(Draw::Linear { slot, slope, offset, plus })
    }

    fn list(
        &mut self,
        number: usize,
        source: &ParameterSource,
        awaits: &mut Vec<usize>,
    ) -> Result<Draw, String> {
        let ParameterSource::List { of, is_one_value, is_distinct, is_sorted, .. } = source else {
            unreachable!("the caller has a list");
        };
        Ok(Draw::List {
            length: self.length(number, source)?,
            of: Box::new(self.draw(number, of, awaits)?),
            is_one_value: *is_one_value,
            is_distinct: *is_distinct,
            is_sorted: *is_sorted,
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
        awaits: &mut Vec<usize>,
    ) -> Result<usize, String> {
        let (from, column) = (step as usize, column as usize);
        if from >= self.given.steps.len() || from == number {
            return Err("uses a row of a step that does not come before".into());
        }
        awaits.push(from);
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

    /// Return the first step of the loop that a step belongs to.
    fn loop_of(&self, number: usize) -> usize {
        let before = self.given.steps[..=number].iter().rev();
        number - before.take_while(|step| step.loops_with_before).count()
    }

    fn fields(
        &mut self,
        number: usize,
        fields: &[ParameterSource],
        awaits: &mut Vec<usize>,
    ) -> Result<Vec<Draw>, String> {
        fields.iter().map(|field| self.draw(number, field, awaits)).collect()
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
