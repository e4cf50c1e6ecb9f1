//! The journal of commits: a file that says which commits the server acknowledged, and when.
//!
//! The lab compares it with the tables after a crash. Format, in little endian: a head of 40 bytes
//! ("pgdyno commits 1", the number of threads as u32, zeros), then one record of 40 bytes for each
//! commit and for each thread that ended:
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | number of the client, or of the thread that ended, u32 |
//! | 4..8 | what became of the commit (`Fate`), u32 |
//! | 8..16 | the client's number of the commit, u64 |
//! | 16..24 | number of the transaction (`pg_current_xact_id`), u64 |
//! | 24..32 | when COMMIT was sent, Unix nanoseconds, u64 |
//! | 32..40 | when its answer came, or the hope for an answer ended, Unix nanoseconds, u64 |
//!
//! A commit is recorded when its fate is known: acknowledged only after its CommandComplete has
//! arrived. A thread writes the records of a turn of its loop at the end of the turn, with one
//! system call. So a killed engine leaves whole records, and all of them are true. At most one
//! commit of each client is missing, and the records of one turn; then the record that a thread
//! ended is missing, too. The file is in the kernel's cache and is not synced: it survives a crash
//! of the engine, and not of its host.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::contract::job::ClockPair;
use crate::contract::record::ErrorKind;
use crate::refusal::Refusal;

const HEAD: &[u8; 16] = b"pgdyno commits 1";
const RECORD_BYTES: usize = 40;

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fate {
    Acknowledged = 1,
    /// COMMIT was sent and no answer came, so it may have happened. So has a commit whose answer
    /// came after the load had asked the server to cancel it: a server that gives up waiting for
    /// its standby answers COMMIT, too.
    InDoubt = 2,
    /// The server answered that the transaction was rolled back.
    Aborted = 3,
}

impl Fate {
    /// Return the fate of an answered commit.
    ///
    /// Args: `is_cancelling`, true if the server was asked to cancel what runs.
    pub fn of(is_committed: bool, is_cancelling: bool) -> Fate {
        match (is_committed, is_cancelling) {
            (false, _) => Fate::Aborted,
            (true, true) => Fate::InDoubt,
            (true, false) => Fate::Acknowledged,
        }
    }
}

/// Code of the record that a thread has ended.
const THREAD_ENDED: u32 = 4;

/// A commit, as the program that makes it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub client: u32,
    /// Number among the commits of the client.
    pub sequence: u64,
    /// Number of the transaction.
    pub xid: u64,
}

/// A commit that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub entry: Entry,
    pub sent_ns: u64,
}

/// The journal of one thread.
#[derive(Debug)]
pub struct CommitJournal {
    file: Arc<Mutex<File>>,
    clock: ClockPair,
    /// Records that are not written yet.
    buffer: Vec<u8>,
}

impl CommitJournal {
    /// Make the file.
    ///
    /// Errors: it exists, or cannot be made.
    pub fn create(path: &str, threads: u32, clock: ClockPair) -> Result<CommitJournal, Refusal> {
        let refuse = |error: io::Error| {
            let message = format!("the journal {path} cannot be made: {error}");
            Refusal::new(ErrorKind::System, message, "name a new file in an existing folder")
        };
        let mut options = OpenOptions::new();
        let mut file =
            options.append(true).create_new(true).mode(0o600).open(path).map_err(refuse)?;
        let mut head = [0; RECORD_BYTES];
        head[..16].copy_from_slice(HEAD);
        head[16..20].copy_from_slice(&threads.to_le_bytes());
        file.write_all(&head).map_err(refuse)?;
        Ok(CommitJournal { file: Arc::new(Mutex::new(file)), clock, buffer: Vec::new() })
    }

    /// Return the journal of another thread, in the same file.
    pub fn share(&self) -> CommitJournal {
        CommitJournal { file: Arc::clone(&self.file), clock: self.clock, buffer: Vec::new() }
    }

    /// Add a commit to the records of this turn.
    pub fn add(&mut self, Sent { entry, sent_ns }: Sent, fate: Fate, ended_ns: u64) {
        let times_ns = [sent_ns, ended_ns].map(|at_ns| self.clock.unix_ns(at_ns));
        self.push(entry.client, fate as u32, [entry.sequence, entry.xid, times_ns[0], times_ns[1]]);
    }

    /// Add that this thread has ended: no commit of its clients is missing.
    pub fn add_end(&mut self, thread: u32, at_ns: u64) {
        let at_ns = self.clock.unix_ns(at_ns);
        self.push(thread, THREAD_ENDED, [0, 0, at_ns, at_ns]);
    }

    fn push(&mut self, number: u32, code: u32, words: [u64; 4]) {
        self.buffer.extend_from_slice(&number.to_le_bytes());
        self.buffer.extend_from_slice(&code.to_le_bytes());
        words.iter().for_each(|word| self.buffer.extend_from_slice(&word.to_le_bytes()));
    }

    /// Write the records of this turn.
    ///
    /// Errors: not all of them were written. Then nothing may be added any more.
    #[inline]
    pub fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        // Subtle: while one thread holds the lock, its records are whole even if the kernel takes
        // them in several parts.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

/// Return the refusal of a load whose journal has no more room.
#[cold]
pub fn not_written(error: &io::Error) -> Refusal {
    let message = format!("the journal of the commits was not written: {error}");
    Refusal::new(ErrorKind::System, message, "make room where the journal is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_file_of_whole_records_and_an_existing_file_stays() {
        let folder = std::env::temp_dir().join(format!("pgdyno-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("commits");
        let text = path.to_str().expect("text");
        let clock = ClockPair { monotonic_ns: 1000, unix_ns: 5000 };
        let mut first = CommitJournal::create(text, 2, clock).expect("a new file");
        let mut second = first.share();
        let sent = |client| Sent { entry: Entry { client, sequence: 9, xid: 77 }, sent_ns: 1001 };
        first.add(sent(4), Fate::Acknowledged, 1003);
        second.add(sent(5), Fate::InDoubt, 1004);
        second.write().expect("space");
        first.write().expect("space");
        first.add_end(0, 1005);
        first.write().expect("space");
        let bytes = std::fs::read(&path).expect("written");
        let (head, records) = bytes.split_at(40);
        assert_eq!((&head[..16], head[16]), (&HEAD[..], 2));
        let word = |record: &[u8], at: usize| {
            u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
        };
        let seen: Vec<_> = records
            .chunks_exact(40)
            .map(|record| (record[0], record[4], [8, 16, 24, 32].map(|at| word(record, at))))
            .collect();
        let expected =
            [(5, 2, [9, 77, 5001, 5004]), (4, 1, [9, 77, 5001, 5003]), (0, 4, [0, 0, 5005, 5005])];
        assert_eq!(seen, expected);
        let refusal = CommitJournal::create(text, 1, clock).expect_err("it exists");
        assert!(refusal.message.contains("exists"), "{}", refusal.message);
        assert_eq!(std::fs::read(&path).expect("still there"), bytes);
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
