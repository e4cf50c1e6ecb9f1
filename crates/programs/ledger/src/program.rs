//! The ledger: each transaction adds an entry to `pgdyno_ledger` and changes its client's balance.
//!
//! Its commits are recorded in the journal of the job. COMMIT has a separate round trip, because
//! the answer to it is the acknowledgement; everything before it shares one.
//!
//! The entries of a client are numbered 1, 2, 3 and so on. A number is used up when its COMMIT is
//! sent. So a number is missing in the table only if the journal has it in doubt or aborted, or if
//! the commit was lost.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pgdyno_script::Prng;
use sha2::{Digest, Sha256};

use pgdyno_engine::commit_journal::Entry;
use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::{
    Asked, BoxFuture, Done, Mix, Native, Planned, Running, Session, TransactionType, Transactions,
    Unready,
};

/// The program as `-b` knows it.
#[derive(Debug)]
pub struct Ledger;

const BEGIN: usize = 0;
const ADD: usize = 1;
const CHANGE: usize = 2;
const COMMIT: usize = 3;
const STATEMENTS: [&str; 4] = [
    "BEGIN",
    "INSERT INTO pgdyno_ledger (client, sequence, amount, payload, checksum) \
     VALUES ($1, $2, $3, $4, $5) RETURNING xid",
    "UPDATE pgdyno_ledger_balances SET balance = balance + $2 WHERE client = $1",
    "COMMIT",
];

/// Payloads have 2 to 10 words of 16 characters.
const WORDS: (i64, i64) = (2, 10);

impl Native for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn description(&self) -> &'static str {
        "ledger: entries with checksum and balance, whose commits can be checked after a crash"
    }

    fn dataset(&self) -> &'static str {
        "ledger"
    }

    fn records_commits(&self) -> bool {
        true
    }

    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String> {
        let entry = TransactionType {
            name: "ledger".to_owned(),
            weight: 1,
            statements: STATEMENTS.map(str::to_owned).into(),
            ..TransactionType::default()
        };
        let transactions =
            Arc::new(Run { clients: asked.terminal_count, next: OnceLock::default() });
        Ok(Planned { types: vec![entry], mix: Mix::Chance, transactions, settings: Vec::new() })
    }
}

/// A run: the next number of each client, after the tables were read.
#[derive(Debug)]
struct Run {
    clients: u32,
    next: OnceLock<Vec<AtomicU64>>,
}

impl Transactions for Run {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(self.look_at_tables(session))
    }

    fn run<'s>(&'s self, _number: usize, session: Session<'s>) -> Running<'s> {
        Box::pin(self.add_entry(session))
    }
}

impl Run {
    /// Read the last number of each client.
    async fn look_at_tables(&self, session: Session<'_>) -> Result<(), Unready> {
        let sql = format!(
            "SELECT coalesce((SELECT max(sequence) FROM pgdyno_ledger AS entry \
             WHERE entry.client = account.client), 0) FROM pgdyno_ledger_balances AS account \
             WHERE client BETWEEN 0 AND {} ORDER BY client",
            i64::from(self.clients) - 1
        );
        let read = |rows: &mut pgdyno_engine::program::Rows| {
            let mut next = Vec::new();
            while let Some((last,)) = rows.next_row::<(u64,)>()? {
                next.push(AtomicU64::new(last + 1));
            }
            Ok(next)
        };
        let next = session.ask(&sql, read).await?;
        if next.len() < self.clients as usize {
            return Err(Unready::Refused {
                message: format!(
                    "{} clients need a balance each in pgdyno_ledger_balances, which has {} of \
                     them",
                    self.clients,
                    next.len()
                ),
                hint: format!("load them again: pgdyno init ledger --accounts {}", self.clients),
            });
        }
        // Every thread reads the same numbers, because no transaction has begun.
        self.next.get_or_init(|| next);
        Ok(())
    }

