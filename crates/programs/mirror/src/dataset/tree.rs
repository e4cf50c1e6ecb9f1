//! Parents in a table that refers to itself: each row has one with a smaller key.
//!
//! A recursive query of a circle has no end, so no circle is made. Every parent has as many rows as
//! its distribution says: rows and parents are both in ascending order, and then pairs of rows
//! exchange their parents where both stay above them.

use super::order::hash;
use crate::distribution::{Distribution, ValueKind};
use crate::values::{Places, Values};

/// Each row exchanges its parent up to this number of times, with rows ever nearer.
const ROUNDS: usize = 4;

/// Which parent each row has. Rows and parents are places of keys in ascending order.
#[derive(Debug)]
pub(super) struct Tree {
    parents: Values,
    places: Places,
    /// Rows without a parent: those with the smallest keys.
    roots: u64,
    /// Rows with a parent.
    count: u64,
    /// The distance of the rows that may exchange, for each round.
    distances: [u64; ROUNDS],
    /// The share of the pairs that may exchange, of 2^32.
    exchanged: u64,
    seed: u64,
}

impl Tree {
    /// Args: `distribution`, of the places of the parents; `correlation`, of the order of the
    /// parents with the order of the rows.
    ///
    /// Errors: the reason why there are no values.
    pub(super) fn new(
        distribution: &Distribution,
        rows: u64,
        correlation: f64,
        seed: u64,
    ) -> Result<Tree, String> {
        let places =
            Distribution { kind: ValueKind::Integer, element: None, ..distribution.clone() };
        let parents = Values::new(&places)?;
        let roots = ((rows as f64 * parents.null_fraction()).round() as u64).min(rows);
        let count = rows - roots;
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        let distances = std::array::from_fn(|round| {
            let bits = bits.saturating_sub(round as u32);
            if bits == 0 { 0 } else { (1 << (bits - 1)) | (hash(seed) & ((1 << (bits - 1)) - 1)) }
        });
        let exchanged = ((1.0 - correlation.clamp(0.0, 1.0)) * 0.5 * (1_u64 << 32) as f64) as u64;
        let places = parents.places(count);
        Ok(Tree { parents, places, roots, count, distances, exchanged, seed })
    }

    /// The parent of the row with this place; None for a root. The first row is its own parent if
    /// no row is a root.
    pub(super) fn parent(&self, row: u64) -> Option<u64> {
        let number = row.checked_sub(self.roots)?;
        Some(self.after(ROUNDS, number).min(row.saturating_sub(1)))
    }

    /// The parent of the row with this number among those with a parent, after some rounds.
    fn after(&self, rounds: usize, number: u64) -> u64 {
        let Some(round) = rounds.checked_sub(1) else {
            return self.parents.value(self.places.number_at(number));
        };
        let own = self.after(round, number);
        let other = number ^ self.distances[round];
        let pair = hash(number.min(other) ^ hash(self.seed ^ round as u64));
        if other >= self.count || pair >> 32 >= self.exchanged {
            return own;
        }
        let theirs = self.after(round, other);
        let is_tree = theirs < number + self.roots && own < other + self.roots;
        if is_tree { theirs } else { own }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::values::Hot;

    fn parents(rows: u64, correlation: f64, roots: f64) -> (BTreeMap<u64, u64>, Vec<u64>) {
        let distribution = Distribution {
            kind: ValueKind::Rank,
            null_fraction: roots,
            distinct: rows as f64 / 5.0,
            hot: vec![Hot { value: "3".into(), fraction: 0.1 }],
            bounds: vec!["0".into(), (rows / 3).to_string()],
            ..Distribution::default()
        };
        let tree = Tree::new(&distribution, rows, correlation, 7).expect("a distribution");
        let mut counts = BTreeMap::new();
        let mut own = Vec::new();
        for row in 0..rows {
            if let Some(parent) = tree.parent(row) {
                assert!(parent < row, "{row} has {parent}");
                *counts.entry(parent).or_default() += 1;
                own.push(parent);
            }
        }
        (counts, own)
    }

    #[test]
    fn every_parent_is_before_its_rows_and_as_frequent_as_asked() {
        for rows in [300, 1000, 12_345] {
            let (sorted, in_order) = parents(rows, 1.0, 0.02);
            let (mixed, exchanged) = parents(rows, 0.0, 0.02);
            assert_eq!(sorted, mixed, "the exchange keeps how many rows each parent has");
            assert!(in_order.is_sorted() && !exchanged.is_sorted());
            assert_eq!(in_order.len() as u64, rows - (rows as f64 * 0.02).round() as u64);
            let most = sorted[&3] as f64 / rows as f64;
            assert!((most - 0.1).abs() < 0.01, "{most}");
        }
    }

    #[test]
    fn parents_that_cannot_all_be_before_their_rows_still_make_no_circle() {
        let distribution = Distribution {
            kind: ValueKind::Rank,
            distinct: 10.0,
            bounds: vec!["90".into(), "99".into()],
            ..Distribution::default()
        };
        let tree = Tree::new(&distribution, 100, 0.5, 7).expect("a distribution");
        assert_eq!(tree.parent(0), Some(0));
        assert!((1..100).all(|row| tree.parent(row).is_some_and(|parent| parent < row)));
    }
}
