//! Errors of a connection: the server reports an error, or its bytes break the protocol.

use std::fmt;

/// Five characters that name a condition (manual, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SqlState([u8; 5]);

impl SqlState {
    pub const SERIALIZATION_FAILURE: SqlState = SqlState(*b"40001");
    pub const DEADLOCK_DETECTED: SqlState = SqlState(*b"40P01");
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState(*b"53300");
    /// The state of an error whose field is missing, or is not five ASCII letters and digits.
    pub const UNKNOWN: SqlState = SqlState(*b"XX000");

    /// The state named by `text`, or `UNKNOWN` when it is not five ASCII letters and digits.
    pub fn new(text: &[u8]) -> SqlState {
        match <[u8; 5]>::try_from(text) {
            Ok(code) if code.iter().all(u8::is_ascii_alphanumeric) => SqlState(code),
            _ => SqlState::UNKNOWN,
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the constructor admits ASCII only")
    }

    /// The first two characters.
    pub fn class(&self) -> &str {
        &self.as_str()[..2]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An ErrorResponse or NoticeResponse, with the server's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// `ERROR`, `FATAL` or `PANIC`; servers since 9.6 send the word untranslated.
    pub severity: String,
    pub sqlstate: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Where the error occurred, for example the line of a function. Boxed: a context is rare, and
    /// `ServerError` shall stay small.
    pub context: Option<Box<String>>,
    /// Position of the faulty character in the statement, from 1.
    pub position: Option<u32>,
    /// A function of a user raised it, so its words can be anything.
    pub is_raised: bool,
}

/// Classes of conditions whose messages name objects, limits and states, but no values.
const CLASSES_WITHOUT_VALUES: [&str; 16] = [
    "08", "0A", "21", "23", "25", "26", "2B", "2D", "34", "3B", "40", "53", "54", "55", "57", "58",
];

/// The server's routines with which PL/pgSQL, PL/Python, PL/Perl and PL/Tcl raise an error.
const RAISING_ROUTINES: [&[u8]; 4] =
    [b"exec_stmt_raise", b"PLy_output", b"do_util_elog", b"pltcl_elog"];

impl ServerError {
    /// True if the message may quote a value of a row or of a parameter.
    ///
    /// A name that the parser did not find has a position; without one, it may be the value of a
    /// cast to regclass. A syntax error (42601) quotes what it met, which may be a literal.
    pub fn may_quote_values(&self) -> bool {
        let class = self.sqlstate.class();
        let state = self.sqlstate.as_str();
        let is_of_parser = class == "42" && state != "42601" && self.position.is_some();
        // No permission, and division by zero, whose words are always the same.
        let is_known = is_of_parser || matches!(state, "42501" | "22012");
        self.is_raised || !(is_known || CLASSES_WITHOUT_VALUES.contains(&class))
    }

    /// The error with other words if its own may quote values.
    pub fn without_values(self) -> ServerError {
        if !self.may_quote_values() {
            return ServerError { detail: None, context: None, ..self };
        }
        let message = "the message is left out, because it may quote values".to_owned();
        ServerError { message, detail: None, hint: None, context: None, ..self }
    }

    /// Read the body of an ErrorResponse. Missing fields stay empty; unknown fields are skipped.
    pub fn parse(body: &[u8]) -> ServerError {
        let mut error = ServerError {
            severity: String::new(),
            sqlstate: SqlState::UNKNOWN,
            message: String::new(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            is_raised: false,
        };
        for field in body.split(|&byte| byte == 0) {
            let Some((&kind, value)) = field.split_first() else { break };
            let text = || String::from_utf8_lossy(value).into_owned();
            match kind {
                b'S' if error.severity.is_empty() => error.severity = text(),
                // Subtle: V follows S and replaces it, because V is the untranslated word.
                b'V' => error.severity = text(),
                b'C' => error.sqlstate = SqlState::new(value),
                b'M' => error.message = text(),
                b'D' => error.detail = Some(text()),
                b'H' => error.hint = Some(text()),
                b'W' => error.context = Some(Box::new(text())),
                b'P' => error.position = text().parse().ok(),
                b'R' => error.is_raised = RAISING_ROUTINES.contains(&value),
                _ => {}
            }
        }
        error
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (SQLSTATE {})", self.severity, self.message, self.sqlstate)
    }
}

impl std::error::Error for ServerError {}

/// Bytes that break the protocol, or a message that its present state does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// No server message begins with this byte.
    UnknownTag(u8),
    /// A length below 4, or above the limit for this kind of message.
    Length { tag: u8, length: u32 },
    /// The body of a known message cannot be read.
    Malformed(u8),
    /// A known message at a place where the protocol does not allow it.
    Unexpected(u8),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |tag: &u8| tag.escape_ascii().to_string();
        match self {
            ProtocolError::UnknownTag(tag) => {
                write!(f, "no message of the server begins with byte '{}'", show(tag))
            }
            ProtocolError::Length { tag, length } => {
                write!(f, "message '{}' claims the impossible length {length}", show(tag))
            }
            ProtocolError::Malformed(tag) => write!(f, "message '{}' is malformed", show(tag)),
            ProtocolError::Unexpected(tag) => {
                write!(f, "message '{}' came where it does not belong", show(tag))
            }
        }
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_error_are_read_and_unknown_ones_passed_over() {
        let body =
            b"SFEHLER\0VERROR\0C23505\0Mduplicate key\0DKey (a)=(1).\0Qxyz\0P17\0Hgive up\0\0";
        let error = ServerError::parse(body);
        assert_eq!(error.severity, "ERROR");
        assert_eq!(error.sqlstate.as_str(), "23505");
        assert_eq!(error.sqlstate.class(), "23");
        assert_eq!(error.message, "duplicate key");
        assert_eq!(error.detail.as_deref(), Some("Key (a)=(1)."));
        assert_eq!(error.hint.as_deref(), Some("give up"));
        assert_eq!(error.position, Some(17));
        assert_eq!(error.to_string(), "ERROR: duplicate key (SQLSTATE 23505)");
    }

    #[test]
    fn a_state_that_is_not_five_letters_or_digits_is_unknown() {
        for text in [b"".as_slice(), b"1234", b"123456", b"12 45", b"\xff\xff\xff\xff\xff"] {
            assert_eq!(SqlState::new(text), SqlState::UNKNOWN);
        }
        assert_eq!(ServerError::parse(b"").sqlstate, SqlState::UNKNOWN);
    }

    fn shown(sqlstate: &str, message: &str, more: &str) -> String {
        let body = format!("VERROR\0C{sqlstate}\0M{message}\0{more}\0");
        ServerError::parse(body.as_bytes()).without_values().message
    }

    #[test]
    fn a_message_that_may_quote_a_value_is_left_out() {
        for (sqlstate, message, more) in [
            ("22P02", "invalid input syntax for type integer: \"secret\"", ""),
            ("22003", "value \"99secret\" is out of range for type integer", ""),
            ("P0001", "no such customer: secret", ""),
            ("23505", "secret exists", "Rexec_stmt_raise\0"),
            ("42P01", "relation \"secret\" does not exist", ""),
            ("42601", "syntax error at or near \"'secret'\"", "P15\0"),
            ("HV000", "secret", ""),
            ("XX000", "secret at line 1.", ""),
        ] {
            assert!(!shown(sqlstate, message, more).contains("secret"), "{sqlstate}");
        }
    }

    #[test]
    fn a_message_that_names_objects_alone_is_kept() {
        for (sqlstate, message, more) in [
            (
                "23505",
                "duplicate key value violates unique constraint \"a\"",
                "R_bt_check_unique\0",
            ),
            ("42P01", "relation \"a\" does not exist", "P15\0"),
            ("42501", "permission denied for table a", ""),
            ("40P01", "deadlock detected", ""),
            ("22012", "division by zero", ""),
        ] {
            assert_eq!(shown(sqlstate, message, more), message);
        }
    }
}
