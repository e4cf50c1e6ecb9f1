//! Columns that are a key together: no two rows have the same values in all of them.

use std::sync::Arc;

use super::order::hash;
use crate::values::{Places, Values};

/// One column leads: its values are as frequent as its distribution says. Rows with the same value
/// in it have different values in the others.
#[derive(Debug)]
pub(super) struct Key {
    columns: Vec<Arc<Values>>,
    leading: usize,
    places: Places,
    rows: u64,
    /// Number of different values of each column.
    counts: Vec<u64>,
    /// Combinations of the other columns.
    combinations: u64,
    spread: Spread,
}

/// How the other columns get their values.
#[derive(Debug)]
enum Spread {
    /// Rows with the same leading value have the first combinations, as lines of an order have.
    First,
    /// As `First`, and each of the few values of the other column has as many rows as it asks for.
    FanOut(FanOut),
    /// They have combinations at equal distances.
    Wide,
    /// They have combinations as frequent as the columns ask for: for each, the share of those up
    /// to it. A tenant with half of the rows keeps them.
    Drawn(Vec<f64>),
    /// A leading value is more frequent than there are combinations, so all are equally frequent.
    Even,
}

impl Key {
    /// Args: `correlations`, of the order of each column with the order of the rows on disk;
    /// `rows`, of the table.
    pub(super) fn new(columns: Vec<Arc<Values>>, correlations: &[f64], rows: u64) -> Key {
        let counts: Vec<u64> = columns.iter().map(|values| values.count().max(1)).collect();
        let leading = leading_of(&counts, correlations);
        let others = counts.iter().enumerate().filter(|(index, _)| *index != leading);
        let combinations = others.fold(1_u64, |product, (_, count)| product.saturating_mul(*count));
        let places = columns[leading].places(rows);
        let longest = places.longest_run();
        let is_few = columns.len() == 2 && longest <= combinations && combinations <= FAN_OUT_MAX;
        let fan_out = is_few.then(|| FanOut::of(&columns[1 - leading], counts[leading], rows));
        let spread = match longest {
            _ if let Some(fan_out) = fan_out.flatten() => Spread::FanOut(fan_out),
            _ if longest > combinations => Spread::Even,
            _ if let Some(shares) = uneven(&columns, leading, longest, combinations) => {
                Spread::Drawn(shares)
            }
            _ if combinations <= longest.saturating_mul(2) => Spread::First,
            _ => Spread::Wide,
        };
        Key { columns, leading, places, rows, counts, combinations, spread }
    }

    /// Number of columns.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Number of different values of a column; `None` for one that is not of the key.
    pub(super) fn count(&self, index: usize) -> Option<u64> {
        self.counts.get(index).copied()
    }

    /// The index of the leading column.
    pub(super) fn leading(&self) -> usize {
        self.leading
    }

    /// The number of rows of a group, if another column leads than the one with the most values.
    pub(super) fn group_rows(&self) -> Option<u64> {
        let most = self.counts.iter().copied().max().unwrap_or(1);
        let all = self.combinations.saturating_mul(self.counts[self.leading]);
        let groups = (all / most).max(1);
        (self.counts[self.leading] < most).then_some((self.rows / groups).max(1))
    }

    /// Put the number of the value of each column in the row with this place into `numbers`.
    pub(super) fn numbers(&self, place: u64, numbers: &mut [u64]) {
        let place = place.min(self.rows.saturating_sub(1));
        if let Spread::Even = self.spread {
            let all = u128::from(self.combinations) * u128::from(self.counts[self.leading]);
            let rows = u128::from(self.rows.max(1));
            let index = if all >= rows { u128::from(place) * all / rows } else { place.into() };
            numbers[self.leading] = (index / u128::from(self.combinations)) as u64;
            self.split((index % u128::from(self.combinations)) as u64, numbers);
            return;
        }
        if let Spread::FanOut(fan_out) = &self.spread {
            let (leading, other) = fan_out.at(place);
            numbers[self.leading] = leading;
            numbers[1 - self.leading] = other;
            return;
        }
        let (number, index, run) = self.places.run_at(place);
        numbers[self.leading] = number;
        let combination = match self.spread {
            Spread::Wide => {
                let distance = self.combinations / run.max(1);
                let start = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.combinations;
                ((u128::from(index) * u128::from(distance) + u128::from(start))
                    % u128::from(self.combinations)) as u64
            }
            Spread::Drawn(ref shares) => drawn(shares, number, index, run),
            _ => index,
        };
        self.split(combination, numbers);
    }

