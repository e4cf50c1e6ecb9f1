//! The values of one transaction: parameters that were sent, and columns that were returned.

use super::step::{Counted, Number, Seen};
use crate::load::Take;
use pgdyno_engine::program::Parameter;

/// Values by slot. A slot has a value, null, or nothing if its step was not executed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    bytes: Vec<u8>,
    /// The latest value of each slot.
    places: Vec<Place>,
    /// The values of the turns before the latest one.
    earlier: Vec<Vec<Place>>,
    /// The turn whose values are written and read, from 0.
    pub(super) turn: usize,
    /// How many turns each step had.
    pub(super) turns: Vec<u64>,
    /// Returned values for other transactions, each with the place of its queue.
    pub(super) given: Vec<(usize, Box<[u8]>)>,
    /// Steps with a turn that changed no row.
    pub(super) missing: Vec<usize>,
    derived: Vec<u8>,
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
    /// Begin a transaction: no slot has a value. The memory of the transaction before is used
    /// again.
    pub(super) fn begin(&mut self, count: usize, steps: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, Place::Nothing);
        self.earlier.iter_mut().for_each(Vec::clear);
        self.earlier.resize_with(count.max(self.earlier.len()), Vec::new);
        self.turn = 0;
        self.turns.clear();
        self.turns.resize(steps, 0);
        self.given.clear();
        self.missing.clear();
    }

    /// Return the value of a slot in this turn; `None` if it has nothing. If the slot was written
    /// in fewer turns, it is that of the last one.
    pub(super) fn get(&self, slot: usize) -> Option<Value<'_>> {
        self.value(self.place(slot))
    }

    fn place(&self, slot: usize) -> Place {
        self.earlier[slot].get(self.turn).copied().unwrap_or(self.places[slot])
    }

    fn value(&self, place: Place) -> Option<Value<'_>> {
        match place {
            Place::Nothing => None,
            Place::Null => Some(None),
            Place::Value { begin, length } => {
                Some(Some(&self.bytes[begin as usize..(begin + length) as usize]))
            }
        }
    }

    fn put(&mut self, slot: usize, place: Place) {
        while self.earlier[slot].len() < self.turn {
            self.earlier[slot].push(self.places[slot]);
        }
        self.places[slot] = place;
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Place {
        let begin = self.bytes.len() as u32;
        let is_there = write(&mut self.bytes);
        let length = self.bytes.len() as u32 - begin;
        if is_there { Place::Value { begin, length } } else { Place::Null }
    }

    pub(super) fn set(&mut self, slot: usize, value: Value<'_>) {
        self.write(slot, |out| {
            out.extend_from_slice(value.unwrap_or_default());
            value.is_some()
        });
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.put(slot, Place::Nothing);
    }

    /// Give a slot the value of another one, or a part of it.
    ///
    /// Returns: false if the other slot has nothing.
    pub(super) fn copy(&mut self, from: usize, to: usize, take: Take) -> bool {
        match take {
            Take::Value => {
                let place = self.place(from);
                self.put(to, place);
                place != Place::Nothing
            }
            Take::Element => {
                let array = self.get(from).flatten().map(elements).unwrap_or_default();
                let Some(element) = array.into_iter().nth(self.turn) else { return false };
                self.set(to, element.0.as_deref());
                true
            }
            Take::All => {
                let values = self.all(Seen { slot: from, is_returned: false });
                self.write(to, |out| values.as_slice().write(out));
                !values.is_empty()
            }
        }
    }

    /// Give a slot the text that `write` appends; null if it returns false.
    pub(super) fn write(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let place = self.append(write);
        self.put(slot, place);
    }

    /// Give a slot a text that follows from the value of another one; null if that has none, or if
    /// `write` returns false.
    ///
    /// Returns: false if the other slot has nothing.
    pub(super) fn derive(
        &mut self,
        from: usize,
        to: usize,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> bool,
    ) -> bool {
        let mut derived = std::mem::take(&mut self.derived);
        derived.clear();
        let known = self.get(from);
        let is_there = known.flatten().is_some_and(|text| write(text, &mut derived));
        let is_known = known.is_some();
        if is_known {
            self.set(to, is_there.then_some(derived.as_slice()));
        }
        self.derived = derived;
        is_known
    }

    /// Cut arrays to the length of the shortest one: the server would fill it with NULL.
    pub(super) fn cut_to_shortest(&mut self, slots: &[usize]) {
        let of = |slot: &usize| self.get(*slot).flatten().map(elements);
        let Some(mut arrays) = slots.iter().map(of).collect::<Option<Vec<_>>>() else { return };
        let least = arrays.iter().map(Vec::len).min().unwrap_or(0);
        for (&slot, array) in slots.iter().zip(&mut arrays) {
            if array.len() > least {
                array.truncate(least);
                self.write(slot, |out| array.as_slice().write(out));
            }
        }
    }

    /// Return the values of all turns of a parameter, or those of all returned rows.
    pub(super) fn all(&self, of: Seen) -> Vec<Element> {
        if of.is_returned {
            return self.value(self.places[of.slot]).flatten().map(elements).unwrap_or_default();
        }
        let turns = self.earlier[of.slot].iter().chain([&self.places[of.slot]]);
        let values = turns.filter_map(|&place| self.value(place));
        values.map(|value| Element(value.map(Vec::from))).collect()
    }

    /// Append elements to the array in a slot, which has those of earlier turns.
    pub(super) fn extend(&mut self, slot: usize, more: Vec<Element>) {
        let known = self.value(self.places[slot]).flatten().map(elements).unwrap_or_default();
        let whole: Vec<_> = known.into_iter().chain(more).collect();
        self.places[slot] = self.append(|out| whole.as_slice().write(out));
    }

    /// Return a number that follows from the transaction so far; none is below 0.
    pub(super) fn number(&self, number: Number) -> u64 {
        let count = match number.of {
            Counted::Turns { step } => self.turns[step],
            Counted::Elements { slot } => {
                self.get(slot).flatten().map_or(0, |array| elements(array).len() as u64)
            }
        };
        count.saturating_add_signed(number.offset)
    }
}

