//! In which order the values of a column stand in the table.

use crate::values::Values;

/// Where the NULLs are, and which place in ascending order the value of each row has.
///
/// A share of the rows keeps its place: row `n` has the `n`-th value in order. The others exchange
/// their places at random. The share gives the correlation that was asked for.
#[derive(Debug)]
pub(super) struct Order {
    nulls: Nulls,
    values: u64,
    seed: u64,
    /// How many of `BLOCK` neighbouring rows keep their place.
    kept: u64,
    is_reversed: bool,
    exchange: Exchange,
}

const BLOCK: u64 = 1000;

impl Order {
    /// Args: `rows`, of the table, with NULLs; `seed`, another one for each column.
    pub(super) fn new(values: &Values, rows: u64, correlation: f64, seed: u64) -> Order {
        let nulls = Nulls::new(rows, values.null_fraction(), seed);
        let count = rows - nulls.before(rows);
        let kept = (BLOCK as f64 * kept_share(values, count, correlation)).round() as u64;
        let exchanged = exchanged_before(count, kept);
        Order {
            nulls,
            values: count,
            seed,
            kept,
            is_reversed: correlation < 0.0,
            exchange: Exchange::new(exchanged, seed),
        }
    }

    /// Number of rows whose value is not NULL.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// The place in ascending order of the value of this row; None for NULL.
    #[inline]
    pub(super) fn place(&self, row: u64) -> Option<u64> {
        let row = self.nulls.number_of(row)?;
        let (block, within) = (row / BLOCK, row % BLOCK);
        // A step that has no common factor with the size of a block, and another start in each.
        let mixed = (within * 617 + hash(block ^ self.seed) % BLOCK) % BLOCK;
        let block_size = BLOCK.min(self.values - block * BLOCK);
        if block_size < BLOCK {
            // The last block is not whole: its first rows keep their places.
            let kept = block_size * self.kept / BLOCK;
            if within < kept {
                return Some(self.turned(row));
            }
            let number = block * (BLOCK - self.kept) + within - kept;
            return Some(self.turned(self.row_of(self.exchange.of(number))));
        }
        if mixed < self.kept {
            return Some(self.turned(row));
        }
        let number = block * (BLOCK - self.kept) + mixed - self.kept;
        Some(self.turned(self.row_of(self.exchange.of(number))))
    }

    fn turned(&self, place: u64) -> u64 {
        if self.is_reversed { self.values - 1 - place } else { place }
    }

    /// The row with this number among those that exchange their places.
    fn row_of(&self, number: u64) -> u64 {
        let exchanged = BLOCK - self.kept;
        let (block, rest) = (number / exchanged, number % exchanged);
        let block_size = BLOCK.min(self.values - block * BLOCK);
        if block_size < BLOCK {
            return block * BLOCK + block_size * self.kept / BLOCK + rest;
        }
        // 617 * 953 is 1 more than a multiple of 1000, so this undoes the step of `place`.
        let start = hash(block ^ self.seed) % BLOCK;
        let within = (rest + self.kept + BLOCK - start) * 953 % BLOCK;
        block * BLOCK + within
    }
}

/// Number of rows among the first `count` that exchange their places.
fn exchanged_before(count: u64, kept: u64) -> u64 {
    let (blocks, rest) = (count / BLOCK, count % BLOCK);
    blocks * (BLOCK - kept) + rest - rest * kept / BLOCK
}

