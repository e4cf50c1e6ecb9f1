//! Typed parameters and result columns of native programs, in PostgreSQL's text format. Columns are
//! read from the buffer of the reply; only values that own memory, such as `String`, allocate.

use std::io::Write;

use pgdyno_wire::messages;

use crate::outcome::{FailureCode, Stopped};

/// A result that the program does not expect: another number of rows or columns, or a value of
/// another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

impl From<Unexpected> for Stopped {
    fn from(_: Unexpected) -> Stopped {
        Stopped::Failed(FailureCode::UnexpectedRows)
    }
}

/// A value for a parameter of a statement.
pub trait Parameter {
    /// Append the text of the value.
    ///
    /// Returns: false for null, with nothing appended.
    fn write(&self, out: &mut Vec<u8>) -> bool;

    /// True if the text has only digits, points and signs, so that it needs no quotes in an array.
    fn is_number(&self) -> bool {
        false
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Parameter for $kind {
            fn write(&self, out: &mut Vec<u8>) -> bool {
                out.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
                true
            }

            fn is_number(&self) -> bool {
                true
            }
        }
    )*};
}
integers!(i16, i32, i64, u32, u64);

impl Parameter for f64 {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        write!(out, "{self}").is_ok()
    }
}

impl Parameter for str {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.as_bytes());
        true
    }
}

impl Parameter for String {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        self.as_str().write(out)
    }
}

impl<P: Parameter + ?Sized> Parameter for &P {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        (**self).write(out)
    }
}

impl<P: Parameter> Parameter for Option<P> {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        self.as_ref().is_some_and(|value| value.write(out))
    }
}

/// A number with two decimals, such as an amount of money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cents(pub i64);

impl Parameter for Cents {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        if self.0 < 0 {
            out.push(b'-');
        }
        let cents = self.0.unsigned_abs();
        out.extend_from_slice(itoa::Buffer::new().format(cents / 100).as_bytes());
        let behind = (cents % 100) as u8;
        out.extend_from_slice(&[b'.', b'0' + behind / 10, b'0' + behind % 10]);
        true
    }

    fn is_number(&self) -> bool {
        true
    }
}

impl FromText for Cents {
    fn from_text(text: Option<&[u8]>) -> Result<Self, Unexpected> {
        let text = std::str::from_utf8(text.ok_or(Unexpected)?).map_err(|_| Unexpected)?;
        let (whole, behind) = text.split_once('.').ok_or(Unexpected)?;
        if behind.len() != 2 {
            return Err(Unexpected);
        }
        let number = |text: &str| text.parse::<i64>().map_err(|_| Unexpected);
        let (units, cents) = (number(whole)?, number(behind)?);
        let sign = if whole.starts_with('-') { -1 } else { 1 };
        Ok(Cents(units * 100 + sign * cents))
    }
}

/// An array, such as `{1,2,3}`.
impl<P: Parameter> Parameter for [P] {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        out.push(b'{');
        for (place, value) in self.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            let begin = out.len();
            if value.write(out) {
                if !value.is_number() {
                    quote_element(out, begin);
                }
            } else {
                out.extend_from_slice(b"NULL");
            }
        }
        out.push(b'}');
        true
    }
}

