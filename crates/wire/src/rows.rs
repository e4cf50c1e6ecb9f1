//! Reads captured rows: names of columns, and values in text format.

use std::fmt;

use crate::frame::Message;

/// The counts or lengths of a RowDescription or DataRow do not fit its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowError;

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row of the server is malformed")
    }
}

impl std::error::Error for RowError {}

/// Return the messages in `Reply::captured`.
pub fn messages(mut captured: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = captured.split_first_chunk::<5>()?;
        let [tag, length @ ..] = *head;
        let (body, rest) =
            rest.split_at_checked((u32::from_be_bytes(length) as usize).checked_sub(4)?)?;
        captured = rest;
        Some(Message { tag, body })
    })
}

/// Return the column names of a RowDescription body.
pub fn columns(body: &[u8]) -> Result<Vec<String>, RowError> {
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or(RowError)?;
    let mut names = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|&byte| byte == 0).ok_or(RowError)?;
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        // After the name: table, column, type, size, modifier, format.
        rest = rest.get(end + 1 + 18..).ok_or(RowError)?;
    }
    Ok(names)
}

/// Return the values of a DataRow body; `None` = NULL.
pub fn values(body: &[u8]) -> Result<Vec<Option<&[u8]>>, RowError> {
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or(RowError)?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(RowError)?;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            values.push(None);
            rest = after;
            continue;
        }
        let length = usize::try_from(length).map_err(|_| RowError)?;
        let (value, after) = after.split_at_checked(length).ok_or(RowError)?;
        values.push(Some(value));
        rest = after;
    }
    Ok(values)
}