/// The share of rows that keep their places, so that the server's estimate of the correlation is
/// the one asked for.
///
/// The server orders equal values by their rows. Therefore a column with few values has a
/// correlation without any order: the probability that two rows are equal. In descending order
/// equal values still ascend.
fn kept_share(values: &Values, count: u64, correlation: f64) -> f64 {
    let (equal, three_equal) = values.repetition(count);
    let share = if correlation >= 0.0 {
        (correlation - equal) / (1.0 - equal)
    } else {
        (equal - correlation) / (1.0 + equal - 2.0 * three_equal)
    };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// Which rows are NULL: the same number in every block, at random places.
#[derive(Debug)]
struct Nulls {
    rows: u64,
    fraction: f64,
    /// Rows of a block: a power of two.
    block: u64,
    seed: u64,
}

impl Nulls {
    fn new(rows: u64, fraction: f64, seed: u64) -> Nulls {
        // Small blocks keep the order of the rows; large ones do not show a pattern.
        let block = (rows / 64).clamp(16, 1024).next_power_of_two();
        Nulls { rows, fraction, block, seed: hash(seed ^ 0xa5a5) }
    }

    /// Number of NULLs before this row, the first of a block.
    fn before(&self, row: u64) -> u64 {
        (row as f64 * self.fraction).round() as u64
    }

    /// The number of this row among those that are not NULL.
    #[inline]
    fn number_of(&self, row: u64) -> Option<u64> {
        if self.fraction == 0.0 {
            return Some(row);
        }
        let first = row & !(self.block - 1);
        let end = self.rows.min(first + self.block);
        let (before, nulls) = (self.before(first), self.before(end) - self.before(first));
        let mut within = row - first;
        if end - first == self.block {
            // A bijection of the numbers within the block.
            within = within.wrapping_mul(0x9e37_79b9).wrapping_add(hash(first ^ self.seed));
            within &= self.block - 1;
            within ^= within >> 3;
        }
        (within >= nulls).then(|| first - before + within - nulls)
    }
}

/// Values without an order, spread evenly over groups of rows: each group has its share of the
/// rare ones and of the common ones. So each customer of a district has an order, as in the source.
#[derive(Debug)]
pub(super) struct Spread {
    groups: u64,
    group_rows: u64,
    seed: u64,
}

impl Spread {
    /// Args: `rows`, of the table; `group_rows`, of each group.
    pub(super) fn new(rows: u64, group_rows: u64, seed: u64) -> Spread {
        let group_rows = group_rows.clamp(1, rows.max(1));
        Spread { groups: rows / group_rows, group_rows, seed }
    }

    /// The place in ascending order of the value of the row that is `number`-th by group.
    #[inline]
    pub(super) fn place(&self, number: u64) -> u64 {
        let (group, within) = (number / self.group_rows, number % self.group_rows);
        if group >= self.groups {
            return number;
        }
        let exchange = Exchange::new(self.group_rows, self.seed ^ hash(group));
        exchange.of(within) * self.groups + group
    }
}

/// Numbers below `size` in random order: each once.
#[derive(Debug)]
struct Exchange {
    size: u64,
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Exchange {
    fn new(size: u64, seed: u64) -> Exchange {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        Exchange { size, mask, shift: bits.div_ceil(2).max(1), seed }
    }

    #[inline]
    fn of(&self, number: u64) -> u64 {
        let mut mixed = number;
        // Each step is a bijection of the numbers with these bits. A result that is too large goes
        // through once more; less than two turns are needed on average.
        loop {
            mixed = (mixed.wrapping_add(self.seed)) & self.mask;
            mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            mixed ^= mixed >> self.shift;
            mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            mixed ^= mixed >> self.shift;
            mixed = mixed.wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            mixed ^= mixed >> self.shift;
            if mixed < self.size {
                return mixed;
            }
        }
    }
}

pub(super) fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Distribution, Hot, ValueKind};

    fn values(distinct: f64, null_fraction: f64, hot: f64) -> Values {
        let hot = Hot { value: "1".into(), fraction: hot };
        Values::new(&Distribution {
            kind: ValueKind::Integer,
            distinct,
            null_fraction,
            hot: if hot.fraction > 0.0 { vec![hot] } else { Vec::new() },
            bounds: vec!["0".into(), "1000000".into()],
            ..Distribution::default()
        })
        .expect("a distribution")
    }

    /// The correlation as ANALYZE computes it: of the row and of the place, equal values in the
    /// order of the rows.
    fn correlation(values: &Values, rows: u64, asked: f64) -> f64 {
        let order = Order::new(values, rows, asked, 7);
        let places = values.places(order.values());
        let mut sorted: Vec<(u64, u64)> = (0..rows)
            .filter_map(|row| Some((places.number_at(order.place(row)?), row)))
            .enumerate()
            .map(|(index, (number, _))| (number, index as u64))
            .collect();
        sorted.sort_unstable();
        let count = sorted.len() as f64;
        let product: f64 =
            sorted.iter().zip(0_u64..).map(|((_, row), place)| (row * place) as f64).sum();
        let mean = (count - 1.0) / 2.0;
        (product / count - mean * mean) / ((count * count - 1.0) / 12.0)
    }

    #[test]
    fn every_place_is_taken_once_and_nulls_have_their_share() {
        for rows in [1, 15, 999, 1000, 1001, 25_437] {
            for (null_fraction, asked) in [(0.0, 0.0), (0.0, 0.5), (0.3, -0.4), (0.999, 1.0)] {
                let order = Order::new(&values(5000.0, null_fraction, 0.0), rows, asked, 3);
                let mut places: Vec<u64> = (0..rows).filter_map(|row| order.place(row)).collect();
                places.sort_unstable();
                let expected: Vec<u64> = (0..order.values()).collect();
                assert_eq!(places, expected, "{rows} rows, {null_fraction} NULL, {asked}");
                let nulls = (rows as f64 * null_fraction).round() as u64;
                assert_eq!(rows - order.values(), nulls);
            }
        }
    }

    #[test]
    fn the_correlation_is_the_one_asked_for() {
        for (distinct, null_fraction, hot) in
            [(1e6, 0.0, 0.0), (1e6, 0.2, 0.0), (100.0, 0.1, 0.3), (3000.0, 0.0, 0.5)]
        {
            let values = values(distinct, null_fraction, hot);
            for asked in [-0.9, -0.3, 0.45, 0.8, 1.0] {
                let seen = correlation(&values, 20_000, asked);
                // Equal values ascend always, so a column with many cannot descend as far.
                let limit = if hot > 0.4 && asked < -0.5 { 0.25 } else { 0.06 };
                assert!((seen - asked).abs() < limit, "{distinct} {hot}: {asked}, not {seen}");
            }
        }
    }
}