    async fn add_entry(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let client = session.terminal();
        let next = &self.next.get().expect("the tables are read before the load")[client as usize];
        // Relaxed: only the thread of this client uses its number.
        let sequence = next.load(Ordering::Relaxed);
        let (amount, payload) = session.random(draw);
        let checksum = checksum(client, sequence, amount, &payload);
        let pipeline = session.pipeline();
        pipeline
            .add(BEGIN, &[])
            .add(ADD, &[&client, &sequence, &amount, &payload, &checksum])
            .add(CHANGE, &[&client, &amount]);
        let xid = pipeline
            .send(|rows| {
                rows.count()?;
                let (xid,) = rows.one::<(u64,)>()?;
                rows.wrote(1)?;
                Ok(xid)
            })
            .await?;
        next.store(sequence + 1, Ordering::Relaxed);
        session.commit(COMMIT, Entry { client, sequence, xid }).await?;
        Ok(Done::Committed)
    }
}

/// Draw the amount and the payload of an entry.
fn draw(random: &mut Prng) -> (i64, String) {
    let amount = random.uniform(-5000, 5000);
    let words = random.uniform(WORDS.0, WORDS.1);
    let mut payload = String::with_capacity(16 * words as usize);
    for _ in 0..words {
        write!(payload, "{:016x}", random.uniform(0, i64::MAX - 1)).expect("memory suffices");
    }
    (amount, payload)
}

/// The checksum of an entry, as PostgreSQL reads a bytea.
fn checksum(client: u32, sequence: u64, amount: i64, payload: &str) -> String {
    let digest = Sha256::digest(format!("{client}:{sequence}:{amount}:{payload}"));
    let mut text = String::with_capacity(2 + 2 * digest.len());
    text.push_str("\\x");
    digest.iter().for_each(|byte| write!(text, "{byte:02x}").expect("memory suffices"));
    text
}

#[cfg(test)]
mod tests {
    use pgdyno_engine::contract::job::{Job, Protocol, ScriptSource, ScriptText, Work};
    use pgdyno_engine::plan::Plan;

    use super::*;

    #[test]
    fn payloads_differ_in_length_and_content() {
        let mut random = Prng::from_seed(3);
        let drawn: Vec<_> = (0..200).map(|_| draw(&mut random)).collect();
        for words in 2..=10 {
            assert!(drawn.iter().any(|(_, payload)| payload.len() == 16 * words), "{words}");
        }
        assert!(drawn.iter().all(|(amount, _)| (-5000..=5000).contains(amount)));
        let mut payloads: Vec<_> = drawn.iter().map(|(_, payload)| payload).collect();
        payloads.sort();
        payloads.dedup();
        assert_eq!(payloads.len(), 200);
    }

    #[test]
    fn the_checksum_is_sha_256_of_all_that_an_entry_says() {
        // printf %s 7:1:-3:ab | sha256sum
        let expected = "\\x33378e97c2645d57c0f183736119001f2c9357c38623f122241a2efa9f322e16";
        assert_eq!(checksum(7, 1, -3, "ab"), expected);
    }

    #[test]
    fn a_journal_needs_exactly_one_program_that_records_commits() {
        let with = |builtins: &[&str]| {
            let any_job = include_str!("../../../engine/tests/job.json");
            let mut job: Job = serde_json::from_str(any_job).expect("a job");
            let Work::Load(work) = &mut job.work else { panic!("this job loads") };
            let source = work.scripts[0].clone();
            let entry = |&name: &&str| ScriptSource {
                name: name.into(),
                source: ScriptText::Builtin(name.into()),
                weight: 1,
                ..source.clone()
            };
            work.scripts = builtins.iter().map(entry).collect();
            work.protocol = Protocol::Prepared;
            work.journal = Some("/var/tmp/commits".into());
            let work = work.clone();
            Plan::new(&job, &work, &[&Ledger])
        };
        assert!(with(&["ledger", "tpcb-like"]).is_ok());
        for (builtins, count) in [(&["tpcb-like"][..], 0), (&["ledger", "ledger"], 2)] {
            let said = with(builtins).unwrap_err()[0].message.clone();
            let rule = "a journal needs one program that records its commits";
            assert_eq!(said, format!("{rule}, got {count} of them"));
        }
    }
}
