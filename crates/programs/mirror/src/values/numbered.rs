//! The values of one distribution, numbered in ascending order.

use std::fmt::{Debug, Formatter, Result};

use pgdyno_script::Prng;

use super::places::Places;
use super::segments::Segments;

/// Number of places for random draws. A value that is rarer than one in this number is not drawn.
const DRAWN_PLACES: u64 = 1 << 46;

/// The values of one distribution.
#[derive(Debug)]
pub struct Values {
    null_fraction: f64,
    segments: Segments,
    writer: Writer,
    drawn: Places,
}

/// A value that is not common.
#[derive(Debug)]
pub(super) struct Rare {
    pub(super) number: u64,
    pub(super) bin: u32,
    /// Where it is on the scale of its bin.
    pub(super) position: i64,
    /// The number of different values.
    pub(super) count: u64,
}

/// Appends the text of a value.
type Write = dyn Fn(&Rare, &mut Vec<u8>) + Send + Sync;

/// Makes the text of a value that is not common. Common values are in `Segments`.
pub(super) struct Writer(Box<Write>);

impl Writer {
    pub(super) fn new(write: impl Fn(&Rare, &mut Vec<u8>) + Send + Sync + 'static) -> Writer {
        Writer(Box::new(write))
    }
}

impl Debug for Writer {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.write_str("Writer")
    }
}

impl Values {
    pub(super) fn of(null_fraction: f64, segments: Segments, writer: Writer) -> Values {
        let drawn = Places::new(&segments, DRAWN_PLACES);
        Values { null_fraction, segments, writer, drawn }
    }

    /// The share of NULL.
    pub fn null_fraction(&self) -> f64 {
        self.null_fraction
    }

    /// The number of different values.
    pub fn count(&self) -> u64 {
        self.segments.count()
    }

    /// Places for `rows` rows that are not NULL.
    pub fn places(&self, rows: u64) -> Places {
        Places::new(&self.segments, rows)
    }

    /// The share of pairs of rows, and of three rows, that have the same value: the sums of the
    /// squared and of the cubed frequencies.
    pub fn repetition(&self, rows: u64) -> (f64, f64) {
        self.segments.repetition(rows)
    }

    /// Append the text of a random value, as frequent as the distribution says.
    ///
    /// Returns: false, with nothing appended, for NULL.
    pub fn draw(&self, random: &mut Prng, out: &mut Vec<u8>) -> bool {
        if self.null_fraction > 0.0 && random.unit() < self.null_fraction {
            return false;
        }
        self.write(self.drawn.number_at(random.next_u64() >> 18), out);
        true
    }

    /// A random value's number, as frequent as the distribution says. NULL is never drawn.
    pub fn draw_number(&self, random: &mut Prng) -> u64 {
        self.drawn.number_at(random.next_u64() >> 18)
    }

    /// Append the text of the value at this share (0..1) of the rows in ascending order.
    ///
    /// Returns: false, with nothing appended, if all values are NULL.
    pub fn write_at_share(&self, share: f64, out: &mut Vec<u8>) -> bool {
        let is_there = self.null_fraction < 1.0;
        if is_there {
            self.write(self.number_at_share(share), out);
        }
        is_there
    }

    /// The number of the value at this share (0..1) of the rows in ascending order.
    pub(super) fn number_at_share(&self, share: f64) -> u64 {
        self.drawn.number_at((share.clamp(0.0, 1.0) * (DRAWN_PLACES - 1) as f64) as u64)
    }

    /// The share (0..1) of the rows whose values have smaller numbers.
    pub(super) fn share_before(&self, number: u64) -> f64 {
        let (mut low, mut high) = (0, DRAWN_PLACES);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.drawn.number_at(middle) < number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as f64 / DRAWN_PLACES as f64
    }

    /// The value with this number, of the kind `integer`; 0 for a negative one.
    pub fn value(&self, number: u64) -> u64 {
        let number = number.min(self.count().saturating_sub(1));
        let segment = self.segments.of_number(number);
        let hot = self.segments.hot_text(segment);
        match hot.and_then(|text| std::str::from_utf8(text).ok()) {
            Some(text) => text.parse().unwrap_or(0),
            None => segment.position(number - segment.first).try_into().unwrap_or(0),
        }
    }

    /// Append the text of the value with this number. A number above the last is the last value.
    #[inline]
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let number = number.min(self.segments.count().saturating_sub(1));
        let segment = self.segments.of_number(number);
        if let Some(text) = self.segments.hot_text(segment) {
            out.extend_from_slice(text);
            return;
        }
        let position = segment.position(number - segment.first);
        let rare = Rare { number, bin: segment.bin, position, count: self.count() };
        self.writer.0(&rare, out);
    }
}
