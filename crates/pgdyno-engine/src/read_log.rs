//! `read-log`: opens logs, unpacks them, puts them into order, and writes what they say.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use pgdyno_logs::{Beginning, Counts, Format, Lines, Prefix, Reader, Trouble, Written};
use ruzstd::decoding::StreamingDecoder;
use serde::Serialize;

/// How much of a file decides what its format is.
pub(crate) const HEAD_BYTES: u64 = 256 << 10;
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// A line that is not about a statement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    /// A file, in the order in which they are read.
    File {
        path: String,
        format: &'static str,
        prefix: Option<String>,
        first_us: Option<i64>,
    },
    /// The rest of this file could not be read.
    Damaged {
        path: String,
        message: String,
    },
    Refused {
        kind: &'static str,
        path: String,
        message: String,
    },
    End(Box<End>),
}

#[derive(Debug, Serialize)]
struct End {
    language: &'static str,
    bytes: u64,
    messages: u64,
    statements: u64,
    errors: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
    unreadable_lines: u64,
    cut_messages: u64,
    torn_messages: u64,
    incomplete_messages: u64,
    cut_statements: u64,
    nul_bytes: u64,
    not_utf8_texts: u64,
    without_session: u64,
    clock_steps: u64,
    durations_alone: u64,
    shortest_us: Option<u64>,
    has_whole_seconds: bool,
}

impl End {
    fn new(language: &'static str, counts: &Counts, written: &Written) -> End {
        End {
            language,
            bytes: counts.bytes,
            messages: counts.messages,
            statements: written.statements,
            errors: written.errors,
            first_us: written.first_ns.map(|time_ns| time_ns / 1000),
            last_us: written.last_ns.map(|time_ns| time_ns / 1000),
            unreadable_lines: counts.unreadable_lines,
            cut_messages: counts.cut_messages,
            torn_messages: counts.torn_messages,
            incomplete_messages: counts.incomplete_messages,
            cut_statements: written.cut_statements,
            nul_bytes: counts.nul_bytes,
            not_utf8_texts: written.not_utf8_texts,
            without_session: written.without_session,
            clock_steps: written.clock_steps,
            durations_alone: written.durations_alone,
            shortest_us: written.shortest_ns.map(|time_ns| time_ns / 1000),
            has_whole_seconds: written.has_whole_seconds,
        }
    }
}

/// Read the logs that the arguments name. Returns false if they were refused; the reason is
/// written. Errors: of writing.
pub(crate) fn main(arguments: &[OsString], out: &mut impl Write) -> io::Result<bool> {
    let (keeps_whole, arguments) = match arguments {
        [option, others @ ..] if option == "--whole-values" => (true, others),
        others => (false, others),
    };
    let (prefix, paths) = match arguments {
        [option, prefix, paths @ ..] if option == "--prefix" => (Some(prefix), paths),
        paths => (None, paths),
    };
    let prefix = prefix.map(|setting| Prefix::new(&setting.to_string_lossy()));
    let mut files = Vec::new();
    for path in paths {
        let path = PathBuf::from(path);
        match beginning(&path, prefix.as_ref()) {
            Ok(beginning) => files.push((path, beginning)),
            Err(note) => return write(out, &note).map(|()| false),
        }
    }
    // A file without a message, such as a new one after a rotation, is read last.
    files.sort_by_key(|(_, beginning)| beginning.time_ns.unwrap_or(i64::MAX));
    let Some((_, first)) = files.first() else { return Ok(false) };
    let mut reader = Reader::new(&first.format);
    let mut lines = Lines::new(keeps_whole);
    for (path, beginning) in &files {
        if beginning.format.name() != first.format.name() {
            let message =
                format!("it is {}, others are {}", beginning.format.name(), first.format.name());
            write(out, &refused("formats", path, message))?;
            return Ok(false);
        }
    }
    for (path, beginning) in &files {
        write(out, &file_note(path, beginning))?;
        if let Err(failure) = read(path, &mut reader, &mut lines, out)? {
            let message = failure.to_string();
            write(out, &Note::Damaged { path: shown(path), message })?;
        }
    }
    let mut rest = Vec::new();
    lines.end(&mut rest);
    out.write_all(&rest)?;
    write(
        out,
        &Note::End(Box::new(End::new(lines.language(), reader.counts(), &lines.written()))),
    )?;
    Ok(true)
}

