//! The rows of a COPY FROM STDIN, planned from the captured load and made during the run.
//!
//! They are made while they are sent, so that a long COPY needs no more memory than a short one.
//!
//! Two moments: before the load, `Planner::copied_rows` turns the captured step into a plan
//! (`CopiedRows` in `step.rs`). During the load, `CopiedRows::send` follows this plan for each
//! execution. A field of a row comes from a column of a row that the database has (`OfRow`, all
//! columns of one row together), or it is made anew for each row (`Draw`: a constant, a random
//! value, a new key, the time, the number of the row). `Stock` has what all clients take values
//! from, such as the keys of the tables. `Drawing` takes them for one client. A slot (`Slots`)
//! holds a value that an earlier step of the transaction used or returned.

use super::drawing::{Drawing, Stock};
use super::existing::Chosen;
use super::slots::Slots;
use super::sources::Planner;
use super::step::{CopiedRows, Draw, Length};
use crate::load::{MirrorStep, ParameterSource, Take};
use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::Parameter;
use pgdyno_engine::program::Session;

/// Rows are sent in blocks of this size. Between two of them the thread serves other clients.
const BLOCK_BYTES: usize = 32 << 10;

/// A row that is being made.
#[derive(Debug, Default)]
struct Row {
    /// The text of each field, and whether it is not null.
    fields: Vec<(Vec<u8>, bool)>,
}

impl Planner<'_> {
    /// Plan the rows of a COPY, which are its only parameter: a list of records.
    ///
    /// Args: number, of the step in its transaction.
    /// Errors: the end of a sentence that the caller begins with the step, such as "step 3".
    pub(super) fn copied_rows(
        &mut self,
        number: usize,
        step: &MirrorStep,
    ) -> Result<CopiedRows, String> {
        let [list @ ParameterSource::List { of, .. }] = step.parameters.as_slice() else {
            return Err("is a COPY without a list of rows".into());
        };
        let ParameterSource::Record { fields, .. } = &**of else {
            return Err("is a COPY whose rows are not records".into());
        };
        let count = self.length(number, list)?;
        let (mut rows, mut draws) = (Vec::new(), Vec::new());
        for (place, field) in fields.iter().enumerate() {
            if let ParameterSource::Column { .. } = field {
                self.column(&mut rows, field, place)?;
                continue;
            }
            let draw = self.draw(number, field)?;
            match draw {
                Draw::Constant(_) | Draw::Drawn(_) | Draw::Fresh { .. } | Draw::Now { .. } => {}
                Draw::Turn { .. } | Draw::Record { .. } | Draw::Copy { take: Take::Value, .. } => {}
                _ => return Err("is a COPY with a field that a row cannot have".into()),
            }
            draws.push((place, draw));
        }
        Ok(CopiedRows { count, rows, draws, width: fields.len() })
    }
}

impl CopiedRows {
    /// Send a COPY with its rows.
    ///
    /// Returns: false if it is not executed, because a value of an earlier step is missing.
    pub(super) async fn send(
        &self,
        stock: &Stock,
        statement: usize,
        slots: &Slots,
        session: Session<'_>,
    ) -> Result<bool, Stopped> {
        let is_missing = |draw: &Draw| match draw {
            Draw::Copy { slot, .. } => slots.get(*slot).is_none(),
            _ => false,
        };
        if self.draws.iter().any(|(_, draw)| is_missing(draw)) {
            return Ok(false);
        }
        let count = match self.count {
            Length::Known(number) => slots.number(number),
            Length::Drawn(counts) => session.random(|random| counts.draw(random)),
        };
        let mut row = Row { fields: vec![(Vec::new(), false); self.width] };
        let mut made = 0;
        let fill = |block: &mut Vec<u8>| {
            while made < count && block.len() < BLOCK_BYTES {
                stock.draw(session, |drawing| self.make_row(made, &mut row, slots, drawing));
                row.write(block);
                made += 1;
            }
        };
        session.copy_in(statement, fill).await?;
        Ok(true)
    }

    /// Fill all fields of one row. Args: number, of the row in this COPY, from 0.
    fn make_row(&self, number: u64, row: &mut Row, slots: &Slots, drawing: &mut Drawing<'_>) {
        for of_row in &self.rows {
            let chosen = drawing.choose(of_row.keys, &of_row.access);
            for &(column, place) in &of_row.columns {
                row.set(place, |out| match chosen {
                    Chosen::Number(key) => key.write(out),
                    Chosen::Row(from) => push(drawing.column(of_row.keys, from, column), out),
                    Chosen::Nothing => false,
                });
            }
        }
        for (place, draw) in &self.draws {
            row.set(*place, |out| match draw {
                Draw::Copy { slot, .. } => push(slots.get(*slot).flatten(), out),
                Draw::Turn { offset } => (number as i64 + offset).write(out),
                draw => drawing.value(draw, out),
            });
        }
    }
}

/// Append a value to the text of a field; return false for null, as all writers of a field do.
fn push(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

impl Row {
    /// Replace a field. Args: write, which appends the text, and returns false for null.
    fn set(&mut self, place: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let (text, is_there) = &mut self.fields[place];
        text.clear();
        *is_there = write(text);
    }

    /// Append the row in the text format of COPY.
    fn write(&self, out: &mut Vec<u8>) {
        for (place, (text, is_there)) in self.fields.iter().enumerate() {
            if place > 0 {
                out.push(b'\t');
            }
            if !is_there {
                out.extend_from_slice(b"\\N");
                continue;
            }
            for &byte in text {
                match byte {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\r' => out.extend_from_slice(b"\\r"),
                    b'\t' => out.extend_from_slice(b"\\t"),
                    _ => out.push(byte),
                }
            }
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_text_format_of_copy() {
        let fields = [Some("a\tb\\c\r\n"), None, Some(""), Some("\\N"), Some("ü")];
        let fields = fields.map(|text| (text.unwrap_or_default().into(), text.is_some()));
        let mut out = Vec::new();
        Row { fields: fields.into() }.write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "a\\tb\\\\c\\r\\n\t\\N\t\t\\\\N\tü\n");
    }
}
