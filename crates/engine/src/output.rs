//! Writes records to standard output, one JSON object per line.

use std::io::{self, BufWriter, Write};

use crate::contract::job::ClockPair;
use crate::contract::record::{Notice, Record, WarningKind};
use crate::refusal::Refusal;

/// Where records go.
#[derive(Debug)]
pub struct Output<W: Write> {
    out: BufWriter<W>,
    pub clock: ClockPair,
    /// Takes the records instead of the output.
    listener: Option<Listener>,
    /// The first error of writing. After it nothing is written.
    broken: Option<io::Error>,
}

/// A listener to records.
struct Listener(Box<dyn FnMut(&Record)>);

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

impl Output<io::Sink> {
    /// An output that passes records to `hear`, in this process, and writes nothing.
    pub fn heard(clock: ClockPair, hear: impl FnMut(&Record) + 'static) -> Output<io::Sink> {
        Output { listener: Some(Listener(Box::new(hear))), ..Output::new(io::sink(), clock) }
    }
}

impl<W: Write> Output<W> {
    pub fn new(out: W, clock: ClockPair) -> Output<W> {
        Output { out: BufWriter::with_capacity(1 << 16, out), clock, listener: None, broken: None }
    }

    /// Write a record. It leaves the buffer with the next `flush`.
    pub fn write(&mut self, record: &Record) {
        if let Some(Listener(hear)) = &mut self.listener {
            return hear(record);
        }
        if self.broken.is_some() {
            return;
        }
        let line = serde_json::to_vec(record).expect("records are plain data");
        let written = self.out.write_all(&line).and_then(|()| self.out.write_all(b"\n"));
        self.broken = written.err();
    }

    pub fn flush(&mut self) {
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
    }

    /// Return true if writing failed, because the reader has gone.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    pub fn refuse(&mut self, refusal: &Refusal, at_ns: u64) {
        self.write(&Record::Error(refusal.at(self.clock.unix_ns(at_ns))));
    }

    pub fn warn(&mut self, kind: WarningKind, message: String, hint: &str, at_ns: u64) {
        self.write(&Record::Warning(Notice {
            time_ns: self.clock.unix_ns(at_ns),
            kind,
            message,
            hint: hint.to_owned(),
        }));
    }
}
