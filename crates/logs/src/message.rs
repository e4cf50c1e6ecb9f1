//! One message of the server, whatever the format of its log, and what it says.

use crate::words::{LANGUAGES, Words};

/// What a message keeps of its texts; the rest is dropped and counted.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// How bad a message is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Also notices, and words that are not known.
    #[default]
    Log,
    Error,
    Fatal,
    Panic,
    Warning,
}

impl Severity {
    /// In the order of `Words::severities`.
    const ALL: [Severity; 5] =
        [Severity::Log, Severity::Error, Severity::Fatal, Severity::Panic, Severity::Warning];

    /// Whether the statement failed.
    pub fn is_error(self) -> bool {
        matches!(self, Severity::Error | Severity::Fatal | Severity::Panic)
    }

    /// Returns the word of the English messages.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Log => "LOG",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
            Severity::Warning => "WARNING",
        }
    }
}

/// A message with all its parts. Its buffers are used again for the next one.
#[derive(Debug, Default)]
pub struct Message {
    pub time_ns: Option<i64>,
    /// The time has no fraction of a second, as that of `%t`.
    pub is_whole_second: bool,
    /// The session id of `%c`, or the process id.
    pub session: Vec<u8>,
    pub is_session_id: bool,
    pub user: Vec<u8>,
    pub database: Vec<u8>,
    pub application: Vec<u8>,
    /// Number of the message within its session, from 1.
    pub line_number: Option<u64>,
    pub severity: Severity,
    /// Empty if the log does not have it.
    pub sqlstate: Vec<u8>,
    pub text: Vec<u8>,
    pub detail: Vec<u8>,
    /// The statement that caused an error.
    pub statement: Vec<u8>,
}

impl Message {
    /// Returns the process id, which a session id has after its dot; None if the log has neither.
    pub fn pid(&self) -> Option<u32> {
        let session = std::str::from_utf8(&self.session).ok()?;
        if self.is_session_id {
            u32::from_str_radix(session.split_once('.')?.1, 16).ok()
        } else {
            session.parse().ok()
        }
    }

    /// Empty every part; the buffers stay.
    pub fn clear(&mut self) {
        self.time_ns = None;
        self.line_number = None;
        self.is_session_id = false;
        self.is_whole_second = false;
        self.severity = Severity::Log;
        let parts = [
            &mut self.session,
            &mut self.user,
            &mut self.database,
            &mut self.application,
            &mut self.sqlstate,
            &mut self.text,
            &mut self.detail,
            &mut self.statement,
        ];
        parts.into_iter().for_each(Vec::clear);
    }
}

/// What a message says about a statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    /// Simple protocol.
    Statement {
        text: &'a [u8],
        duration_ns: Option<u64>,
    },
    /// Extended protocol; `name` of the prepared statement, empty if it has none.
    Execute {
        name: &'a [u8],
        text: &'a [u8],
        duration_ns: Option<u64>,
        is_fetch: bool,
    },
    /// A parse or bind message took this long.
    Preparing {
        duration_ns: u64,
    },
    /// The statement before took this long.
    Duration {
        duration_ns: u64,
    },
    /// An error, and the statement that caused it; empty if it is not known.
    Error {
        text: &'a [u8],
    },
    Other,
}

/// What the first word of a line says: a new message, or a part of the message before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Begins(Severity),
    Detail,
    Statement,
    /// HINT, CONTEXT, QUERY, LOCATION, BACKTRACE.
    Further,
}

/// Recognises messages in every language; remembers which one the log has.
#[derive(Debug, Default)]
pub(crate) struct Recognizer {
    language: usize,
}

impl Recognizer {
    /// Returns the language of the last message that was recognised.
    pub(crate) fn language(&self) -> &'static str {
        LANGUAGES[self.language].language
    }

    /// Returns what a message says.
    pub(crate) fn what<'a>(&mut self, message: &'a Message) -> What<'a> {
        if message.severity.is_error() {
            return What::Error { text: &message.statement };
        }
        let text = without_sqlstate(&message.text);
        if let Some(what) = LANGUAGES[self.language].recognize(text) {
            return what;
        }
        for (number, words) in LANGUAGES.iter().enumerate() {
            if let Some(what) = words.recognize(text) {
                self.language = number;
                return what;
            }
        }
        What::Other
    }
}

/// With `log_error_verbosity = verbose` the SQLSTATE begins the text of a message.
pub(crate) fn without_sqlstate(text: &[u8]) -> &[u8] {
    let is_sqlstate = text.get(5..7) == Some(b": ")
        && text[..5].iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if is_sqlstate { &text[7..] } else { text }
}

