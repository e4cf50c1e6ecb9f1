//! Values of script variables and expressions, and how they are written as text.

use std::io::Write as _;

use crate::error::{EvalError, EvalErrorKind};

/// A value of an expression: pgbench's four types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The SQL null.
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
}

/// Significant digits of a double written as text: DBL_DIG of C.
const DOUBLE_DIGITS: usize = 15;

impl Value {
    /// Returns the name of the type, as pgbench prints it.
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int",
            Value::Double(_) => "double",
        }
    }

    /// Appends the text that stands for the value in SQL.
    #[inline]
    pub fn append_to(self, out: &mut Vec<u8>) {
        match self {
            Value::Int(value) => {
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Double(value) => append_double(value, out),
        }
    }

    /// Returns whether a condition holds: null and zero do not, every other number does.
    #[inline]
    pub fn is_true(self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => value,
            Value::Int(value) => value != 0,
            Value::Double(value) => value != 0.0,
        }
    }

    /// Returns the integer, a double being rounded to the nearest, halves to the even one.
    #[inline]
    pub(crate) fn to_int(self) -> Result<i64, EvalError> {
        match self {
            Value::Int(value) => Ok(value),
            Value::Double(value) => {
                let rounded = value.round_ties_even();
                let limit = -(i64::MIN as f64);
                if rounded >= -limit && rounded < limit {
                    return Ok(rounded as i64);
                }
                Err(EvalError::new(
                    EvalErrorKind::OutOfRange,
                    format!("double to int overflow for {}", fixed(rounded, 6)),
                ))
            }
            Value::Null | Value::Bool(_) => Err(self.mismatch("int")),
        }
    }

    /// Returns the number as a double.
    #[inline]
    pub(crate) fn to_double(self) -> Result<f64, EvalError> {
        match self {
            Value::Double(value) => Ok(value),
            Value::Int(value) => Ok(value as f64),
            Value::Null | Value::Bool(_) => Err(self.mismatch("double")),
        }
    }

    /// Returns the boolean; numbers are not converted.
    #[inline]
    pub(crate) fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Value::Bool(value) => Ok(value),
            Value::Null | Value::Int(_) | Value::Double(_) => Err(self.mismatch("boolean")),
        }
    }

    #[cold]
    fn mismatch(self, wanted: &str) -> EvalError {
        EvalError::new(
            EvalErrorKind::TypeMismatch,
            format!("cannot coerce {} to {wanted}", self.type_name()),
        )
    }
}

/// Appends `value` as `printf("%.15g")` of C, in PostgreSQL's own version, does.
fn append_double(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        out.extend_from_slice(match value {
            f64::INFINITY => b"Infinity",
            f64::NEG_INFINITY => b"-Infinity",
            _ => b"NaN",
        });
        return;
    }
    // "-d.dddddddddddddde-308": the digits are rounded correctly, halves of exact ties to even.
    let mut buffer = [0; 32];
    let mut free = &mut buffer[..];
    write!(free, "{:.*e}", DOUBLE_DIGITS - 1, value).expect("the longest double fits");
    let free_len = free.len();
    let text = &buffer[..buffer.len() - free_len];
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut digits = [b'0'; DOUBLE_DIGITS];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..=DOUBLE_DIGITS]);
    let exponent = std::str::from_utf8(&text[DOUBLE_DIGITS + 2..])
        .ok()
        .and_then(|exponent| exponent.parse::<i32>().ok())
        .expect("an exponent follows the digits");
    let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    if negative {
        out.push(b'-');
    }
    append_digits(&digits[..kept], exponent, out);
}

/// Appends 0.d1d2d3... times ten to the `exponent` + 1, in the shorter of C's two notations.
fn append_digits(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if !(-4..DOUBLE_DIGITS as i32).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.unsigned_abs()).expect("a Vec takes every write");
        return;
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
        out.extend_from_slice(digits);
        return;
    }
    let integer_len = exponent as usize + 1;
    out.extend((0..integer_len).map(|place| digits.get(place).copied().unwrap_or(b'0')));
    if digits.len() > integer_len {
        out.push(b'.');
        out.extend_from_slice(&digits[integer_len..]);
    }
}

/// Returns `value` as `printf("%.*f")` of PostgreSQL does.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        return format!("{value:.decimals$}");
    }
    let mut text = Vec::new();
    append_double(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value) -> String {
        let mut out = Vec::new();
        value.append_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_written_as_printf_writes_them() {
        // Right column: printf "%.15g" of glibc 2.36; not finite ones as PostgreSQL prints them.
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (2.0 / 3.0, "0.666666666666667"),
            (std::f64::consts::PI, "3.14159265358979"),
            (123_456_789_012_345.0, "123456789012345"),
            (1_234_567_890_123_456.0, "1.23456789012346e+15"),
            (999_999_999_999_999.9, "1e+15"),
            (100_000.0, "100000"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (1e100, "1e+100"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (f64::MAX, "1.79769313486232e+308"),
            (5e-324, "4.94065645841247e-324"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN.copysign(1.0), "NaN"),
            (f64::NAN.copysign(-1.0), "NaN"),
        ] {
            assert_eq!(text(Value::Double(value)), expected);
        }
    }

    #[test]
    fn other_values_are_written_as_pgbench_writes_them() {
        assert_eq!(text(Value::Null), "NULL");
        assert_eq!(text(Value::Bool(true)), "true");
        assert_eq!(text(Value::Bool(false)), "false");
        assert_eq!(text(Value::Int(i64::MIN)), "-9223372036854775808");
    }

    #[test]
    fn doubles_become_integers_by_rounding_halves_to_even() {
        for (value, expected) in [(0.5, 0), (1.5, 2), (2.5, 2), (-2.5, -2), (2.51, 3)] {
            assert_eq!(Value::Double(value).to_int().unwrap(), expected);
        }
    }

    #[test]
    fn doubles_outside_the_integers_are_refused_by_value() {
        for (value, shown) in [
            (9_223_372_036_854_775_808.0, "9223372036854775808.000000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let error = Value::Double(value).to_int().unwrap_err();
            assert_eq!(error.kind(), EvalErrorKind::OutOfRange);
            assert_eq!(error.message(), format!("double to int overflow for {shown}"));
        }
        assert_eq!(Value::Double(i64::MIN as f64).to_int().unwrap(), i64::MIN);
    }
}
