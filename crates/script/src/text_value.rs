//! What a variable's text is worth in an expression: pgbench's conversion rules.
//!
//! Variables given by `-D` and stored by `\gset` are text. SQL gets the text as it is; the first
//! expression that reads it decides whether it is null, a boolean, an integer or a double.

use crate::error::{EvalError, EvalErrorKind};
use crate::value::Value;

/// What a text converts to, or why it does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Conversion {
    Value(Value),
    Empty,
    OutOfRange,
    Malformed,
}

impl Conversion {
    /// Converts `text`.
    ///
    /// Source: pgbench's `makeVariableValue`.
    pub(crate) fn of(text: &[u8]) -> Self {
        if text.is_empty() {
            return Conversion::Empty;
        }
        if text.eq_ignore_ascii_case(b"null") {
            return Conversion::Value(Value::Null);
        }
        if is_prefix_of(text, b"true")
            || is_prefix_of(text, b"yes")
            || text.eq_ignore_ascii_case(b"on")
        {
            return Conversion::Value(Value::Bool(true));
        }
        if is_prefix_of(text, b"false")
            || is_prefix_of(text, b"no")
            || text.eq_ignore_ascii_case(b"off")
            || text.eq_ignore_ascii_case(b"of")
        {
            return Conversion::Value(Value::Bool(false));
        }
        let Ok(text) = std::str::from_utf8(text) else { return Conversion::Malformed };
        let text = text.trim_start_matches(is_c_space);
        if is_integer(text) {
            return text.parse().map_or(Conversion::OutOfRange, |int| Self::Value(Value::Int(int)));
        }
        parse_double(text)
            .map_or(Conversion::Malformed, |double| Self::Value(Value::Double(double)))
    }

    /// Returns the value, or the error pgbench reports for variable `name` holding `text`.
    pub(crate) fn value(self, name: &str, text: &[u8]) -> Result<Value, EvalError> {
        let text = String::from_utf8_lossy(text);
        let (kind, message) = match self {
            Conversion::Value(value) => return Ok(value),
            Conversion::Empty => (
                EvalErrorKind::MalformedVariable,
                format!("malformed variable \"{name}\" value: \"\""),
            ),
            Conversion::OutOfRange => (
                EvalErrorKind::OutOfRange,
                format!("value \"{text}\" is out of range for type bigint"),
            ),
            Conversion::Malformed => (
                EvalErrorKind::MalformedVariable,
                format!("malformed variable \"{name}\" value: \"{text}\""),
            ),
        };
        Err(EvalError::new(kind, message))
    }
}

/// Returns whether `text` is a beginning of `word`, in any case of letters.
fn is_prefix_of(text: &[u8], word: &[u8]) -> bool {
    word.len() >= text.len() && word[..text.len()].eq_ignore_ascii_case(text)
}

fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a double as C's `strtod` does over the whole of `text`; None too where that overflows,
/// or underflows.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let value = parse_hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let value: f64 = text.parse().ok()?;
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Some(value); // inf and nan by name
    }
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or(unsigned);
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    (is_zero || value.is_normal()).then_some(value)
}

/// Parses what follows `0x`: digits with at most one point, and a binary exponent after `p`.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P']).unwrap_or((text, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in integer.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(4 * fraction.len() as i32)?;
    let scaled = value * 2.0_f64.powi(exponent);
    (value == 0.0 || scaled.is_normal()).then_some(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Value> {
        Conversion::of(text.as_bytes()).value("x", text.as_bytes()).ok()
    }

    #[test]
    fn words_become_null_and_booleans_as_in_pgbench() {
        assert_eq!(value("NuLL"), Some(Value::Null));
        for text in ["t", "TR", "true", "y", "yes", "on"] {
            assert_eq!(value(text), Some(Value::Bool(true)), "{text}");
        }
        for text in ["f", "false", "n", "NO", "of", "off"] {
            assert_eq!(value(text), Some(Value::Bool(false)), "{text}");
        }
        assert_eq!(value("o"), None);
        assert_eq!(value("truely"), None);
    }

    #[test]
    fn numbers_become_integers_and_doubles_as_in_pgbench() {
        for (text, expected) in [
            ("0", Value::Int(0)),
            ("  -007", Value::Int(-7)),
            ("+5", Value::Int(5)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("1.5", Value::Double(1.5)),
            ("1.", Value::Double(1.0)),
            (".5e1", Value::Double(5.0)),
            ("0x1F", Value::Double(31.0)),
            ("-0x1.8p1", Value::Double(-3.0)),
            ("inf", Value::Double(f64::INFINITY)),
            ("0e-999", Value::Double(0.0)),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_value_are_refused_by_name_and_text() {
        for (text, kind, message) in [
            ("", EvalErrorKind::MalformedVariable, "malformed variable \"x\" value: \"\""),
            ("abc", EvalErrorKind::MalformedVariable, "malformed variable \"x\" value: \"abc\""),
            ("5 ", EvalErrorKind::MalformedVariable, "malformed variable \"x\" value: \"5 \""),
            (
                "1e999",
                EvalErrorKind::MalformedVariable,
                "malformed variable \"x\" value: \"1e999\"",
            ),
            ("0x", EvalErrorKind::MalformedVariable, "malformed variable \"x\" value: \"0x\""),
            (
                "9223372036854775808",
                EvalErrorKind::OutOfRange,
                "value \"9223372036854775808\" is out of range for type bigint",
            ),
        ] {
            let error = Conversion::of(text.as_bytes()).value("x", text.as_bytes()).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, message));
        }
    }
}