/// Read one file. The outer error is of writing, the inner one of reading.
fn read(
    path: &Path,
    reader: &mut Reader,
    lines: &mut Lines,
    out: &mut impl Write,
) -> io::Result<io::Result<()>> {
    let mut buffer = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut input = match opened(path) {
        Ok(input) => input,
        Err(failure) => return Ok(Err(failure)),
    };
    loop {
        let failure = match input.read(&mut chunk) {
            Ok(0) => None,
            Ok(length) => {
                reader.feed(&chunk[..length], &mut |message| lines.message(message, &mut buffer));
                out.write_all(&buffer)?;
                buffer.clear();
                continue;
            }
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => continue,
            Err(failure) => Some(failure),
        };
        reader.end_of_file(&mut |message| lines.message(message, &mut buffer));
        out.write_all(&buffer)?;
        return Ok(failure.map_or(Ok(()), Err));
    }
}

fn beginning(path: &Path, prefix: Option<&Prefix>) -> Result<Beginning, Note> {
    let mut head = Vec::new();
    let mut input = opened(path).map_err(|failure| refused("file", path, failure.to_string()))?;
    // A damaged archive may still have a beginning.
    let unpacked = input.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
    if let (Err(failure), true) = (unpacked, head.is_empty()) {
        return Err(refused("file", path, failure.to_string()));
    }
    Beginning::of(&head, prefix).map_err(|trouble| match trouble {
        Trouble::Prefix => refused(
            "prefix",
            path,
            "its lines do not begin with a known log_line_prefix".to_owned(),
        ),
        Trouble::NoSession => {
            refused("no_session", path, "log_line_prefix has neither %c nor %p".to_owned())
        }
        Trouble::NoTime => {
            refused("no_time", path, "log_line_prefix has none of %m, %t and %n".to_owned())
        }
        Trouble::NewestFirst => {
            refused("newest_first", path, "its newest line is first".to_owned())
        }
    })
}

fn file_note(path: &Path, beginning: &Beginning) -> Note {
    let prefix = match &beginning.format {
        Format::Stderr(prefix) | Format::Syslog(prefix) => Some(prefix.setting().to_owned()),
        Format::Csv | Format::Json => None,
    };
    let first_us = beginning.time_ns.map(|time_ns| time_ns / 1000);
    Note::File { path: shown(path), format: beginning.format.name(), prefix, first_us }
}

fn refused(kind: &'static str, path: &Path, message: String) -> Note {
    Note::Refused { kind, path: shown(path), message }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn write(out: &mut impl Write, note: &Note) -> io::Result<()> {
    serde_json::to_writer(&mut *out, note)?;
    out.write_all(b"\n")
}

/// Open a file; what its first bytes say decides how it is unpacked, not its name.
pub(crate) fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let magic = file.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        Ok(Box::new(MultiGzDecoder::new(file)))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Ok(Box::new(Frames { input: Some(file), frame: None }))
    } else {
        Ok(Box::new(file))
    }
}

type Frame = StreamingDecoder<BufReader<File>, ruzstd::decoding::FrameDecoder>;

/// All frames of a file that zstd packed, one after the other.
struct Frames {
    input: Option<BufReader<File>>,
    frame: Option<Frame>,
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let length = frame.read(buffer)?;
                if length > 0 {
                    return Ok(length);
                }
                self.input = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut input) = self.input.take() else { return Ok(0) };
            if input.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new(input).map_err(io::Error::other)?;
            self.frame = Some(frame);
        }
    }
}
