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
mod mixing;
mod numbered;
mod places;
mod scale;
mod segments;
mod texts;

pub use self::numbered::Values;
pub use self::places::Places;
pub use crate::distribution::{Distribution, Hot, Spread, ValueKind};

use self::compound::{Arrays, Documents, Ranges};
use self::numbered::{Rare, Writer};
use self::scale::Scale;
use self::segments::Segments;
use self::texts::Texts;

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
        Ok(Values::of(null_fraction, segments, writer))
    }
}

fn made(distribution: &Distribution) -> Result<(Segments, Writer), String> {
    Ok(match distribution.kind {
        ValueKind::Text => {
            let words = distribution.element.as_deref().and_then(|words| Values::new(words).ok());
            let (segments, texts) = Texts::of(distribution, words);
            let write =
                move |at: &Rare, out: &mut _| texts.write(at.bin, at.position, at.number, out);
            (segments, Writer::new(write))
        }
        ValueKind::Json => {
            let segments = Segments::unordered(distribution);
            let documents = Documents::of(distribution);
            (segments, Writer::new(move |at, out| documents.write(at.number, at.count, out)))
        }
        ValueKind::Array => {
            let element = distribution.element.as_deref().ok_or("an array needs `element`")?;
            let arrays = Arrays::of(distribution, element.kind, Values::new(element)?);
            let segments = arrays.segments(distribution);
            (segments, Writer::new(move |at, out| arrays.write(at.number, at.count, out)))
        }
        ValueKind::Range => {
            let ranges = Ranges::of(distribution)?;
            let segments = ranges.segments(distribution);
            (segments, Writer::new(move |at, out| ranges.write(at.position, at.number, out)))
        }
        ValueKind::Other => {
            if distribution.bounds.is_empty() && distribution.hot.is_empty() {
                return Err("its values are not known".into());
            }
            let listed: Vec<String> = match distribution.bounds.is_empty() {
                true => distribution.hot.iter().map(|hot| hot.value.clone()).collect(),
                false => distribution.bounds.clone(),
            };
            let write = move |at: &Rare, out: &mut Vec<u8>| {
                let place = u128::from(at.number) * listed.len() as u128;
                let index = (place / u128::from(at.count.max(1))) as usize;
                out.extend_from_slice(listed[index.min(listed.len() - 1)].as_bytes());
            };
            (Segments::unordered(distribution), Writer::new(write))
        }
        ValueKind::Rank => {
            let of = distribution.element.as_deref().ok_or("a rank needs `element`")?;
            let of = Values::new(of)?;
            let scale = Scale::of(distribution);
            let segments = Segments::on_scale(distribution, &scale);
            let segments = segments.with_hot_texts(|number, out| {
                of.write(number.parse().unwrap_or(0), out);
            });
            (segments, Writer::new(move |at, out| of.write(at.position as u64, out)))
        }
        _ => {
            let scale = Scale::of(distribution);
            let segments = Segments::on_scale(distribution, &scale);
            (segments, Writer::new(move |at, out| scale.write(at.position, at.number, out)))
        }
    })
}

#[cfg(test)]
mod tests;