    /// Split the number of a combination into the numbers of the other columns.
    fn split(&self, mut combination: u64, numbers: &mut [u64]) {
        for index in (0..self.counts.len()).rev().filter(|&index| index != self.leading) {
            numbers[index] = combination % self.counts[index];
            combination /= self.counts[index];
        }
    }

    /// Append the text of the value with this number in this column.
    #[inline]
    pub(super) fn write(&self, index: usize, number: u64, out: &mut Vec<u8>) {
        self.columns[index].write(number, out);
    }
}

/// Combinations whose shares are kept in a table, and rows that share a leading value: each of them
/// looks at those before it.
const DRAWN_MAX: u64 = 1 << 16;
const DRAWN_RUN_MAX: u64 = 256;
/// Places for which the share of each value of a column is counted.
const SHARE_PLACES: u64 = 1 << 22;

/// The share of the combinations up to each one, if the other columns prefer some values.
fn uneven(
    columns: &[Arc<Values>],
    leading: usize,
    longest: u64,
    combinations: u64,
) -> Option<Vec<f64>> {
    if longest > DRAWN_RUN_MAX || combinations > DRAWN_MAX {
        return None;
    }
    let mut shares = vec![1.0];
    let mut is_even = true;
    for (_, values) in columns.iter().enumerate().filter(|(index, _)| *index != leading) {
        let own = shares_of(values);
        let even = 1.0 / own.len() as f64;
        is_even &= own.iter().all(|share| (share - even).abs() <= even / 2.0);
        shares = shares.iter().flat_map(|left| own.iter().map(move |right| left * right)).collect();
    }
    let mut sum = 0.0;
    let up_to = shares.iter().map(|share| {
        sum += share;
        sum
    });
    (!is_even).then(|| up_to.collect())
}

/// The share of each value.
fn shares_of(values: &Values) -> Vec<f64> {
    let places = values.places(SHARE_PLACES);
    let mut shares = vec![0.0; values.count() as usize];
    let mut place = 0;
    while place < SHARE_PLACES {
        let (number, index, run) = places.run_at(place);
        let rows = (run - index).max(1);
        shares[number as usize] += rows as f64 / SHARE_PLACES as f64;
        place += rows;
    }
    shares
}

