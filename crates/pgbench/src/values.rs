//! Reads the values of options as pgbench does.

use super::say::{Fault, fault};
use crate::dataset::PartitionMethod;
use pgdyno_engine::contract::job::Protocol;

/// What `isspace` of C takes for a space.
const C_WHITESPACE: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Read an integer from `least` to the largest `int` of C.
pub(super) fn integer(value: &str, option: &str, least: u32) -> Result<u32, Fault> {
    bounded(value, option, least, i32::MAX as u32)
}

/// Read an integer as `option_parse_int` of PostgreSQL's programs.
pub(super) fn bounded(value: &str, option: &str, least: u32, most: u32) -> Result<u32, Fault> {
    let text = value.trim_matches(C_WHITESPACE);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault(format!("invalid value \"{value}\" for option {option}")));
    }
    match text.parse::<i64>() {
        Ok(number) if (i64::from(least)..=i64::from(most)).contains(&number) => Ok(number as u32),
        _ => Err(fault(format!("{option} must be in range {least}..{most}"))),
    }
}

/// Read a number above 0, as C's `atof` does: the longest beginning that is one, so `5ms` is 5.
/// Limits: hexadecimal numbers such as `0x10` are refused.
pub(super) fn positive(value: &str, complaint: &str) -> Result<f64, Fault> {
    let text = value.trim_start_matches(C_WHITESPACE);
    let number = (1..=text.len())
        .rev()
        .filter(|&end| text.is_char_boundary(end))
        .find_map(|end| text[..end].parse::<f64>().ok());
    match number {
        Some(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(fault(format!("{complaint}: \"{value}\""))),
    }
}

/// Read an integer as C's `atoi` of glibc does: a text that begins with no digit is 0, and of a
/// number beyond `long`, or beyond `int`, the lowest 32 bits of the nearest `long` count.
pub(super) fn leading_integer(value: &str) -> i32 {
    let text = value.trim_start_matches(C_WHITESPACE);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    let number = digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0'))
    });
    number as i32
}

pub(super) fn init_steps(value: &str) -> Result<String, Fault> {
    if value.is_empty() {
        return Err(fault("no initialization steps specified"));
    }
    match value.chars().find(|step| !"dtgGvpf ".contains(*step)) {
        None => Ok(value.into()),
        Some(step) => Err(fault(format!("unrecognized initialization step \"{step}\""))
            .detail("Allowed step characters are: \"dtgGvpf\".")),
    }
}

pub(super) fn protocol(value: &str) -> Result<Protocol, Fault> {
    match value {
        "simple" => Ok(Protocol::Simple),
        "extended" => Ok(Protocol::Extended),
        "prepared" => Ok(Protocol::Prepared),
        _ => Err(fault(format!("invalid query mode (-M): \"{value}\""))),
    }
}

pub(super) fn partition_method(value: &str) -> Result<PartitionMethod, Fault> {
    match value.to_ascii_lowercase().as_str() {
        "range" => Ok(PartitionMethod::Range),
        "hash" => Ok(PartitionMethod::Hash),
        _ => Err(fault(format!(
            "invalid partition method, expecting \"range\" or \"hash\", got: \"{value}\""
        ))),
    }
}