/// A value as an element of an array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Append a JSON object. Args: bare, places of fields that are no texts.
pub(super) fn write_json(out: &mut Vec<u8>, names: &[String], fields: &[Element], bare: &[usize]) {
    let quoted = |text: &str| serde_json::Value::from(text).to_string().into_bytes();
    out.push(b'{');
    for (place, (name, Element(value))) in names.iter().zip(fields).enumerate() {
        out.extend_from_slice(if place > 0 { b", " } else { b"" });
        out.extend(quoted(name));
        out.extend_from_slice(b": ");
        match value {
            None => out.extend_from_slice(b"null"),
            Some(value) if bare.contains(&place) => out.extend_from_slice(value),
            Some(value) => out.extend(quoted(&String::from_utf8_lossy(value))),
        }
    }
    out.push(b'}');
}

/// Return the elements of the text of an array, which has one dimension.
pub(super) fn elements(array: &[u8]) -> Vec<Element> {
    let inside = array.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    let Some(inside) = inside.filter(|inside| !inside.is_empty()) else { return Vec::new() };
    let (mut read, mut text) = (Vec::new(), Vec::new());
    let (mut was_quoted, mut is_quoted, mut is_escaped) = (false, false, false);
    for &byte in inside.iter().chain(b",") {
        match byte {
            _ if is_escaped => {
                text.push(byte);
                is_escaped = false;
            }
            b'\\' => is_escaped = true,
            b'"' => {
                is_quoted = !is_quoted;
                was_quoted = true;
            }
            b',' if !is_quoted => {
                let is_null = !was_quoted && text.eq_ignore_ascii_case(b"NULL");
                let whole = std::mem::take(&mut text);
                read.push(Element((!is_null).then_some(whole)));
                was_quoted = false;
            }
            _ => text.push(byte),
        }
    }
    read
}

