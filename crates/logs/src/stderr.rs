//! Logs as the server writes them to standard error: lines with a prefix.

use std::mem;

use crate::message::{Counts, Label, MESSAGE_BYTES_MAX, Message, label};
use crate::prefix::Prefix;
use crate::syslog::Head;

/// Where the next lines that begin with a tab belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    Detail,
    Statement,
    Nowhere,
}

/// Joins lines to messages.
#[derive(Debug)]
pub(crate) struct Stderr {
    prefix: Prefix,
    message: Message,
    is_pending: bool,
    part: Part,
    next: Message,
    bytes: usize,
}

impl Stderr {
    pub(crate) fn new(prefix: Prefix) -> Stderr {
        Stderr {
            prefix,
            message: Message::default(),
            is_pending: false,
            part: Part::Nowhere,
            next: Message::default(),
            bytes: 0,
        }
    }

    /// Read the lines of a message that came through syslog.
    pub(crate) fn lines(
        &mut self,
        head: &Head,
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Message),
    ) {
        for line in head.text.split(|byte| *byte == b'\n') {
            self.line(line, Some(head), counts, sink);
        }
    }

    /// `head`: what syslog says of the line; it counts where the prefix says nothing.
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        head: Option<&Head>,
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Message),
    ) {
        if let Some(rest) = line.strip_prefix(b"\t") {
            return self.append(b"\n", rest, counts);
        }
        self.next.clear();
        let Some((text_start, label_start)) = self.prefix.read(line, &mut self.next) else {
            counts.unreadable_lines += u64::from(!line.is_empty());
            self.part = Part::Nowhere;
            return;
        };
        if let Some(head) = head {
            let next = &mut self.next;
            if next.time_ns.is_none() {
                (next.time_ns, next.is_whole_second) = (head.time_ns, head.is_whole_second);
            }
            if next.session.is_empty() {
                next.session.extend_from_slice(&head.pid);
            }
        }
        let word = &line[label_start..text_start - 3];
        let text = &line[text_start..];
        match label(word) {
            Some(Label::Begins(severity)) => {
                self.end(counts, sink);
                mem::swap(&mut self.message, &mut self.next);
                self.message.severity = severity;
                self.is_pending = true;
                self.bytes = 0;
                self.part = Part::Text;
                self.append(b"", text, counts);
            }
            Some(label) if self.is_pending && self.next.session == self.message.session => {
                self.part = match label {
                    Label::Detail => Part::Detail,
                    Label::Statement => Part::Statement,
                    _ => Part::Nowhere,
                };
                self.append(b"", text, counts);
            }
            _ => {
                counts.unreadable_lines += 1;
                self.part = Part::Nowhere;
            }
        }
    }

    /// `torn`: the last line if it has no end. The message to which it may belong is dropped.
    pub(crate) fn end_of_file(
        &mut self,
        torn: &[u8],
        counts: &mut Counts,
        sink: &mut dyn FnMut(&Message),
    ) {
        self.next.clear();
        let read = self.prefix.read(torn, &mut self.next);
        let label = read.map(|(text, start)| label(&torn[start..text - 3]));
        let has_values = !self.message.detail.is_empty();
        let is_of_next = match label {
            Some(label) => matches!(label, Some(Label::Begins(_))),
            // A line that is cut within its prefix may have had the parameters.
            None => torn.is_empty() || has_values && !torn.starts_with(b"\t"),
        };
        self.is_pending &= is_of_next;
        counts.torn_messages += u64::from(!torn.is_empty());
        self.end(counts, sink);
    }

    /// Pass on the last message.
    fn end(&mut self, counts: &mut Counts, sink: &mut dyn FnMut(&Message)) {
        if mem::take(&mut self.is_pending) {
            counts.messages += 1;
            sink(&self.message);
        }
        self.part = Part::Nowhere;
    }

    fn append(&mut self, separator: &[u8], text: &[u8], counts: &mut Counts) {
        let part = match self.part {
            Part::Text => &mut self.message.text,
            Part::Detail => &mut self.message.detail,
            Part::Statement => &mut self.message.statement,
            // The rest of a message whose beginning is missing, or of a part that nobody needs.
            Part::Nowhere => return,
        };
        self.bytes += text.len();
        if self.bytes > MESSAGE_BYTES_MAX {
            counts.cut_messages += 1;
            self.part = Part::Nowhere;
            return;
        }
        part.extend_from_slice(separator);
        part.extend_from_slice(text);
    }
}
