//! The values of one transaction: parameters that were sent, and columns that were returned.

use super::super::rows::Parameter;

/// Values by slot. A slot has a value, null, or nothing if its step was not executed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Returned values for other transactions, each with the place of its queue.
    pub(super) given: Vec<(usize, Box<[u8]>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nothing,
    Null,
    Value {
        begin: u32,
        length: u32,
    },
}

/// A value, or null.
pub(super) type Value<'a> = Option<&'a [u8]>;

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots {
            bytes: Vec::with_capacity(16 * count),
            places: vec![Place::Nothing; count],
            given: Vec::new(),
        }
    }

    /// Return the value of a slot; `None` if it has nothing.
    pub(super) fn get(&self, slot: usize) -> Option<Value<'_>> {
        match self.places[slot] {
            Place::Nothing => None,
            Place::Null => Some(None),
            Place::Value { begin, length } => {
                Some(Some(&self.bytes[begin as usize..(begin + length) as usize]))
            }
        }
    }

    pub(super) fn set(&mut self, slot: usize, value: Value<'_>) {
        self.places[slot] = match value {
            None => Place::Null,
            Some(value) => {
                let begin = self.bytes.len() as u32;
                self.bytes.extend_from_slice(value);
                Place::Value { begin, length: value.len() as u32 }
            }
        };
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.places[slot] = Place::Nothing;
    }

    /// Give a slot the value of another one.
    ///
    /// Returns: false if the other slot has nothing.
    pub(super) fn copy(&mut self, from: usize, to: usize) -> bool {
        self.places[to] = self.places[from];
        self.places[to] != Place::Nothing
    }

    /// Give a slot the text that `write` appends; null if it returns false.
    pub(super) fn write(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let begin = self.bytes.len() as u32;
        let is_there = write(&mut self.bytes);
        let length = self.bytes.len() as u32 - begin;
        self.places[slot] = if is_there { Place::Value { begin, length } } else { Place::Null };
    }
}

/// A value as an element of an array.
pub(super) struct Element(pub(super) Option<Vec<u8>>);

impl Parameter for Element {
    fn write(&self, out: &mut Vec<u8>) -> bool {
        self.0.as_ref().is_some_and(|value| {
            out.extend_from_slice(value);
            true
        })
    }
}

/// Append the text of a composite value. `write` appends one field; null if it returns false.
pub(super) fn write_record<T>(
    out: &mut Vec<u8>,
    fields: &[T],
    mut write: impl FnMut(&T, &mut Vec<u8>) -> bool,
) {
    out.push(b'(');
    for (number, field) in fields.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        let mut value = Vec::new();
        if write(field, &mut value) {
            out.push(b'"');
            for byte in value {
                let is_special = matches!(byte, b'"' | b'\\');
                out.extend_from_slice(if is_special { b"\\" } else { b"" });
                out.push(byte);
            }
            out.push(b'"');
        }
    }
    out.push(b')');
}

/// Return how many elements the text of an array has, which has one dimension.
pub(super) fn element_count(array: &[u8]) -> u64 {
    let inside = array.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    let Some(inside) = inside.filter(|inside| !inside.is_empty()) else { return 0 };
    let (mut commas, mut is_quoted, mut is_escaped) = (0, false, false);
    for &byte in inside {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => commas += 1,
            _ => {}
        }
    }
    commas + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_fields_in_quotes_and_nothing_for_null() {
        let mut out = Vec::new();
        write_record(&mut out, &[Some("a"), None, Some(r#"{"b": "\"}"#)], |field, value| {
            value.extend_from_slice(field.unwrap_or_default().as_bytes());
            field.is_some()
        });
        assert_eq!(String::from_utf8(out).unwrap(), r#"("a",,"{\"b\": \"\\\"}")"#);
    }

    #[test]
    fn elements_of_an_array_are_counted() {
        for (array, count) in
            [("{}", 0), ("{7}", 1), ("{7,NULL,9}", 3), (r#"{"a,b",c}"#, 2), (r#"{"a\",b",c}"#, 2)]
        {
            assert_eq!(element_count(array.as_bytes()), count, "{array}");
        }
    }

    #[test]
    fn a_slot_has_its_latest_value() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.get(0), None);
        assert!(!slots.copy(0, 1));
        slots.set(0, Some(b"seven"));
        slots.set(1, None);
        slots.set(0, Some(b"eight"));
        assert!(slots.copy(0, 2));
        assert_eq!((slots.get(0), slots.get(1)), (Some(Some(&b"eight"[..])), Some(None)));
        slots.write(0, |out| {
            out.extend_from_slice(b"9");
            true
        });
        assert_eq!(
            (slots.get(0), slots.get(2)),
            (Some(Some(&b"9"[..])), Some(Some(&b"eight"[..])))
        );
        slots.clear(0);
        assert_eq!(slots.get(0), None);
    }
}
