//! Results that a file lists, so that a native program runs without a database.

use crate::reply;

/// How many rows a result has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    Times(usize),
    /// One for each element of the array in this parameter, counted from 0.
    Elements(usize),
}

/// The result of every statement whose text contains `needle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canned {
    needle: Box<str>,
    repeat: Repeat,
    /// The columns of each row: None is NULL, `@` the element. Empty: the statement returns no
    /// rows, and only its tag has their number.
    columns: Vec<Option<Box<str>>>,
}

impl Canned {
    /// Read the lines of a file: text of the statement, number of rows or `$n`, columns. Tabs stand
    /// between the three, bars between the columns; `\N` is NULL.
    ///
    /// Errors: the line that cannot be read.
    pub fn read(text: &str) -> Result<Vec<Canned>, String> {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| Canned::read_line(line).ok_or_else(|| line.to_owned())).collect()
    }

    fn read_line(line: &str) -> Option<Canned> {
        let mut parts = line.split('\t');
        let (needle, repeat) = (parts.next()?.into(), parts.next()?);
        let repeat = match repeat.strip_prefix('$') {
            Some(number) => Repeat::Elements(number.parse::<usize>().ok()?.checked_sub(1)?),
            None => Repeat::Times(repeat.parse().ok()?),
        };
        let columns = parts.next().map_or(Vec::new(), |columns| {
            let value = |column: &str| (column != "\\N").then(|| column.into());
            columns.split('|').map(value).collect()
        });
        Some(Canned { needle, repeat, columns })
    }

    /// Whether it is the result of this statement.
    pub fn answers(&self, statement: &str) -> bool {
        statement.contains(&*self.needle)
    }

    /// Append what Describe is answered with.
    pub fn describe(&self, out: &mut Vec<u8>) {
        match self.columns.len() {
            0 => reply::bare(out, b'n'),
            count => reply::row_description(out, &vec!["c"; count], 25, -1),
        }
    }

    /// Append the rows.
    ///
    /// Args: `tail`, the Bind message after its two names. Returns: how many rows there are.
    pub fn rows(&self, tail: &[u8], out: &mut Vec<u8>) -> usize {
        let array = match self.repeat {
            Repeat::Times(count) => {
                (0..count).for_each(|_| self.row("", out));
                return count;
            }
            Repeat::Elements(place) => parameter(tail, place).unwrap_or_default(),
        };
        let inner = array.trim_matches(['{', '}']);
        let elements = inner.split(',').filter(|element| !element.is_empty());
        elements.map(|element| self.row(element, out)).count()
    }

    fn row(&self, element: &str, out: &mut Vec<u8>) {
        if self.columns.is_empty() {
            return;
        }
        let value = |column: &'_ Option<Box<str>>| -> Option<Vec<u8>> {
            column.as_deref().map(|text| if text == "@" { element } else { text }.into())
        };
        let values: Vec<Option<Vec<u8>>> = self.columns.iter().map(value).collect();
        let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
        reply::data_row(out, &values);
    }
}

/// The text of a parameter (formats, values, result formats of a Bind message).
fn parameter(tail: &[u8], place: usize) -> Option<&str> {
    let u16_at = |at: usize| Some(u16::from_be_bytes([*tail.get(at)?, *tail.get(at + 1)?]));
    let mut at = 4 + 2 * usize::from(u16_at(0)?);
    let mut value = None;
    for _ in 0..=place {
        let length = i32::from_be_bytes(tail.get(at..at + 4)?.try_into().ok()?);
        let end = at + 4 + usize::try_from(length).unwrap_or(0);
        value = tail.get(at + 4..end);
        at = end;
    }
    std::str::from_utf8(value?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Bind's tail with one text parameter.
    fn bound(value: &str) -> Vec<u8> {
        let length = (value.len() as u32).to_be_bytes();
        [&[0, 0, 0, 1], &length[..], value.as_bytes(), &[0, 0]].concat()
    }

    #[test]
    fn a_row_is_made_for_each_element_of_an_array() {
        let canned = &Canned::read("FROM item\t$1\t@|9.99|\\N").unwrap()[0];
        assert!(canned.answers("SELECT a FROM item WHERE i = ANY ($1)"));
        let (mut rows, mut expected) = (Vec::new(), Vec::new());
        assert_eq!(canned.rows(&bound("{7,12}"), &mut rows), 2);
        for element in ["7", "12"] {
            reply::data_row(&mut expected, &[Some(element.as_bytes()), Some(b"9.99"), None]);
        }
        assert_eq!(rows, expected);
        assert_eq!(canned.rows(&bound("{}"), &mut rows), 0);
    }

    #[test]
    fn a_result_without_columns_has_only_a_number() {
        let canned = &Canned::read("INSERT INTO order_line\t$1\n").unwrap()[0];
        let mut out = Vec::new();
        assert_eq!(canned.rows(&bound("{1,2,3}"), &mut out), 3);
        assert!(out.is_empty());
        assert_eq!(Canned::read("no number\tx\t1"), Err("no number\tx\t1".to_owned()));
    }
}
