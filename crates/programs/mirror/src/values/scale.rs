//! Kinds whose values are numbers at heart: positions on a line of whole numbers, and their text.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::calendar::{
    DAY_US, read_date, read_interval, read_time, read_timestamp, write_date, write_interval,
    write_padded, write_time, write_timestamp,
};
use super::filler::Filler;
use super::mixing::mixed;
use crate::distribution::{Distribution, ValueKind};

/// A scale: the value at a position is `position * step`, in the unit of the kind.
#[derive(Debug)]
pub(super) struct Scale {
    kind: Kind,
    step: i64,
}

#[derive(Debug)]
enum Kind {
    Integer,
    Decimal {
        digits: u32,
    },
    /// The range from `least` to `least + width`, in `FLOAT_POSITIONS` equal steps.
    Float {
        least: f64,
        width: f64,
    },
    Labels(Vec<String>),
    Date,
    Timestamp {
        zone: &'static str,
    },
    Time,
    Interval,
    /// The first 64 bits; the others follow from the number of the value.
    Uuid,
    Bytes(Filler),
    Inet4 {
        prefix: String,
    },
    Inet6,
}

/// Number of positions of a float scale.
const FLOAT_POSITIONS: f64 = (1_u64 << 52) as f64;
/// Decimals that are kept exactly; a value with more is a float.
const DIGITS_MAX: u32 = 12;

impl Scale {
    pub(super) fn of(distribution: &Distribution) -> Scale {
        let kind = kind_of(distribution);
        // Steps of times are seconds.
        let unit = match kind {
            Kind::Timestamp { .. } | Kind::Time | Kind::Interval => 1e6,
            Kind::Date => 1.0 / 86_400.0,
            Kind::Integer => 1.0,
            _ => return Scale { kind, step: 1 },
        };
        let step = distribution.step.map_or(1.0, |step| (step * unit).round());
        Scale { kind, step: (step as i64).max(1) }
    }

    /// The position of a text; None if it is not a value of this kind, such as infinity.
    pub(super) fn position(&self, text: &str) -> Option<i64> {
        Some(self.value(text)?.div_euclid(self.step))
    }

    fn value(&self, text: &str) -> Option<i64> {
        match &self.kind {
            Kind::Integer => text.trim().parse().ok(),
            Kind::Decimal { digits } => read_decimal(text, *digits),
            Kind::Float { least, width } => {
                let value: f64 = text.trim().parse().ok().filter(|v: &f64| v.is_finite())?;
                Some(((value - least) / width * FLOAT_POSITIONS) as i64)
            }
            Kind::Labels(labels) => {
                let is_it =
                    |label: &String| label == text || (text.len() < 6 && is_bool(label, text));
                labels.iter().position(is_it).map(|index| index as i64)
            }
            Kind::Date => read_date(text),
            Kind::Timestamp { .. } => read_timestamp(text),
            Kind::Time => read_time(text),
            Kind::Interval => read_interval(text),
            Kind::Uuid => {
                let digits: String =
                    text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
                u64::from_str_radix(&digits, 16).ok().map(|bits| (bits >> 1) as i64)
            }
            Kind::Bytes(_) => {
                let digits = text.strip_prefix("\\x").unwrap_or(text);
                let digits: String =
                    digits.chars().chain("0".repeat(16).chars()).take(16).collect();
                u64::from_str_radix(&digits, 16).ok().map(|bits| (bits >> 1) as i64)
            }
            Kind::Inet4 { .. } => {
                let address: Ipv4Addr = text.split('/').next()?.parse().ok()?;
                Some(i64::from(u32::from(address)))
            }
            Kind::Inet6 => {
                let address: Ipv6Addr = text.split('/').next()?.parse().ok()?;
                Some((u128::from(address) >> 65) as i64)
            }
        }
    }

    /// The bounds of the histogram in ascending order: at least two. Without a histogram, a range
    /// that has room for all values.
    pub(super) fn bounds(&self, distribution: &Distribution) -> Vec<i64> {
        let mut bounds: Vec<i64> =
            distribution.bounds.iter().filter_map(|text| self.position(text)).collect();
        bounds.sort_unstable();
        if bounds.len() < 2 && !matches!(self.kind, Kind::Labels(_)) {
            // The few other values are between the common ones.
            let common = || distribution.hot.iter().filter_map(|hot| self.position(&hot.value));
            bounds.extend(common().min().into_iter().chain(common().max()));
            bounds.sort_unstable();
            bounds.dedup();
        }
        let room = distribution.distinct.max(1.0) as i64;
        if bounds.len() < 2 {
            let first = bounds.first().copied();
            let (default_low, default_span) = match &self.kind {
                Kind::Labels(labels) => (0, labels.len() as i64 - 1),
                Kind::Float { .. } => (0, FLOAT_POSITIONS as i64),
                Kind::Date => (read_date("2020-01-01").unwrap_or(0) / self.step, room),
                Kind::Timestamp { .. } => {
                    (18_262 * DAY_US / self.step, (365 * DAY_US / self.step).max(room))
                }
                Kind::Time => (0, (DAY_US - 1) / self.step),
                Kind::Interval => (0, (DAY_US / self.step).max(room)),
                Kind::Uuid | Kind::Bytes(_) | Kind::Inet6 => (0, i64::MAX),
                Kind::Inet4 { .. } => (10 << 24, room),
                Kind::Integer | Kind::Decimal { .. } => (first.unwrap_or(0), room),
            };
            let low = first.unwrap_or(default_low);
            bounds = vec![low, low.saturating_add(default_span)];
        }
        if distribution.is_dense {
            let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
            bounds = vec![first, last.max(first.saturating_add(room - 1))];
        }
        bounds
    }