/// The combination of row `index` among the `run` rows of a leading value: all differ, and they
/// stand at equal distances among the shares.
fn drawn(up_to: &[f64], leading: u64, index: u64, run: u64) -> u64 {
    let offset = (hash(leading) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut combination = 0;
    for row in 0..=index {
        let share = (row as f64 + offset) / run as f64;
        let own = up_to.partition_point(|&up_to| up_to <= share) as u64;
        let least = if row == 0 { 0 } else { combination + 1 };
        // The rows that follow need combinations, too.
        combination = own.max(least).min(up_to.len() as u64 - (run - row));
    }
    combination
}

/// The column with the most values; but the one by which the rows are sorted on disk, if that is
/// another one: the rows of a district stand together, and each district has order 1.
fn leading_of(counts: &[u64], correlations: &[f64]) -> usize {
    let most = (0..counts.len()).max_by_key(|&index| (counts[index], usize::MAX - index));
    let most = most.unwrap_or(0);
    let order_of = |index: usize| correlations.get(index).map_or(0.0, |share| share.abs());
    let mut sorted = (0..counts.len()).filter(|&i| counts[i] > 1 && order_of(i) >= SORTED);
    if order_of(most) < UNSORTED { sorted.next().unwrap_or(most) } else { most }
}

/// Correlations from which, and below which, rows are sorted by a column and are not.
const SORTED: f64 = 0.9;
const UNSORTED: f64 = 0.5;

/// Values of the other column of a fan-out, at most: more would need a large pattern.
pub(super) const FAN_OUT_MAX: u64 = 64;
/// Leading values of a pattern.
const PATTERN: u64 = 4096;

/// A pattern of leading values: which values of the other column each of them has, so that both
/// have the rows that they ask for. Orders have one to nine lines, and few have nine.
#[derive(Debug)]
pub(super) struct FanOut {
    rows: u64,
    /// How many rows all leading values would have; at least `rows`.
    room: u64,
    /// For each leading value of the pattern, the number of rows before it; the last is all rows.
    before: Vec<u64>,
    /// For each value of the other column, how many leading values of the pattern have it.
    shares: Vec<u64>,
}

impl FanOut {
    /// None if no value of the other column is with nearly each leading value.
    pub(super) fn of(other: &Values, leading: u64, rows: u64) -> Option<FanOut> {
        let places = other.places(rows);
        let mut shares = vec![0; usize::try_from(other.count()).ok()?];
        let mut place = 0;
        while place < rows {
            let (number, index, run) = places.run_at(place);
            let run = run - index;
            let share = (u128::from(run) * u128::from(PATTERN)).div_ceil(u128::from(leading));
            *shares.get_mut(usize::try_from(number).ok()?)? = share as u64;
            place += run;
        }
        let most = shares.iter().copied().max().unwrap_or(0);
        // The number of leading values is an estimate. Each has the most common other value.
        if !(PATTERN * 7 / 10..=PATTERN * 14 / 10).contains(&most) {
            return None;
        }
        for share in &mut shares {
            let part = *share * PATTERN / most;
            *share = if part * 20 >= PATTERN * 19 { PATTERN } else { part };
        }
        for _ in 0..4 {
            let mut before = vec![0];
            for place in 0..PATTERN {
                let own = shares.iter().filter(|share| has(place, **share)).count() as u64;
                before.push(before[place as usize] + own);
            }
            let whole = before[PATTERN as usize];
            // No more leading values than the rows need, so that each has its first row.
            let needed = (u128::from(rows) * u128::from(PATTERN)).div_ceil(u128::from(whole));
            let used = leading.min(needed as u64 + 1);
            let room = used / PATTERN * whole + before[usize::try_from(used % PATTERN).ok()?];
            if room >= rows {
                return Some(FanOut { rows, room, before, shares });
            }
            for share in shares.iter_mut().filter(|share| **share < PATTERN) {
                let more = u128::from(*share) * u128::from(rows) / u128::from(room.max(1));
                *share = (more as u64 + 1).min(PATTERN);
            }
        }
        None
    }

    /// The leading number of this row, and the number of its value in the other column.
    pub(super) fn at(&self, place: u64) -> (u64, u64) {
        let index = (u128::from(place) * u128::from(self.room) / u128::from(self.rows)) as u64;
        let whole = self.before[PATTERN as usize];
        let (pattern, within) = (index / whole, index % whole);
        let leading = self.before.partition_point(|&before| before <= within) - 1;
        let number = within - self.before[leading];
        let own = (0..).zip(&self.shares).filter(|(_, share)| has(leading as u64, **share));
        let other = own.map(|(other, _)| other).nth(number as usize).unwrap_or(0);
        (pattern * PATTERN + leading as u64, other)
    }
}

/// Whether the leading value at this place of a pattern has a value that `share` of them have.
/// The values that few have are spread evenly, and they have the others, too.
fn has(place: u64, share: u64) -> bool {
    // An odd factor makes a bijection of the places.
    place * 2531 % PATTERN < share
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::values::{Distribution, Hot, ValueKind};

    fn column(distinct: u64, hot: f64) -> Arc<Values> {
        let hot = Hot { value: "1".into(), fraction: hot };
        let distribution = Distribution {
            kind: ValueKind::Integer,
            distinct: distinct as f64,
            hot: if hot.fraction > 0.0 { vec![hot] } else { Vec::new() },
            bounds: vec!["1".into(), distinct.to_string()],
            ..Distribution::default()
        };
        Arc::new(Values::new(&distribution).expect("a distribution"))
    }

    fn rows(columns: &[(u64, f64)], rows: u64) -> Vec<Vec<u64>> {
        let columns = columns.iter().map(|&(distinct, hot)| column(distinct, hot)).collect();
        let key = Key::new(columns, &[], rows);
        let row = |place| {
            let mut numbers = vec![0; key.len()];
            key.numbers(place, &mut numbers);
            numbers
        };
        (0..rows).map(row).collect()
    }

    #[test]
    fn no_two_rows_of_a_key_are_equal() {
        for (columns, count) in [
            (vec![(1000, 0.0), (10, 0.0)], 4711),
            (vec![(10, 0.0), (1000, 0.0)], 10_000),
            (vec![(300, 0.3), (500, 0.0)], 1000),
            (vec![(300, 0.9), (5, 0.0)], 1000),
            (vec![(2, 0.0), (10, 0.0), (300, 0.0)], 6000),
            (vec![(50, 0.0)], 50),
        ] {
            let rows = rows(&columns, count);
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "{columns:?}");
            // The column with the most values has them all; rows that share one use few others.
            let most = columns.iter().map(|&(distinct, _)| distinct).max().unwrap_or(0);
            let seen = |index: usize| rows.iter().map(|row| row[index]).collect::<BTreeSet<_>>();
            let seen = (0..columns.len()).map(|index| seen(index).len() as u64).max();
            assert!(seen.unwrap_or(0) * 10 >= most.min(count) * 9, "{columns:?}: {seen:?}");
        }
    }

    #[test]
    fn an_order_has_as_many_lines_as_their_numbers_ask_for() {
        // 10,000 orders: all have line 1, 40 % have the lines 2 and 3, too.
        let hot = |value: &str, fraction| Hot { value: value.into(), fraction };
        let number = Values::new(&Distribution {
            kind: ValueKind::Integer,
            distinct: 3.0,
            hot: vec![hot("1", 5.0 / 9.0), hot("2", 2.0 / 9.0), hot("3", 2.0 / 9.0)],
            ..Distribution::default()
        });
        let columns = vec![column(10_000, 0.0), Arc::new(number.expect("values"))];
        let key = Key::new(columns, &[], 18_000);
        let mut seen = BTreeSet::new();
        let mut lines = [0; 3];
        for place in 0..18_000 {
            let mut numbers = [0; 2];
            key.numbers(place, &mut numbers);
            assert!(seen.insert(numbers), "{numbers:?} twice");
            lines[numbers[1] as usize] += 1;
        }
        let orders: BTreeSet<u64> = seen.iter().map(|row| row[0]).collect();
        assert!(orders.len() >= 9990, "{}", orders.len());
        for (line, asked) in lines.iter().zip([10_000_u64, 4000, 4000]) {
            assert!(asked.abs_diff(*line) < 40, "{lines:?}");
        }
        assert!(seen.iter().all(|row| seen.contains(&[row[0], 0])), "line 1 is missing");
    }

    #[test]
    fn a_tenant_with_half_of_the_rows_keeps_them() {
        for (columns, count) in [
            (vec![(50, 0.51), (20_000, 0.0)], 20_000),
            (vec![(50, 0.51), (10_200, 0.0)], 20_000),
            (vec![(20, 0.51), (4, 0.6), (20_000, 0.0)], 20_000),
        ] {
            let rows = rows(&columns, count);
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "{columns:?}");
            let own = rows.iter().filter(|row| row[0] == 0).count() as f64 / count as f64;
            assert!((own - 0.51).abs() < 0.03, "{columns:?}: {own}");
        }
    }

    #[test]
    fn rows_that_are_sorted_by_district_have_the_same_orders_in_each() {
        let columns = vec![column(1, 0.0), column(10, 0.0), column(300, 0.0)];
        let key = Key::new(columns, &[1.0, 1.0, 0.1], 3000);
        for place in 0..3000 {
            let mut numbers = [0; 3];
            key.numbers(place, &mut numbers);
            assert_eq!(numbers, [0, place / 300, place % 300]);
        }
        assert_eq!(key.group_rows(), Some(300));
    }

    #[test]
    fn lines_of_an_order_are_numbered_from_the_first() {
        let rows = rows(&[(100, 0.0), (8, 0.0)], 500);
        assert_eq!(
            &rows[..6].iter().map(|row| (row[0], row[1])).collect::<Vec<_>>(),
            &[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]
        );
    }
}