/// Quote the text that begins at `begin`, unless it has only letters, digits, points and signs.
fn quote_element(out: &mut Vec<u8>, begin: usize) {
    let element = &out[begin..];
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
    let is_null = element.eq_ignore_ascii_case(b"null");
    if !element.is_empty() && !is_null && element.iter().all(is_plain) {
        return;
    }
    let element = out.split_off(begin);
    out.push(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

impl<P: Parameter> Parameter for Vec<P> {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        self.as_slice().write(out)
    }
}

/// A type that the text of a column can be read as.
pub trait FromText: Sized {
    /// Errors: the text is not a value of the type, or the column is null (`None`) and the type has
    /// no null.
    fn from_text(text: Option<&[u8]>) -> Result<Self, Unexpected>;
}

macro_rules! parsed {
    ($($kind:ty),*) => {$(
        impl FromText for $kind {
            fn from_text(text: Option<&[u8]>) -> Result<Self, Unexpected> {
                let text = std::str::from_utf8(text.ok_or(Unexpected)?).map_err(|_| Unexpected)?;
                text.parse().map_err(|_| Unexpected)
            }
        }
    )*};
}
parsed!(i16, i32, i64, u32, u64, f64, String);

impl FromText for bool {
    fn from_text(text: Option<&[u8]>) -> Result<Self, Unexpected> {
        match text {
            Some(b"t") => Ok(true),
            Some(b"f") => Ok(false),
            _ => Err(Unexpected),
        }
    }
}

/// A column that is not used.
impl FromText for () {
    fn from_text(_: Option<&[u8]>) -> Result<Self, Unexpected> {
        Ok(())
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: Option<&[u8]>) -> Result<Self, Unexpected> {
        text.map(|text| T::from_text(Some(text))).transpose()
    }
}

/// A row as a tuple of its columns.
pub trait FromRow: Sized {
    fn from_row(columns: &mut Columns<'_>) -> Result<Self, Unexpected>;
}

macro_rules! tuples {
    ($(($($kind:ident)+))+) => {$(
        impl<$($kind: FromText),+> FromRow for ($($kind,)+) {
            fn from_row(columns: &mut Columns<'_>) -> Result<Self, Unexpected> {
                Ok(($($kind::from_text(columns.next()?)?,)+))
            }
        }
    )+};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) }

/// The columns of a row, one after another.
#[derive(Debug)]
pub struct Columns<'a> {
    left: u16,
    rest: &'a [u8],
}

impl<'a> Columns<'a> {
    fn new(body: &'a [u8]) -> Result<Columns<'a>, Unexpected> {
        let (count, rest) = body.split_first_chunk::<2>().ok_or(Unexpected)?;
        Ok(Columns { left: u16::from_be_bytes(*count), rest })
    }

    fn next(&mut self) -> Result<Option<&'a [u8]>, Unexpected> {
        self.left = self.left.checked_sub(1).ok_or(Unexpected)?;
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or(Unexpected)?;
        self.rest = rest;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Ok(None) };
        let (value, rest) = self.rest.split_at_checked(length).ok_or(Unexpected)?;
        self.rest = rest;
        Ok(Some(value))
    }
}

/// The results of the statements that were sent, in the order of the statements.
#[derive(Debug)]
pub struct Rows {
    captured: Vec<u8>,
    at: usize,
}

impl Rows {
    pub(super) fn new(captured: Vec<u8>) -> Rows {
        Rows { captured, at: 0 }
    }

    pub(super) fn into_memory(self) -> Vec<u8> {
        self.captured
    }

    /// Return the row of the next statement, which has exactly one.
    pub fn one<T: FromRow>(&mut self) -> Result<T, Unexpected> {
        let row = self.next_row()?.ok_or(Unexpected)?;
        match self.next_row::<T>()? {
            None => Ok(row),
            Some(_) => Err(Unexpected),
        }
    }

    /// Return the row of the next statement, which has at most one.
    pub fn maybe_one<T: FromRow>(&mut self) -> Result<Option<T>, Unexpected> {
        let Some(row) = self.next_row()? else { return Ok(None) };
        match self.next_row::<T>()? {
            None => Ok(Some(row)),
            Some(_) => Err(Unexpected),
        }
    }

    /// Return the next row of the current statement. After its last row return None and go on to
    /// the statement after it.
    pub fn next_row<T: FromRow>(&mut self) -> Result<Option<T>, Unexpected> {
        while let Some(message) = messages(&self.captured[self.at..]).next() {
            self.at += 5 + message.body.len();
            match message.tag {
                b'D' => return T::from_row(&mut Columns::new(message.body)?).map(Some),
                b'C' => return Ok(None),
                _ => {}
            }
        }
        Err(Unexpected)
    }

    /// Read the next row of the current statement, column by column. After its last row return
    /// false and go on to the statement after it.
    ///
    /// Args: `read` gets the place of a column, from 0, and its value; `None` is null.
    pub fn next_columns(
        &mut self,
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<bool, Unexpected> {
        while let Some(message) = messages(&self.captured[self.at..]).next() {
            self.at += 5 + message.body.len();
            match message.tag {
                b'D' => {
                    let mut columns = Columns::new(message.body)?;
                    for place in 0..usize::from(columns.left) {
                        read(place, columns.next()?);
                    }
                    return Ok(true);
                }
                b'C' => return Ok(false),
                _ => {}
            }
        }
        Err(Unexpected)
    }

    /// Return the number of rows that the next statement read or wrote, and skip the rows.
    pub fn count(&mut self) -> Result<u64, Unexpected> {
        while let Some(message) = messages(&self.captured[self.at..]).next() {
            self.at += 5 + message.body.len();
            if message.tag == b'C' {
                // Examples: "INSERT 0 1", "UPDATE 3", "SELECT 5"; "COMMIT" has no number.
                let word = message.body.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
                let digits = word.strip_suffix(b"\0").unwrap_or(word);
                let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
                return Ok(number.unwrap_or(0));
            }
        }
        Err(Unexpected)
    }

    /// Check that the next statement wrote exactly `count` rows.
    pub fn wrote(&mut self, count: u64) -> Result<(), Unexpected> {
        if self.count()? == count { Ok(()) } else { Err(Unexpected) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |text| text.len() as i32);
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(value.unwrap_or_default().as_bytes());
        }
        message(b'D', &body)
    }