    /// Append the text of the value at this position.
    #[inline]
    pub(super) fn write(&self, position: i64, number: u64, out: &mut Vec<u8>) {
        let value = position.wrapping_mul(self.step);
        match &self.kind {
            Kind::Integer => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Kind::Decimal { digits } => write_decimal(value, *digits, out),
            Kind::Float { least, width } => {
                let value = least + value as f64 / FLOAT_POSITIONS * width;
                write!(out, "{value}").expect("a Vec takes everything");
            }
            Kind::Labels(labels) => {
                let index = usize::try_from(value).unwrap_or(0).min(labels.len() - 1);
                out.extend_from_slice(labels[index].as_bytes());
            }
            Kind::Date => write_date(value, out),
            Kind::Timestamp { zone } => {
                write_timestamp(value, out);
                out.extend_from_slice(zone.as_bytes());
            }
            Kind::Time => write_time(value.clamp(0, DAY_US - 1), out),
            Kind::Interval => write_interval(value, out),
            Kind::Uuid => write_uuid((value as u64) << 1, mixed(number), out),
            Kind::Bytes(filler) => filler.write_bytes((value as u64) << 1, number, out),
            Kind::Inet4 { prefix } => {
                let address = Ipv4Addr::from(u32::try_from(value).unwrap_or(u32::MAX));
                write!(out, "{address}{prefix}").expect("a Vec takes everything");
            }
            Kind::Inet6 => {
                let bits = (u128::from(value as u64) << 65) | u128::from(mixed(number));
                write!(out, "{}", Ipv6Addr::from(bits)).expect("a Vec takes everything");
            }
        }
    }
}

fn kind_of(distribution: &Distribution) -> Kind {
    match distribution.kind {
        ValueKind::Real | ValueKind::Numeric => number_kind(distribution),
        ValueKind::Boolean => Kind::Labels(vec!["f".into(), "t".into()]),
        ValueKind::Enum => {
            let known = distribution.hot.iter().map(|hot| &hot.value).chain(&distribution.bounds);
            let labels: Vec<String> = match distribution.labels.is_empty() {
                true => known.cloned().collect(),
                false => distribution.labels.clone(),
            };
            Kind::Labels(if labels.is_empty() { vec![String::new()] } else { labels })
        }
        ValueKind::Date => Kind::Date,
        ValueKind::Timestamp => Kind::Timestamp { zone: "" },
        ValueKind::Timestamptz => Kind::Timestamp { zone: "+00" },
        ValueKind::Time => Kind::Time,
        ValueKind::Interval => Kind::Interval,
        ValueKind::Uuid => Kind::Uuid,
        ValueKind::Bytes => Kind::Bytes(Filler::of_bytes(distribution)),
        ValueKind::Inet => {
            let known = distribution.bounds.iter().chain(distribution.hot.iter().map(|h| &h.value));
            let texts: Vec<&String> = known.collect();
            if texts.iter().any(|text| text.contains(':')) {
                return Kind::Inet6;
            }
            let prefix = texts.first().and_then(|text| text.split_once('/'));
            Kind::Inet4 { prefix: prefix.map(|(_, bits)| format!("/{bits}")).unwrap_or_default() }
        }
        _ => Kind::Integer,
    }
}

/// Decimal if all known numbers have few decimals, else float.
fn number_kind(distribution: &Distribution) -> Kind {
    let known = || distribution.bounds.iter().chain(distribution.hot.iter().map(|h| &h.value));
    let numbers = || known().filter(|text| text.parse::<f64>().is_ok_and(f64::is_finite));
    let digits = numbers().map(|text| match text.split_once('.') {
        _ if text.contains(['e', 'E']) => DIGITS_MAX + 1,
        Some((_, decimals)) => decimals.len() as u32,
        None => 0,
    });
    let digits = digits.max().unwrap_or(if distribution.kind == ValueKind::Real { 3 } else { 0 });
    if digits <= DIGITS_MAX && numbers().all(|text| read_decimal(text, digits).is_some()) {
        return Kind::Decimal { digits };
    }
    let values = || numbers().filter_map(|text| text.parse::<f64>().ok());
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    Kind::Float { least, width: if most > least { most - least } else { 1.0 } }
}

fn read_decimal(text: &str, digits: u32) -> Option<i64> {
    let text = text.trim();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let whole: i64 = whole.trim_start_matches(['-', '+']).parse().ok()?;
    let padded: String =
        decimals.chars().chain("0".repeat(digits as usize).chars()).take(digits as usize).collect();
    let decimals: i64 = if digits == 0 { 0 } else { padded.parse().ok()? };
    let number = whole.checked_mul(10_i64.checked_pow(digits)?)?.checked_add(decimals)?;
    // Half of the range is left for arithmetic.
    (number < i64::MAX / 2).then_some(sign * number)
}

fn write_decimal(value: i64, digits: u32, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let (unit, value) = (10_i64.pow(digits), value.saturating_abs());
    out.extend_from_slice(itoa::Buffer::new().format(value / unit).as_bytes());
    if digits > 0 {
        out.push(b'.');
        write_padded(value % unit, digits as usize, out);
    }
}

/// Whether both are spellings of the same boolean.
fn is_bool(label: &str, text: &str) -> bool {
    matches!((label, text), ("t", "true") | ("f", "false"))
}

fn write_uuid(high: u64, low: u64, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for index in 0..32 {
        if matches!(index, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        let bits = if index < 16 { high >> (60 - 4 * index) } else { low >> (124 - 4 * index) };
        out.push(HEX[bits as usize & 15]);
    }
}
