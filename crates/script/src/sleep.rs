//! `\sleep`: computes how long a client sleeps.

use crate::error::{EvalError, EvalErrorKind};
use crate::variables::{ClientVariables, VariableSlot, undefined};

/// How long `\sleep` sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepTime {
    /// The same time at each execution.
    Constant {
        /// At least 0.
        duration_ns: u64,
    },
    /// The whole number at the begin of a variable's text, in a unit.
    Variable {
        /// The variable.
        slot: VariableSlot,
        /// Length of the unit.
        unit_ns: u64,
    },
}

impl SleepTime {
    /// Returns how long a client sleeps; a negative time counts as none.
    ///
    /// Errors: the variable is undefined, or does not begin with a number.
    pub fn duration_ns(self, variables: &ClientVariables) -> Result<u64, EvalError> {
        let (slot, unit_ns) = match self {
            SleepTime::Constant { duration_ns } => return Ok(duration_ns),
            SleepTime::Variable { slot, unit_ns } => (slot, unit_ns),
        };
        let name = variables.table().name(slot);
        let mut text = Vec::new();
        if !variables.append_text(slot, &mut text) {
            let message = format!("sleep: {}", undefined(name));
            return Err(EvalError::new(EvalErrorKind::UndefinedVariable, message));
        }
        let text = String::from_utf8_lossy(&text);
        let count = leading_integer(&text);
        if count == 0 && !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(EvalError::new(
                EvalErrorKind::InvalidArgument,
                format!("sleep: invalid sleep time \"{text}\" for variable \"{name}\""),
            ));
        }
        Ok(u64::try_from(count).unwrap_or(0).saturating_mul(unit_ns))
    }
}

/// Returns the integer `text` begins with, as C's `atoi` does, without its overflow.
pub(crate) fn leading_integer(text: &str) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = digits
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -magnitude } else { magnitude }
}
