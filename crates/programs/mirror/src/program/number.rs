//! Arithmetic with the text of a number or a time: the text keeps its kind and its decimals.

use std::io::Write;

use crate::values::calendar::{DAY_US, read_date, read_timestamp, write_date, write_timestamp};
use pgdyno_engine::program::Parameter;

/// Append `slope` times a number, plus `offset`. Times are moved by `offset` seconds.
///
/// Returns: false, with nothing appended, if the text is neither a number nor a time.
pub(super) fn write_linear(text: &[u8], slope: f64, offset: f64, out: &mut Vec<u8>) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    if let Ok(whole) = text.parse::<i64>() {
        let exact = whole as i128 * slope as i128 + offset as i128;
        let is_exact = slope.fract() == 0.0 && offset.fract() == 0.0;
        let value = if is_exact { exact } else { (whole as f64 * slope + offset).round() as i128 };
        return match i64::try_from(value) {
            Ok(value) => value.write(out),
            Err(_) => write!(out, "{value}").is_ok(),
        };
    }
    if let Ok(number) = text.parse::<f64>() {
        let decimals = text.rsplit_once('.').map_or(0, |(_, behind)| behind.len()).min(20);
        return write!(out, "{:.decimals$}", number * slope + offset).is_ok();
    }
    let offset_us = (offset * 1e6).round() as i64;
    if let (10, Some(days)) = (text.len(), read_date(text)) {
        write_date(days + offset_us.div_euclid(DAY_US), out);
        return true;
    }
    let Some(unix_us) = read_timestamp(text) else { return false };
    write_timestamp(unix_us + offset_us, out);
    // The zone was applied.
    let has_zone = text.get(10..).unwrap_or_default().contains(['+', '-']);
    out.extend_from_slice(if has_zone { b"+00" } else { b"" });
    true
}

/// Append an instant, in microseconds since 1970.
pub(super) fn write_instant(unix_us: i64, out: &mut Vec<u8>) {
    write_timestamp(unix_us, out);
    out.extend_from_slice(b"+00");
}

/// The last steps of splitmix64: every input has another output.
pub(super) fn scrambled(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(text: &str, slope: f64, offset: f64) -> Option<String> {
        let mut out = Vec::new();
        write_linear(text.as_bytes(), slope, offset, &mut out)
            .then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn numbers_keep_their_kind_and_their_decimals() {
        assert_eq!(linear("7", -1.0, 3.0).as_deref(), Some("-4"));
        assert_eq!(linear("9007199254740993", 1.0, 1.0).as_deref(), Some("9007199254740994"));
        assert_eq!(linear("3", 0.5, 0.0).as_deref(), Some("2"));
        assert_eq!(linear("10.50", 2.0, 0.25).as_deref(), Some("21.25"));
        assert_eq!(linear("yes", 1.0, 0.0), None);
    }

    #[test]
    fn times_are_moved_by_seconds() {
        let moved = |text: &str, seconds| linear(text, 1.0, seconds).unwrap_or_default();
        assert_eq!(moved("2024-02-28", 86_400.0), "2024-02-29");
        assert_eq!(moved("2023-12-31 23:59:59.5", 0.75), "2024-01-01 00:00:00.250000");
        assert_eq!(moved("1970-01-01 00:00:00+02", -1.0), "1969-12-31 21:59:59+00");
        assert_eq!(moved("2000-03-01", -86_400.0), "2000-02-29");
        assert_eq!(moved("1900-03-01", -86_400.0), "1900-02-28");
    }
}