impl Words {
    fn recognize<'a>(&self, text: &'a [u8]) -> Option<What<'a>> {
        self.timed(text).or_else(|| self.untimed(text))
    }

    fn timed<'a>(&self, text: &'a [u8]) -> Option<What<'a>> {
        if let Some((duration_ns, rest)) = after_duration(self.timed_execute, text)
            && let Some((name, text, is_fetch)) = self.executed(rest)
        {
            return Some(What::Execute { name, text, duration_ns: Some(duration_ns), is_fetch });
        }
        if let Some((duration_ns, text)) = after_duration(self.timed_statement, text) {
            return Some(What::Statement { text, duration_ns: Some(duration_ns) });
        }
        if let Some((duration_ns, [])) = after_duration(self.duration, text) {
            return Some(What::Duration { duration_ns });
        }
        let preparing = [self.timed_bind, self.timed_parse];
        let duration_ns = preparing.iter().find_map(|form| {
            let (duration_ns, rest) = after_duration(form, text)?;
            // A language may have a word after the name, too, which is not examined.
            memchr::memmem::find(rest, b": ").map(|_| duration_ns)
        })?;
        Some(What::Preparing { duration_ns })
    }

    fn untimed<'a>(&self, text: &'a [u8]) -> Option<What<'a>> {
        let word = self.statement.strip_suffix("%s").unwrap_or(self.statement);
        if let Some(text) = text.strip_prefix(word.as_bytes()) {
            return Some(What::Statement { text, duration_ns: None });
        }
        let (name, text, is_fetch) = self.executed(text)?;
        Some(What::Execute { name, text, duration_ns: None, is_fetch })
    }

    /// The name, the text and whether it is a fetch in `execute NAME/PORTAL: TEXT`.
    fn executed<'a>(&self, text: &'a [u8]) -> Option<(&'a [u8], &'a [u8], bool)> {
        let fetched = text.strip_prefix(self.execute_fetch.as_bytes());
        let is_fetch = fetched.is_some();
        let rest = fetched.or_else(|| text.strip_prefix(self.execute.as_bytes()))?;
        let rest = rest.strip_prefix(b" ")?;
        let end = memchr::memmem::find(rest, b": ")?;
        let name = rest[..end].split(|&byte| byte == b'/').next().unwrap_or_default();
        let name: &[u8] = if name == b"<unnamed>" { b"" } else { name };
        Some((name, &rest[end + 2..], is_fetch))
    }
}

/// Returns the duration at the beginning of a message of this form, and what follows the words
/// between it and the next `%s`.
fn after_duration<'a>(form: &str, text: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (before, rest) = form.split_once("%s")?;
    let after = rest.split("%s").next().unwrap_or_default();
    let text = text.strip_prefix(before.as_bytes())?;
    let length = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let duration_ns = milliseconds(&text[..length])?;
    Some((duration_ns, text[length..].strip_prefix(after.as_bytes())?))
}

/// Returns `1234.567` milliseconds as nanoseconds.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let whole = digits(parts.next()?)?;
    let fraction = parts.next().unwrap_or(b"0");
    let places = fraction.len().min(6);
    let unit_ns = 10_u64.pow(6 - u32::try_from(places).ok()?);
    whole.checked_mul(1_000_000)?.checked_add(digits(&fraction[..places])? * unit_ns)
}

pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() < 19 && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0')))
}

/// Returns what a severity means in any language; unknown ones are messages of another kind.
pub(crate) fn severity(word: &[u8]) -> Severity {
    match label(word) {
        Some(Label::Begins(severity)) => severity,
        _ => Severity::Log,
    }
}

/// Returns what the word before `:  ` says, in any language.
pub(crate) fn label(word: &[u8]) -> Option<Label> {
    // French puts a space before the colon.
    let word = word.trim_ascii_end();
    match word {
        b"LOG" => return Some(Label::Begins(Severity::Log)),
        b"DETAIL" => return Some(Label::Detail),
        b"LOCATION" | b"BACKTRACE" => return Some(Label::Further),
        b"NOTICE" | b"INFO" | b"DEBUG" => return Some(Label::Begins(Severity::Log)),
        _ => {}
    }
    LANGUAGES.iter().find_map(|words| {
        if let Some(at) = words.severities.iter().position(|known| known.as_bytes() == word) {
            return Some(Label::Begins(Severity::ALL[at]));
        }
        match words.labels.iter().position(|known| known.as_bytes() == word)? {
            0 => Some(Label::Detail),
            1 => Some(Label::Statement),
            _ => Some(Label::Further),
        }
    })
}

/// What was read, and what could not be.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    pub bytes: u64,
    pub messages: u64,
    /// Lines that belong to no message, such as those of a message whose beginning is missing.
    pub unreadable_lines: u64,
    /// Messages that were longer than 4 MiB.
    pub cut_messages: u64,
    /// Messages in whose middle a file ends: they are dropped.
    pub torn_messages: u64,
    /// Messages of which syslog or the journal lost a part: they are dropped.
    pub incomplete_messages: u64,
    pub nul_bytes: u64,
}