    #[test]
    fn rows_are_read_by_statement_as_tuples() {
        let captured = [
            message(b'T', b"\0\0"),
            row(&[Some("7"), Some("grün"), None]),
            message(b'C', b"SELECT 1\0"),
            message(b'C', b"UPDATE 3\0"),
            row(&[Some("1.25"), Some("t")]),
            row(&[Some("-2"), Some("f")]),
            message(b'C', b"SELECT 2\0"),
        ];
        let mut rows = Rows::new(captured.concat());
        let first: (i32, String, Option<i64>) = rows.one().unwrap();
        assert_eq!(first, (7, "grün".to_owned(), None));
        assert_eq!(rows.count(), Ok(3));
        assert_eq!(rows.next_row::<(f64, bool)>(), Ok(Some((1.25, true))));
        assert_eq!(rows.next_row::<(f64, bool)>(), Ok(Some((-2.0, false))));
        assert_eq!(rows.next_row::<(f64, bool)>(), Ok(None));
        assert_eq!(rows.next_row::<(f64,)>(), Err(Unexpected));
    }

    #[test]
    fn money_is_read_with_its_sign_and_two_digits() {
        let read = |text: &str| Cents::from_text(Some(text.as_bytes()));
        assert_eq!(read("12.34"), Ok(Cents(1234)));
        assert_eq!(read("-0.05"), Ok(Cents(-5)));
        assert_eq!(read("-3.10"), Ok(Cents(-310)));
        for text in ["12", "1.234", "x.10", ""] {
            assert_eq!(read(text), Err(Unexpected), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_unexpected() {
        let one_row = |values: &[Option<&str>]| {
            Rows::new([row(values), message(b'C', b"SELECT 1\0")].concat())
        };
        assert_eq!(one_row(&[Some("x")]).one::<(i32,)>(), Err(Unexpected));
        assert_eq!(one_row(&[None]).one::<(i32,)>(), Err(Unexpected));
        assert_eq!(one_row(&[Some("1")]).one::<(i32, i32)>(), Err(Unexpected));
        assert_eq!(Rows::new(message(b'C', b"SELECT 0\0")).one::<(i32,)>(), Err(Unexpected));
        assert_eq!(Rows::new(message(b'C', b"SELECT 0\0")).maybe_one::<(i32,)>(), Ok(None));
        let two = [row(&[Some("1")]), row(&[Some("2")]), message(b'C', b"SELECT 2\0")].concat();
        assert_eq!(Rows::new(two).one::<(i32,)>(), Err(Unexpected));
    }

    #[test]
    fn parameters_are_written_as_postgresql_reads_them() {
        let text = |parameter: &dyn Parameter| {
            let mut out = Vec::new();
            parameter.write(&mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(text(&-5_i32).as_deref(), Some("-5"));
        assert_eq!(text(&12.5_f64).as_deref(), Some("12.5"));
        assert_eq!(text(&"O'Hara").as_deref(), Some("O'Hara"));
        assert_eq!(text(&vec![1, 2, 3]).as_deref(), Some("{1,2,3}"));
        assert_eq!(text(&vec![Some(1), None]).as_deref(), Some("{1,NULL}"));
        let odd = vec!["a1", "", "null", "a,b", "q\"\\"];
        let quoted = r#"{a1,"","null","a,b","q\"\\"}"#;
        assert_eq!(text(&odd).as_deref(), Some(quoted));
        assert_eq!(text(&vec![Cents(1234), Cents(-5)]).as_deref(), Some("{12.34,-0.05}"));
        assert_eq!(text(&None::<i32>), None);
    }
}
