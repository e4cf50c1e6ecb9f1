//! The one type of error for a job that cannot be done: what is wrong with it, and where.

use pgdyno_script::ScriptError;

use crate::contract::record::{ErrorKind, Failure};

/// An error record without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: ErrorKind,
    pub message: String,
    pub hint: String,
    pub sqlstate: Option<String>,
    pub script: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

impl Refusal {
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal {
            kind,
            message: message.into(),
            hint: hint.into(),
            sqlstate: None,
            script: None,
            line: None,
            column: None,
        }
    }

    /// The error record, with the time at which it is written.
    pub fn at(&self, time_ns: u64) -> Failure {
        let Refusal { kind, message, hint, sqlstate, script, line, column } = self.clone();
        Failure { time_ns, kind, message, hint, sqlstate, script, line, column }
    }
}

impl From<ScriptError> for Refusal {
    fn from(error: ScriptError) -> Refusal {
        let fault = &*error;
        Refusal {
            script: Some(fault.script.clone()),
            line: Some(fault.line as u32),
            column: Some(fault.column as u32),
            ..Refusal::new(
                ErrorKind::Script,
                error.to_string().split("\nhint: ").next().unwrap_or_default(),
                fault.hint.clone().unwrap_or_default(),
            )
        }
    }
}
