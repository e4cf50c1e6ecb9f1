//! Messages of the drop-in on standard error, in pgbench's words and form.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use pgdyno_wire::{HandshakeError, ServerError};

use pgdyno_engine::caret::caret;
use pgdyno_engine::contract::job::HostPort;
use pgdyno_engine::session::SessionError;

/// libpq's message when a connection is lost.
pub(super) const SERVER_GONE: &str = "server closed the connection unexpectedly\n\t\
     This probably means the server terminated abnormally\n\t\
     before or while processing the request.";

/// The reason why the drop-in ends early: lines for standard error, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    lines: Vec<String>,
    pub exit_code: u8,
}

/// A `pgbench: error:` line that ends the program with exit code 1.
pub(super) fn fault(message: impl Into<String>) -> Fault {
    Fault { lines: vec![format!("pgbench: error: {}", message.into())], exit_code: 1 }
}

impl Fault {
    /// Return a message that points to `--help`.
    pub(super) fn usage(message: String) -> Fault {
        let hint = "pgbench: hint: Try \"pgbench --help\" for more information.";
        Fault { lines: vec![message, hint.into()], exit_code: 1 }
    }

    /// Return the answer to a request, which is not a fault. pgbench writes it to standard error.
    pub(super) fn answered(text: String) -> Fault {
        Fault { lines: vec![text], exit_code: 0 }
    }

    pub(super) fn detail(self, text: impl AsRef<str>) -> Fault {
        self.line(format!("pgbench: detail: {}", text.as_ref()))
    }

    pub(super) fn hint(self, text: impl AsRef<str>) -> Fault {
        self.line(format!("pgbench: hint: {}", text.as_ref()))
    }

    /// Add an error line.
    pub(super) fn and(self, message: impl AsRef<str>) -> Fault {
        self.line(format!("pgbench: error: {}", message.as_ref()))
    }

    /// Add a line, unchanged.
    pub(super) fn line(mut self, text: impl Into<String>) -> Fault {
        self.lines.push(text.into());
        self
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }

    pub(super) fn print(&self) {
        self.lines.iter().for_each(|line| eprintln!("{}", painted(line)));
    }
}

/// Print a line `pgbench: error: ...`, and continue.
pub(super) fn error(message: impl AsRef<str>) {
    eprintln!("{}", painted(&format!("pgbench: error: {}", message.as_ref())));
}

pub(super) fn warning(message: impl AsRef<str>) {
    eprintln!("{}", painted(&format!("pgbench: warning: {}", message.as_ref())));
}

pub(super) fn detail(message: impl AsRef<str>) {
    eprintln!("{}", painted(&format!("pgbench: detail: {}", message.as_ref())));
}

pub(super) fn info(message: impl AsRef<str>) {
    eprintln!("{}", painted(&format!("pgbench: {}", message.as_ref())));
}

/// Return the line with its first words in colour, if `PG_COLOR` demands it.
///
/// Source: `pg_logging_init`. Limits: `PG_COLORS` is not read; the colours are its defaults.
fn painted(line: &str) -> String {
    let wanted = std::env::var("PG_COLOR").unwrap_or_default();
    let is_on = wanted == "always" || wanted == "auto" && io::stderr().is_terminal();
    let rest = line.strip_prefix("pgbench: ").filter(|_| is_on);
    let Some(rest) = rest else { return line.to_owned() };
    let colours = [("error: ", 31), ("warning: ", 35), ("detail: ", 36), ("hint: ", 36)];
    let coloured = colours.iter().find_map(|(word, colour)| {
        let text = rest.strip_prefix(word)?;
        Some(format!("\x1b[01;{colour}m{word}\x1b[0m{text}"))
    });
    format!("\x1b[01mpgbench: \x1b[0m{}", coloured.as_deref().unwrap_or(rest))
}

/// Return a server's error in libpq's form: severity, message, place in `sql`, detail, hint.
pub(super) fn server_error(error: &ServerError, sql: &str) -> String {
    let mut text = format!("{}:  {}", error.severity, error.message);
    if let Some(position) = error.position {
        text.push_str(&format!("\n{}", caret(sql, position as usize)));
    }
    if let Some(detail) = &error.detail {
        text.push_str(&format!("\nDETAIL:  {detail}"));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\nHINT:  {hint}"));
    }
    // libpq shows no context for notices.
    let is_error = ["ERROR", "FATAL", "PANIC"].contains(&error.severity.as_str());
    if let Some(context) = error.context.as_ref().filter(|_| is_error) {
        text.push_str(&format!("\nCONTEXT:  {context}"));
    }
    text
}

/// Return libpq's message for a failed session.
pub(super) fn session_error(error: &SessionError, sql: &str) -> String {
    match error {
        SessionError::Server(error) => server_error(error, sql),
        SessionError::Lost(_) => SERVER_GONE.into(),
        other => other.to_string(),
    }
}

/// Return libpq's message for a connection that could not be made.
pub(super) fn connect_error(error: &SessionError, host: &HostPort) -> String {
    let is_socket = host.is_socket();
    let reason = match error {
        SessionError::Connect { error, .. } => {
            let said = error.to_string();
            // libpq's text does not have the number of the system's error.
            let said = said.split(" (os error").next().unwrap_or_default();
            if let Some(why) = said.strip_prefix("failed to lookup address information: ") {
                return format!(
                    "could not translate host name \"{}\" to address: {why}",
                    host.host
                );
            }
            let question = match is_socket {
                true => "Is the server running locally and accepting connections on that socket?",
                false => "Is the server running on that host and accepting TCP/IP connections?",
            };
            format!("{said}\n\t{question}")
        }
        SessionError::Handshake(error) => match &**error {
            HandshakeError::Server(error) => format!("{}:  {}", error.severity, error.message),
            HandshakeError::PasswordMissing => "fe_sendauth: no password supplied".into(),
            other => other.to_string(),
        },
        other => session_error(other, ""),
    };
    match is_socket {
        true => format!(
            "connection to server on socket \"{}/.s.PGSQL.{}\" failed: {reason}",
            host.host, host.port
        ),
        false => {
            let address = match error {
                SessionError::Connect { place, .. } => place.rsplit_once(':').map(|p| p.0),
                _ => None,
            };
            let address = address.map(|address| address.trim_matches(['[', ']']));
            let address = address.filter(|address| *address != host.host);
            let address = address.map_or(String::new(), |address| format!(" ({address})"));
            format!(
                "connection to server at \"{}\"{address}, port {} failed: {reason}",
                host.host, host.port
            )
        }
    }
}

/// The version of pgbench that this program imitates.
const OF_PGBENCH: &str = "18.4";

pub(super) fn version() -> String {
    format!("{OF_PGBENCH} pgdyno {}", env!("CARGO_PKG_VERSION"))
}

/// Print to standard output. A closed pipe is not an error.
pub(super) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::SUCCESS
}
