//! The rows of the pgbench tables, in COPY's text format.
//!
//! Text and binary COPY cost the server the same (measured on 15 and 18), and text has less than
//! half the bytes. Rows of one branch differ only in their number. So a row is a decimal counter,
//! incremented in place, and a constant tail.

use super::ddl::{ACCOUNTS_PER_BRANCH, TELLERS_PER_BRANCH};
use pgdyno_engine::dataset::partition_hash::partition_of;
use pgdyno_engine::dataset::piece::RowSource;

/// Consecutive rows of one table.
#[derive(Clone, Debug)]
pub struct Rows {
    id: DecimalCounter,
    next: u64,
    last: u64,
    /// Number of rows of one branch, which have the same tail; None if no column names the branch.
    per_branch: Option<u64>,
    /// The end of each row, after the number of the branch.
    ending: &'static [u8],
    tail: Vec<u8>,
    only: Option<HashPartition>,
}

/// Rows of one leaf of a table that is partitioned by hash.
#[derive(Clone, Copy, Debug)]
pub struct HashPartition {
    pub modulus: u32,
    pub remainder: u32,
    /// The key is a bigint.
    pub wide: bool,
}

impl Rows {
    pub fn branches(scale: u32) -> Rows {
        Rows::new(1, u64::from(scale), None, b"\t0\t\\N\n")
    }

    pub fn tellers(scale: u32) -> Rows {
        let last = u64::from(scale) * TELLERS_PER_BRANCH;
        Rows::new(1, last, Some(TELLERS_PER_BRANCH), b"\t0\t\\N\n")
    }

    /// Accounts `first..=last`.
    pub fn accounts(first: u64, last: u64) -> Rows {
        Rows::new(first, last, Some(ACCOUNTS_PER_BRANCH), b"\t0\t\n")
    }

    /// Leave out the columns that are the same in every account.
    pub(super) fn without_constants(self) -> Rows {
        let mut rows = Rows { ending: b"\n", ..self };
        rows.begin_branch();
        rows
    }

    /// Keep the rows of one hash partition only.
    pub fn only(self, partition: HashPartition) -> Rows {
        Rows { only: Some(partition), ..self }
    }

    fn new(first: u64, last: u64, per_branch: Option<u64>, ending: &'static [u8]) -> Rows {
        let mut rows = Rows {
            id: DecimalCounter::new(first),
            next: first,
            last,
            per_branch,
            ending,
            tail: Vec::new(),
            only: None,
        };
        rows.begin_branch();
        rows
    }

    fn begin_branch(&mut self) {
        self.tail.clear();
        if let Some(count) = self.per_branch {
            let branch = (self.next - 1) / count + 1;
            self.tail.push(b'\t');
            self.tail.extend_from_slice(branch.to_string().as_bytes());
        }
        self.tail.extend_from_slice(self.ending);
    }
}

impl RowSource for Rows {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let mut count = 0;
        while out.len() < size && self.next <= self.last {
            let in_partition = match self.only {
                None => true,
                Some(leaf) => partition_of(self.next, leaf.wide, leaf.modulus) == leaf.remainder,
            };
            if in_partition {
                out.extend_from_slice(self.id.digits());
                out.extend_from_slice(&self.tail);
                count += 1;
            }
            self.id.increment();
            self.next += 1;
            if self.per_branch.is_some_and(|count| (self.next - 1).is_multiple_of(count)) {
                self.begin_branch();
            }
        }
        count
    }

    /// For a hash partition the count is an estimate: all partitions count as equally large.
    fn count(&self) -> u64 {
        let count = (self.last + 1).saturating_sub(self.next);
        self.only.map_or(count, |leaf| count / u64::from(leaf.modulus))
    }
}

/// A number kept as its decimal digits.
#[derive(Clone, Debug)]
struct DecimalCounter {
    bytes: [u8; 20],
    begin: usize,
}

impl DecimalCounter {
    fn new(value: u64) -> DecimalCounter {
        let text = value.to_string();
        let begin = 20 - text.len();
        let mut bytes = [b'0'; 20];
        bytes[begin..].copy_from_slice(text.as_bytes());
        DecimalCounter { bytes, begin }
    }

    #[inline]
    fn digits(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    #[inline]
    fn increment(&mut self) {
        let mut place = self.bytes.len() - 1;
        while self.bytes[place] == b'9' {
            self.bytes[place] = b'0';
            place -= 1;
        }
        self.bytes[place] += 1;
        self.begin = self.begin.min(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mut rows: Rows, size: usize) -> (String, u64) {
        let (mut all, mut total) = (String::new(), 0);
        loop {
            let mut buffer = Vec::new();
            let count = rows.fill(&mut buffer, size);
            all.push_str(std::str::from_utf8(&buffer).expect("rows are ASCII"));
            total += count;
            if buffer.is_empty() {
                return (all, total);
            }
        }
    }

    #[test]
    fn rows_are_those_of_pgbench() {
        assert_eq!(text(Rows::branches(2), 999), ("1\t0\t\\N\n2\t0\t\\N\n".into(), 2));
        let (tellers, count) = text(Rows::tellers(2), 1);
        assert_eq!(count, 20);
        assert!(tellers.contains("10\t1\t0\t\\N\n11\t2\t0\t\\N\n"));
        let (accounts, count) = text(Rows::accounts(99_999, 100_001), 20);
        assert_eq!(accounts, "99999\t1\t0\t\n100000\t1\t0\t\n100001\t2\t0\t\n");
        assert_eq!(count, 3);
        let short = Rows::accounts(100_000, 100_001).without_constants();
        assert_eq!(short.count(), 2);
        assert_eq!(text(short, 20).0, "100000\t1\n100001\t2\n");
    }

    #[test]
    fn numbers_grow_over_every_power_of_ten() {
        let (accounts, _) = text(Rows::accounts(1, 100_002), 4096);
        for (index, line) in accounts.lines().enumerate() {
            assert_eq!(line.split('\t').next(), Some((index + 1).to_string().as_str()));
        }
        let (wide, _) = text(Rows::accounts(9_999_999_999, 10_000_000_000), 999);
        assert_eq!(wide, "9999999999\t100000\t0\t\n10000000000\t100000\t0\t\n");
    }

    #[test]
    fn every_row_is_in_exactly_one_hash_partition() {
        let leaf = |remainder| {
            let partition = HashPartition { modulus: 3, remainder, wide: false };
            text(Rows::accounts(1, 1000).only(partition), 100).0
        };
        let mut lines: Vec<String> =
            (0..3).flat_map(|r| leaf(r).lines().map(String::from).collect::<Vec<_>>()).collect();
        lines.sort_by_key(|line| line.split('\t').next().and_then(|id| id.parse::<u64>().ok()));
        assert_eq!(lines.join("\n") + "\n", text(Rows::accounts(1, 1000), 999).0);
    }
}
