//! `read-events`: writes what a log says about the server, one event a line, without its messages.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use pgdyno_logs::{Beginning, Event, Format, Message, Prefix, Reader};
use serde::Serialize;

use crate::read_log::{CHUNK_BYTES, HEAD_BYTES, opened};

/// Used if the prefix of a log is not given. It reads a line with any beginning of up to 200 bytes
/// before the severity, but not the time.
const ANY_PREFIX: &str = "%a";

#[derive(Serialize)]
struct Said<'a> {
    time_ns: Option<i64>,
    kind: &'static str,
    severity: &'static str,
    sqlstate: &'a str,
    what: &'a str,
    duration_ns: Option<u64>,
    size_bytes: Option<u64>,
    /// Who the message is about; empty if the log does not have it.
    user: &'a str,
    application: &'a str,
    pid: Option<u32>,
}

/// Read the log that the arguments name, `-` for standard input. Returns false if it could not be
/// read; the reason is written. Errors: of writing.
pub(crate) fn main(arguments: &[OsString], out: &mut impl Write) -> io::Result<bool> {
    let (prefix, path) = match arguments {
        [option, prefix, path] if option == "--prefix" => (Some(prefix), path),
        [path] => (None, path),
        _ => return Ok(false),
    };
    let prefix = prefix.map(|setting| Prefix::new(&setting.to_string_lossy()));
    let mut result = Ok(());
    let mut write = |message: &Message| {
        if let (Some(event), true) = (Event::of(message), result.is_ok()) {
            result = written(message, &event, prefix.is_some(), out);
        }
    };
    let read = read(Path::new(path), prefix.as_ref(), &mut write);
    result?;
    if let Err(failure) = &read {
        serde_json::to_writer(&mut *out, &serde_json::json!({ "damaged": failure.to_string() }))?;
        out.write_all(b"\n")?;
    }
    Ok(read.is_ok())
}

fn read(path: &Path, prefix: Option<&Prefix>, sink: &mut dyn FnMut(&Message)) -> io::Result<()> {
    let mut input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { opened(path)? };
    let mut bytes = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes)?;
    let format = match Beginning::of(&bytes, prefix) {
        Ok(Beginning {
            format: format @ (Format::Csv | Format::Json | Format::Syslog(_)), ..
        }) => format,
        // Events need neither a session nor a time, and lines may have more than one prefix.
        _ => Format::Stderr(prefix.cloned().unwrap_or_else(|| Prefix::new(ANY_PREFIX))),
    };
    let mut reader = Reader::new(&format);
    while !bytes.is_empty() {
        reader.feed(&bytes, sink);
        bytes.clear();
        input.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
    }
    // The last line may have no end.
    reader.feed(b"\n", sink);
    reader.end_of_file(sink);
    Ok(())
}

/// `is_named`: the prefix is the server's own, so its names are names and not any beginning.
fn written(
    message: &Message,
    event: &Event<'_>,
    is_named: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let sqlstate = String::from_utf8_lossy(&message.sqlstate);
    let user = String::from_utf8_lossy(&message.user);
    let application = String::from_utf8_lossy(&message.application);
    let said = Said {
        time_ns: message.time_ns,
        kind: event.kind,
        severity: message.severity.name(),
        sqlstate: if sqlstate == "00000" { "" } else { &sqlstate },
        what: &String::from_utf8_lossy(event.what),
        duration_ns: event.duration_ns,
        size_bytes: event.size_bytes,
        user: if is_named { &user } else { "" },
        application: if is_named { &application } else { "" },
        pid: if is_named { message.pid() } else { None },
    };
    serde_json::to_writer(&mut *out, &said)?;
    out.write_all(b"\n")
}
