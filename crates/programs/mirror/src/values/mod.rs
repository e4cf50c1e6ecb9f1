//! Values with a given distribution, as text: rows of a rebuilt table, parameters of statements.
//!
//! The values of a distribution are numbered from 0 in ascending order, and number and distribution
//! alone decide the text of a value. Therefore a parameter that is drawn from the distribution of a
//! column finds the rows of this column. [`Places`] spreads the values over rows: row `n` of a
//! sorted table has the value with number `places.number_at(n)`, and each value has as many rows as
//! its frequency asks for.

pub(crate) mod calendar;
mod compound;
mod filler;
mod places;
mod scale;
mod segments;
mod texts;

pub use self::places::Places;
pub use crate::distribution::{Distribution, Hot, Spread, ValueKind};

use pgdyno_script::Prng;

use self::compound::{Arrays, Documents, Ranges};
use self::scale::Scale;
use self::segments::Segments;
use self::texts::Texts;

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

/// Makes the text of a value that is not common. Common values are in `Segments`.
#[derive(Debug)]
enum Writer {
    Scale(Scale),
    Texts(Box<Texts>),
    Documents(Documents),
    Arrays(Box<Arrays>),
    Ranges(Box<Ranges>),
    Rank(Box<Values>),
    /// The listed texts, unchanged.
    Listed(Vec<String>),
}

impl Values {
    /// Prepare the values of `distribution`.
    ///
    /// Errors: the reason why no value can be made, such as a kind without bounds.
    pub fn new(distribution: &Distribution) -> Result<Values, String> {
        let null_fraction = distribution.null_fraction;
        if !(0.0..=1.0).contains(&null_fraction) {
            return Err(format!("null_fraction must be 0 to 1, got {null_fraction}"));
        }
        if !(0.0..=1e18).contains(&distribution.distinct) {
            return Err(format!("distinct must be 0 to 1e18, got {}", distribution.distinct));
        }
        if let Some(hot) = distribution.hot.iter().find(|hot| !(0.0..=1.0).contains(&hot.fraction))
        {
            return Err(format!("the fraction of a common value must be 0 to 1, got {hot:?}"));
        }
        let (segments, writer) = made(distribution)?;
        let drawn = Places::new(&segments, DRAWN_PLACES);
        Ok(Values { null_fraction, segments, writer, drawn })
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
    fn number_at_share(&self, share: f64) -> u64 {
        self.drawn.number_at((share.clamp(0.0, 1.0) * (DRAWN_PLACES - 1) as f64) as u64)
    }

    /// The share (0..1) of the rows whose values have smaller numbers.
    fn share_before(&self, number: u64) -> f64 {
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
        match &self.writer {
            Writer::Scale(scale) => scale.write(position, number, out),
            Writer::Texts(texts) => texts.write(segment.bin, position, number, out),
            Writer::Documents(documents) => documents.write(number, self.count(), out),
            Writer::Arrays(arrays) => arrays.write(number, self.count(), out),
            Writer::Ranges(ranges) => ranges.write(position, number, out),
            Writer::Rank(of) => of.write(position as u64, out),
            Writer::Listed(listed) => {
                let place = u128::from(number) * listed.len() as u128;
                let index = (place / u128::from(self.segments.count().max(1))) as usize;
                out.extend_from_slice(listed[index.min(listed.len() - 1)].as_bytes());
            }
        }
    }
}

fn made(distribution: &Distribution) -> Result<(Segments, Writer), String> {
    Ok(match distribution.kind {
        ValueKind::Text => {
            let (segments, texts) = Texts::of(distribution);
            (segments, Writer::Texts(Box::new(texts)))
        }
        ValueKind::Json => {
            let segments = Segments::unordered(distribution);
            (segments, Writer::Documents(Documents::of(distribution)))
        }
        ValueKind::Array => {
            let arrays = Arrays::of(distribution)?;
            (arrays.segments(distribution), Writer::Arrays(Box::new(arrays)))
        }
        ValueKind::Range => {
            let ranges = Ranges::of(distribution)?;
            (ranges.segments(distribution), Writer::Ranges(Box::new(ranges)))
        }
        ValueKind::Other => {
            if distribution.bounds.is_empty() && distribution.hot.is_empty() {
                return Err("its values are not known".into());
            }
            let listed = match distribution.bounds.is_empty() {
                true => distribution.hot.iter().map(|hot| hot.value.clone()).collect(),
                false => distribution.bounds.clone(),
            };
            (Segments::unordered(distribution), Writer::Listed(listed))
        }
        ValueKind::Rank => {
            let of = distribution.element.as_deref().ok_or("a rank needs `element`")?;
            let of = Values::new(of)?;
            let scale = Scale::of(distribution);
            let segments = Segments::on_scale(distribution, &scale);
            let segments = segments.with_hot_texts(|number, out| {
                of.write(number.parse().unwrap_or(0), out);
            });
            (segments, Writer::Rank(Box::new(of)))
        }
        _ => {
            let scale = Scale::of(distribution);
            (Segments::on_scale(distribution, &scale), Writer::Scale(scale))
        }
    })
}

/// Mix all bits of a number: SplitMix64's last step.
#[inline]
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number from 0 (included) to 1 (excluded) that depends on `number` alone.
#[inline]
fn unit_of(number: u64) -> f64 {
    (mixed(number) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A length for the value with this number: between `least` and `most`, `mean` on average.
#[inline]
fn length_of(spread: &Spread, number: u64) -> f64 {
    let Spread { least, mean, most } = *spread;
    // Two uniform halves, below and above the mean, with weights that give the mean.
    let (below, above) = ((mean - least).max(0.0), (most - mean).max(0.0));
    if below + above == 0.0 {
        return mean;
    }
    let unit = unit_of(number);
    // The mean of the lower half lies `below / 2` under the mean, of the upper `above / 2` over it.
    let share_below = above / (below + above);
    match unit < share_below {
        true => least + below * unit / share_below,
        false => mean + above * (unit - share_below) / (1.0 - share_below),
    }
}

#[cfg(test)]
mod tests;
