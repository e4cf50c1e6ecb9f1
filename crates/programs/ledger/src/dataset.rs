//! The two tables of the ledger: an entry for each commit, and a balance for each client.
//!
//! After a crash they show what became of each commit: an entry has its client, a number that
//! counts the client's commits, the number of its transaction, and a checksum. The balance of a
//! client is the sum of its entries. The entries begin empty, and no load removes them.

use pgdyno_engine::contract::job::InitWork;
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Piece, RowSource, Stage};
use pgdyno_engine::dataset::sql::mark_table;
use pgdyno_engine::dataset::{self, Dataset, Options};
use pgdyno_engine::dialect::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const ENTRIES: &str = "pgdyno_ledger";
const BALANCES: &str = "pgdyno_ledger_balances";
const ACCOUNTS_MAX: u32 = 1_000_000;

/// `id` comes from a sequence, which a crash must not set back. `checksum` is the SHA-256 of
/// client, sequence, amount and payload with colons between them; its index has entries in random
/// order.
const TABLES: [&str; 3] = [
    "create table pgdyno_ledger(client int not null, sequence bigint not null, \
     id bigint generated always as identity, xid xid8 not null default pg_current_xact_id(), \
     amount bigint not null, payload text not null, checksum bytea not null, \
     primary key (client, sequence))",
    "create index pgdyno_ledger_checksum on pgdyno_ledger(checksum)",
    // Each transaction updates a balance: free room on the page keeps the new version there.
    "create table pgdyno_ledger_balances(client int not null, balance bigint not null) \
     with (fillfactor=50)",
];

/// The tables of the ledger, which shows what became of each commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerOptions {
    /// 1..=1,000,000: number of balances. Each client of a load has one, numbered from 0.
    pub accounts: u32,
}

impl Dataset for LedgerOptions {
    fn tables(&self) -> Vec<&str> {
        vec![ENTRIES, BALANCES]
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        vec![(BALANCES, u64::from(self.accounts))]
    }

    fn stages(&self, how: &InitWork, server: Server) -> Vec<Stage> {
        let marks = [ENTRIES, BALANCES].map(|table| mark_table(table, &how.mark));
        let tables = TABLES.iter().map(|&sql| sql.to_owned()).chain(marks).collect();
        let rows = Box::new(Balances { next: 0, accounts: self.accounts });
        let key = format!("alter table {BALANCES} add primary key (client)");
        vec![vec![vec![
            dataset::creation(self, how, tables),
            Piece::copy_whole(BALANCES, rows, 0, server.dialect),
            Piece::transaction("key", PhaseName::Index, vec![key]),
            Piece::alone("vacuum", PhaseName::Vacuum, server.dialect.vacuum(BALANCES, false, true)),
        ]]]
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        let accounts = self.accounts;
        if (1..=ACCOUNTS_MAX).contains(&accounts) {
            return Vec::new();
        }
        vec![(format!("accounts must be 1 to {ACCOUNTS_MAX}, got {accounts}"), "correct the job")]
    }

    fn index_rows_max(&self) -> u64 {
        u64::from(self.accounts)
    }
}

impl Options for LedgerOptions {
    const KIND: &'static str = "ledger";
}

/// The balances of the clients, all zero.
#[derive(Debug)]
struct Balances {
    next: u32,
    accounts: u32,
}

impl RowSource for Balances {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let first = self.next;
        while out.len() < size && self.next < self.accounts {
            out.extend_from_slice(itoa::Buffer::new().format(self.next).as_bytes());
            out.extend_from_slice(b"\t0\n");
            self.next += 1;
        }
        u64::from(self.next - first)
    }

    fn count(&self) -> u64 {
        u64::from(self.accounts - self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_a_balance_of_zero() {
        let mut rows = Balances { next: 0, accounts: 3 };
        let mut out = Vec::new();
        assert_eq!((rows.count(), rows.fill(&mut out, 100), rows.count()), (3, 3, 0));
        assert_eq!(out, b"0\t0\n1\t0\n2\t0\n");
    }

    #[test]
    fn the_number_of_accounts_has_limits() {
        let rules = |accounts| LedgerOptions { accounts }.broken_rules();
        assert!(rules(1).is_empty() && rules(1_000_000).is_empty());
        for accounts in [0, 1_000_001] {
            let expected = format!("accounts must be 1 to 1000000, got {accounts}");
            assert_eq!(rules(accounts)[0].0, expected);
        }
    }
}
