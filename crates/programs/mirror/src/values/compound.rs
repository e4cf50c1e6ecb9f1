//! Arrays, ranges and JSON documents.

use std::collections::BTreeMap;

use pgdyno_script::Prng;

use super::filler::{Filler, Look};
use super::mixing::{length_of, mixed};
use super::numbered::Values;
use super::scale::Scale;
use super::segments::Segments;
use crate::distribution::{Distribution, Spread, ValueKind};

/// The places of common arrays need the numbers of their elements; of more elements they are at the
/// end.
const ELEMENTS_MAX: u64 = 10_000;

/// Arrays whose elements follow a distribution.
#[derive(Debug)]
pub(super) struct Arrays {
    element: Values,
    length: Spread,
    is_quoted: bool,
}

impl Arrays {
    /// Args: kind, that of the elements.
    pub(super) fn of(distribution: &Distribution, kind: ValueKind, element: Values) -> Arrays {
        let number = [ValueKind::Integer, ValueKind::Real, ValueKind::Numeric, ValueKind::Uuid];
        let length = distribution.length.unwrap_or(Spread { least: 1.0, mean: 3.0, most: 5.0 });
        Arrays { element, length, is_quoted: !number.contains(&kind) }
    }

    /// The arrays in ascending order, each common one near its place.
    pub(super) fn segments(&self, distribution: &Distribution) -> Segments {
        let mut numbers = BTreeMap::new();
        if !distribution.hot.is_empty() {
            for number in 0..self.element.count().min(ELEMENTS_MAX) {
                let mut text = Vec::new();
                self.element.write(number, &mut text);
                numbers.insert(text, number);
            }
        }
        let mut places: Vec<(f64, u32)> = (0..)
            .zip(&distribution.hot)
            .map(|(index, hot)| (self.place(&hot.value, &numbers), index))
            .collect();
        places.sort_by(|left, right| left.0.total_cmp(&right.0));
        Segments::between_shares(distribution, &places)
    }

    /// The place of an array among all, 0 to 1: from its elements, one after the other.
    fn place(&self, array: &str, numbers: &BTreeMap<Vec<u8>, u64>) -> f64 {
        let (mut low, mut width) = (0.0, 1.0);
        let inner = array.trim_start_matches('{').trim_end_matches('}');
        for element in inner.split(',').filter(|_| !inner.is_empty()) {
            let Some(&number) = numbers.get(element.trim_matches('"').as_bytes()) else {
                // NULL and what is not known come last.
                return low + width;
            };
            let (from, to) =
                (self.element.share_before(number), self.element.share_before(number + 1));
            (low, width) = (low + width * from, width * (to - from));
        }
        low
    }

    /// Append the array with this number of `count`. The arrays ascend with their numbers, and as
    /// few are equal as possible: those with the same first elements share the next ones.
    pub(super) fn write(&self, number: u64, count: u64, out: &mut Vec<u8>) {
        // Other bits than those of the elements decide the length.
        let length = length_of(&self.length, !number).round() as u64;
        let mut random = Prng::from_seed(mixed(number));
        let (mut first, mut end) = (0, count.max(number + 1));
        out.push(b'{');
        for index in 0..length {
            if index > 0 {
                out.push(b',');
            }
            if self.is_quoted {
                out.push(b'"');
            }
            let start = out.len();
            let element = if end - first > 1 {
                let of = |other: u64| {
                    let share = (other - first) as f64 + 0.5;
                    self.element.number_at_share(share / (end - first) as f64)
                };
                let element = of(number);
                let from = first_with(first, number, |other| of(other) >= element);
                let to = first_with(number, end, |other| of(other) > element);
                (first, end) = (from, to);
                element
            } else {
                self.element.draw_number(&mut random)
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

/// The first number from `low` to `high` for which `is_there` is true; it stays true after it.
fn first_with(mut low: u64, mut high: u64, is_there: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_there(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
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
    counted: Option<Vec<Numbered>>,
    has_text: bool,
    filler: Filler,
}

/// A known document with a number in it: what stands before the number, the number, and the rest.
#[derive(Debug)]
struct Numbered {
    before: String,
    number: u64,
    after: String,
}

const TEXT: &[u8] = b", \"text\": \"";

impl Documents {
    pub(super) fn of(distribution: &Distribution) -> Documents {
        let known = distribution.bounds.iter();
        let known: Vec<String> =
            known.filter(|text| text.starts_with('{') && text.len() > 2).cloned().collect();
        let counted = counted(&known, distribution.distinct);
        let has_text = distribution.width > 24.0;
        let filler = Filler::of(distribution, Look::Prose);
        Documents { known, counted, has_text, filler }
    }

    /// Append the document with this number of `count`. The known documents ascend with it.
    pub(super) fn write(&self, number: u64, count: u64, out: &mut Vec<u8>) {
        let count = count.max(number + 1);
        let index = u128::from(number) * self.known.len() as u128 / u128::from(count);
        let index = index as usize;
        if let Some(counted) = &self.counted {
            // The documents between two known ones have the numbers between theirs.
            let start_of = |index: usize| {
                (index as u128 * u128::from(count)).div_ceil(self.known.len() as u128) as u64
            };
            let (own, next) = (&counted[index], counted.get(index + 1));
            let (start, end) = (start_of(index), start_of(index + 1));
            let gap = next.map_or(end - start, |next| next.number - own.number);
            let ahead = u128::from(number - start) * u128::from(gap) / u128::from(end - start);
            out.extend_from_slice(own.before.as_bytes());
            let value = own.number.saturating_add(ahead as u64);
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            out.extend_from_slice(own.after.as_bytes());
            return;
        }
        let start = out.len();
        out.extend_from_slice(b"{\"n\": ");
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        if !self.known.is_empty() {
            out.extend_from_slice(b", ");
            out.extend_from_slice(&self.known[index].as_bytes()[1..]);
            return;
        }
        // jsonb orders objects by the number of their keys, so each has as many.
        if self.has_text {
            let length = self.filler.length(number);
            let around = out.len() - start + TEXT.len() + 2;
            out.extend_from_slice(TEXT);
            self.filler.write(length.saturating_sub(around), number, out);
            out.push(b'"');
        }
        out.push(b'}');
    }
}

/// The known documents with the first number in each, if it alone can make `distinct` different
/// ones: the numbers ascend, with enough room between neighbours.
fn counted(known: &[String], distinct: f64) -> Option<Vec<Numbered>> {
    let all: Vec<Numbered> = known.iter().map(|text| numbered(text)).collect::<Option<_>>()?;
    let room = (distinct / known.len() as f64).ceil() as u64;
    let is_like = |pair: &[Numbered]| {
        pair[0].before == pair[1].before
            && pair[1].number.checked_sub(pair[0].number).is_some_and(|gap| gap >= room)
    };
    (all.len() > 1 && all.windows(2).all(is_like)).then_some(all)
}

fn numbered(text: &str) -> Option<Numbered> {
    let start = text.find("\": ")? + 3;
    let rest = &text[start..];
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    // No decimals follow, and no exponent.
    let is_whole = matches!(rest.as_bytes()[end], b',' | b'}');
    let number = rest[..end].parse().ok().filter(|_| is_whole)?;
    Some(Numbered { before: text[..start].into(), number, after: rest[end..].into() })
}