/// Sort elements, as numbers if all are.
pub(super) fn sort(elements: &mut [Element]) {
    let number = |element: &Element| -> Option<i64> {
        std::str::from_utf8(element.0.as_deref()?).ok()?.parse().ok()
    };
    match elements.iter().all(|element| number(element).is_some()) {
        true => elements.sort_by_key(number),
        false => elements.sort(),
    }
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
    fn a_json_object_has_its_texts_in_quotes_and_other_values_as_they_are() {
        let mut out = Vec::new();
        let names = ["id", "words", "number", "none"].map(String::from);
        let fields = array(&[Some("17"), Some("a \"b\""), Some("8"), None]);
        write_json(&mut out, &names, &fields, &[2]);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, r#"{"id": "17", "words": "a \"b\"", "number": 8, "none": null}"#);
    }

    fn array(texts: &[Option<&str>]) -> Vec<Element> {
        texts.iter().map(|text| Element(text.map(|text| text.as_bytes().to_vec()))).collect()
    }

    #[test]
    fn elements_of_an_array_are_read() {
        for (text, read) in [
            ("{}", vec![]),
            ("{7}", vec![Some("7")]),
            ("{7,NULL,9}", vec![Some("7"), None, Some("9")]),
            (r#"{"a,b",c,"NULL"}"#, vec![Some("a,b"), Some("c"), Some("NULL")]),
            (r#"{"a\",b",c}"#, vec![Some("a\",b"), Some("c")]),
        ] {
            assert_eq!(elements(text.as_bytes()), array(&read), "{text}");
        }
    }

    #[test]
    fn elements_are_sorted_as_numbers_if_all_are() {
        for (given, sorted) in [(["10", "9"], ["9", "10"]), (["b", "10"], ["10", "b"])] {
            let mut elements = array(&given.map(Some));
            sort(&mut elements);
            assert_eq!(elements, array(&sorted.map(Some)));
        }
    }

    #[test]
    fn a_slot_has_the_value_of_each_turn() {
        let mut slots = Slots::default();
        slots.begin(3, 1);
        for (turn, value) in ["a", "b"].into_iter().enumerate() {
            slots.turn = turn;
            slots.set(0, Some(value.as_bytes()));
        }
        let mut read = Vec::new();
        for turn in 0..3 {
            slots.turn = turn;
            read.push(slots.get(0).flatten().unwrap().to_vec());
        }
        assert_eq!(read, [b"a", b"b", b"b"]);
        slots.turn = 0;
        assert!(slots.copy(0, 1, Take::All));
        assert_eq!(elements(slots.get(1).flatten().unwrap()), array(&[Some("a"), Some("b")]));
        slots.turn = 1;
        assert!(slots.copy(1, 2, Take::Element));
        assert_eq!(slots.get(2), Some(Some(&b"b"[..])));
        slots.turn = 2;
        assert!(!slots.copy(1, 2, Take::Element));
    }

    #[test]
    fn arrays_side_by_side_are_cut_to_the_shortest_one() {
        let mut slots = Slots::default();
        slots.begin(3, 1);
        for (slot, text) in [(0, "{7,8,9}"), (1, r#"{"a","b"}"#), (2, "{1}")] {
            slots.set(slot, Some(text.as_bytes()));
        }
        slots.cut_to_shortest(&[0, 1]);
        let array = |slot| elements(slots.get(slot).flatten().unwrap()).len();
        assert_eq!([0, 1, 2].map(array), [2, 2, 1]);
    }

    #[test]
    fn a_slot_has_its_latest_value() {
        let mut slots = Slots::default();
        slots.begin(3, 1);
        assert_eq!(slots.get(0), None);
        assert!(!slots.copy(0, 1, Take::Value));
        slots.set(0, Some(b"seven"));
        slots.set(1, None);
        slots.set(0, Some(b"eight"));
        assert!(slots.copy(0, 2, Take::Value));
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

    #[test]
    fn a_new_transaction_has_no_value_of_the_one_before() {
        let mut slots = Slots::default();
        slots.begin(2, 1);
        for (turn, value) in ["a", "b"].into_iter().enumerate() {
            slots.turn = turn;
            slots.set(0, Some(value.as_bytes()));
        }
        slots.turns[0] = 2;
        slots.given.push((0, Box::from(*b"a")));
        slots.begin(3, 2);
        assert_eq!((slots.get(0), slots.get(2), slots.turn), (None, None, 0));
        assert!(!slots.copy(0, 1, Take::All));
        assert_eq!((slots.turns.as_slice(), slots.given.len()), (&[0, 0][..], 0));
    }
}
