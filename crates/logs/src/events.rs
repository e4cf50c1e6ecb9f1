//! What a message says about the server: checkpoints, temporary files, lock waits, vacuums, errors.
//!
//! Limits: kinds are recognised by their English messages. In another language only temporary files
//! are, by the name of the file, and errors, by their severity.

use memchr::memmem;

use crate::message::{Message, digits, without_sqlstate};

/// Every temporary file has this in its path, whatever the language of the message.
const TEMPORARY_FILE: &[u8] = b"pgsql_tmp/pgsql_tmp";
/// The longest text between the path of a temporary file and its size: `», Größe `.
const SIZE_WORD_BYTES_MAX: usize = 40;

/// An event. Statements and messages are not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// `checkpoint`, `lock_wait`, `error` and others.
    pub kind: &'static str,
    /// The reason of a checkpoint, the kind of a lock, the table of a vacuum; may be empty.
    pub what: &'a [u8],
    pub duration_ns: Option<u64>,
    pub size_bytes: Option<u64>,
}

/// The place of a value in a message: after the first text, before the second one.
type Between = (&'static str, &'static str);

/// A message of the server that is an event.
struct Form {
    kind: &'static str,
    /// The message begins with one of these.
    starts: &'static [&'static str],
    /// In what follows the beginning; an empty text is its beginning or its end.
    what: Option<Between>,
    duration: Option<Between>,
}

const FORMS: &[Form] = &[
    form("checkpoint_began", &["checkpoint starting: ", "restartpoint starting: "])
        .saying(("", "")),
    form("checkpoint", &["checkpoint complete: ", "restartpoint complete: "])
        .lasting((" total=", " s")),
    form("lock_wait", &["process "])
        .saying((" still waiting for ", " "))
        .lasting((" after ", " ms")),
    form("lock_acquired", &["process "]).saying((" acquired ", " ")).lasting((" after ", " ms")),
    form(
        "autovacuum",
        &[
            "automatic vacuum of table \"",
            "automatic aggressive vacuum of table \"",
            "automatic vacuum to prevent wraparound of table \"",
            "automatic aggressive vacuum to prevent wraparound of table \"",
        ],
    )
    .saying(("", "\""))
    .lasting(("elapsed: ", " s")),
    form("autoanalyze", &["automatic analyze of table \""])
        .saying(("", "\""))
        .lasting(("elapsed: ", " s")),
    form("slow_statement", &["duration: "]).lasting(("", " ms")),
    // Before PostgreSQL 18, every session is a "server process".
    form(
        "crash",
        &[
            "server process (PID ",
            "client backend (PID ",
            "background worker \"",
            "autovacuum worker",
            "walsender",
            "checkpointer",
            "background writer",
            "startup process",
            "io worker",
        ],
    )
    .saying((") was terminated by ", ":")),
    form("started", &["database system is ready to accept"]),
    form("stopping", &["received "]).saying(("", " shutdown request")),
    form("deadlock", &["deadlock detected"]),
];

const fn form(kind: &'static str, starts: &'static [&'static str]) -> Form {
    Form { kind, starts, what: None, duration: None }
}

impl Form {
    const fn saying(self, what: Between) -> Form {
        Form { what: Some(what), ..self }
    }

    const fn lasting(self, duration: Between) -> Form {
        Form { duration: Some(duration), ..self }
    }

    fn read<'a>(&self, text: &'a [u8]) -> Option<Event<'a>> {
        let rest = self.starts.iter().find_map(|start| text.strip_prefix(start.as_bytes()))?;
        let what = match self.what {
            Some(place) => between(rest, place)?,
            None => b"",
        };
        let duration_ns = match self.duration {
            Some(place) => {
                let unit_ns = if place.1 == " ms" { 1_000_000.0 } else { 1_000_000_000.0 };
                let number =
                    std::str::from_utf8(between(rest, place)?).ok()?.parse::<f64>().ok()?;
                Some((number * unit_ns).round() as u64)
            }
            None => None,
        };
        Some(Event { kind: self.kind, what, duration_ns, size_bytes: None })
    }
}

impl Event<'_> {
    /// Returns the event of a message; None for messages that are not events.
    pub fn of(message: &Message) -> Option<Event<'_>> {
        let text = without_sqlstate(&message.text);
        let event = |kind, size_bytes| Event { kind, what: b"", duration_ns: None, size_bytes };
        if let Some(event) = FORMS.iter().find_map(|form| form.read(text)) {
            return Some(event);
        }
        if message.severity.is_error() {
            return Some(event("error", None));
        }
        Some(event("temporary_file", Some(size_of_temporary_file(text)?)))
    }
}

fn size_of_temporary_file(text: &[u8]) -> Option<u64> {
    let path = memmem::find(text, TEMPORARY_FILE)? + TEMPORARY_FILE.len();
    let is_of_path = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_./".contains(byte);
    let rest = &text[path + text[path..].iter().take_while(is_of_path).count()..];
    let start = rest.iter().position(u8::is_ascii_digit)?;
    let size = rest[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (start <= SIZE_WORD_BYTES_MAX).then(|| digits(&rest[start..start + size]))?
}

fn between(text: &[u8], (before, after): Between) -> Option<&[u8]> {
    let start = memmem::find(text, before.as_bytes())? + before.len();
    let rest = &text[start..];
    let end = if after.is_empty() { rest.len() } else { memmem::find(rest, after.as_bytes())? };
    Some(&rest[..end])
}
