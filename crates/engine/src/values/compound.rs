//! Arrays, ranges and JSON documents.

use pgdyno_script::Prng;

use super::filler::{Filler, Look};
use super::scale::Scale;
use super::segments::Segments;
use super::{Distribution, Spread, ValueKind, Values, length_of, mixed};

/// Arrays whose elements follow a distribution.
#[derive(Debug)]
pub(super) struct Arrays {
    element: Values,
    length: Spread,
    is_quoted: bool,
}

impl Arrays {
    pub(super) fn of(distribution: &Distribution) -> Result<Arrays, String> {
        let element = distribution.element.as_deref().ok_or("an array needs `element`")?;
        let number = [ValueKind::Integer, ValueKind::Real, ValueKind::Numeric, ValueKind::Uuid];
        let length = distribution.length.unwrap_or(Spread { least: 1.0, mean: 3.0, most: 5.0 });
        Ok(Arrays {
            element: Values::new(element)?,
            length,
            is_quoted: !number.contains(&element.kind),
        })
    }

    /// Append the array with this number of `count`. First elements ascend with the numbers.
    pub(super) fn write(&self, number: u64, count: u64, out: &mut Vec<u8>) {
        // Other bits than those of the elements decide the length.
        let length = length_of(&self.length, !number).round() as u64;
        let mut random = Prng::from_seed(mixed(number));
        out.push(b'{');
        for index in 0..length {
            if index > 0 {
                out.push(b',');
            }
            if self.is_quoted {
                out.push(b'"');
            }
            let start = out.len();
            let element = match index {
                0 => self.element.number_at_share(number as f64 / count.max(1) as f64),
                _ => self.element.draw_number(&mut random),
            };
            self.element.write(element, out);
            if self.is_quoted {
                escape(out, start);
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
}

/// Put a backslash before quotes and backslashes from `start` on.
fn escape(out: &mut Vec<u8>, start: usize) {
    if out[start..].iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        let text = out.split_off(start);
        for byte in text {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
}

/// Ranges with a lower bound and a length.
#[derive(Debug)]
pub(super) struct Ranges {
    scale: Scale,
    element: Distribution,
    length: Spread,
}

impl Ranges {
    pub(super) fn of(distribution: &Distribution) -> Result<Ranges, String> {
        let element = distribution.element.as_deref().ok_or("a range needs `element`")?;
        let unit = match element.kind {
            ValueKind::Timestamp | ValueKind::Timestamptz => 1_000_000.0,
            _ => 1.0,
        };
        let length = distribution.length.unwrap_or(Spread { least: 1.0, mean: 1.0, most: 1.0 });
        let Spread { least, mean, most } = length;
        Ok(Ranges {
            scale: Scale::of(&Distribution { step: None, ..element.clone() }),
            element: Distribution { step: None, ..element.clone() },
            length: Spread { least: least * unit, mean: mean * unit, most: most * unit },
        })
    }

    /// The lower bounds in ascending order, with the common ranges of `distribution`.
    pub(super) fn segments(&self, distribution: &Distribution) -> Segments {
        let bounds = self.element.bounds.clone();
        // The common ranges stand where their lower bounds do not matter: at the end.
        let whole = Distribution { bounds, ..distribution.clone() };
        Segments::on_scale(&whole, &self.scale)
    }

    pub(super) fn write(&self, position: i64, number: u64, out: &mut Vec<u8>) {
        let length = (length_of(&self.length, number) as i64).clamp(1, i64::MAX / 4);
        out.extend_from_slice(b"[\"");
        self.scale.write(position, number, out);
        out.extend_from_slice(b"\",\"");
        self.scale.write(position.saturating_add(length), number, out);
        out.extend_from_slice(b"\")");
    }
}

/// JSON objects: each has a number that no other one has, and the keys of a known document, or a
/// text that gives it its length.
#[derive(Debug)]
pub(super) struct Documents {
    known: Vec<String>,
    filler: Filler,
}

impl Documents {
    pub(super) fn of(distribution: &Distribution) -> Documents {
        let known = distribution.bounds.iter();
        let known = known.filter(|text| text.starts_with('{') && text.len() > 2).cloned();
        Documents { known: known.collect(), filler: Filler::of(distribution, Look::Prose) }
    }

    /// Append the document with this number of `count`. The known documents ascend with it.
    pub(super) fn write(&self, number: u64, count: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"{\"n\": ");
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        if !self.known.is_empty() {
            let place = u128::from(number) * self.known.len() as u128;
            let index = (place / u128::from(count.max(1))) as usize;
            let index = index.min(self.known.len() - 1);
            out.extend_from_slice(b", ");
            out.extend_from_slice(&self.known[index].as_bytes()[1..]);
            return;
        }
        const TEXT: &[u8] = b", \"text\": \"";
        let length = self.filler.length(number);
        let around = out.len() - start + TEXT.len() + 2;
        if length > around {
            out.extend_from_slice(TEXT);
            self.filler.write(length - around, number, out);
            out.push(b'"');
        }
        out.push(b'}');
    }
}
