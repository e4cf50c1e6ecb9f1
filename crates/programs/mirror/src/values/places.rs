//! Which value each row of a sorted table has.

use super::segments::Segments;

/// Number of entries of the table that shortens the search: 4 kB, which a first-level cache holds.
const GUIDE_SIZE: u64 = 1024;

/// The values of `rows` rows in ascending order.
#[derive(Debug)]
pub struct Places {
    rows: u64,
    ranges: Vec<Range>,
    /// `guide[i]` is the range with row `i << guide_shift`, where a search begins.
    guide: Vec<u32>,
    guide_shift: u32,
    count: u64,
}

/// Rows `start..` have values `first..`.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    first: u64,
    /// Values per row, as 64.64 fixed point. It is rounded up, so a value of more than 2^32 rows
    /// may lose its last row to the next value.
    step: u64,
    step_fraction: u64,
}

impl Places {
    pub(super) fn new(segments: &Segments, rows: u64) -> Places {
        let count = segments.count();
        let mut ranges = Vec::with_capacity(segments.all().len());
        let (mut start, mut mass) = (0_u64, 0.0);
        for segment in segments.all() {
            mass += segment.mass;
            let end = ((mass * rows as f64).round() as u64).clamp(start, rows);
            if end > start {
                ranges.push(range(start, end - start, segment.first, segment.count));
            }
            start = end;
        }
        // Without common values, one even range repeats no value by rounding.
        if count >= rows && !segments.all().iter().any(|segment| segment.is_hot()) {
            ranges = vec![range(0, rows.max(1), 0, count)];
        }
        let guide_shift = (64 - rows.max(1).leading_zeros()).saturating_sub(GUIDE_SIZE.ilog2());
        let mut guide = Vec::with_capacity(GUIDE_SIZE as usize + 1);
        let mut index = 0;
        for entry in 0..=(rows >> guide_shift) {
            while index + 1 < ranges.len() && ranges[index + 1].start <= entry << guide_shift {
                index += 1;
            }
            guide.push(index as u32);
        }
        Places { rows, ranges, guide, guide_shift, count }
    }

    /// The number of the value of row `place` of the table sorted by this column, `place < rows`.
    #[inline]
    pub fn number_at(&self, place: u64) -> u64 {
        let mut index = self.guide[(place >> self.guide_shift) as usize] as usize;
        while index + 1 < self.ranges.len() && self.ranges[index + 1].start <= place {
            index += 1;
        }
        let range = &self.ranges[index];
        let rows_ahead = place - range.start;
        let fraction = ((u128::from(rows_ahead) * u128::from(range.step_fraction)) >> 64) as u64;
        let number = range.first + rows_ahead.wrapping_mul(range.step).wrapping_add(fraction);
        number.min(self.count - 1)
    }

    /// The number of the value of this row, how many rows before it have the same value, and how
    /// many have it in all.
    pub fn run_at(&self, place: u64) -> (u64, u64, u64) {
        let number = self.number_at(place);
        let index = self.ranges.partition_point(|range| range.start <= place) - 1;
        let range = &self.ranges[index];
        let range_end = self.ranges.get(index + 1).map_or(self.rows, |next| next.start);
        let fixed = (u128::from(range.step) << 64) | u128::from(range.step_fraction);
        let start_of = |values_ahead: u64| {
            let rows = (u128::from(values_ahead) << 64).div_ceil(fixed.max(1));
            range.start.saturating_add(rows as u64).min(range_end)
        };
        let values_ahead = number - range.first;
        let start = start_of(values_ahead).min(place);
        (number, place - start, (start_of(values_ahead + 1) - start).max(place - start + 1))
    }

    /// The largest number of rows with the same value.
    pub fn longest_run(&self) -> u64 {
        let runs = (0..self.ranges.len()).map(|index| self.run_at(self.ranges[index].start).2);
        runs.max().unwrap_or(0)
    }
}

fn range(start: u64, rows: u64, first: u64, count: u64) -> Range {
    let fixed = (u128::from(count) << 64) / u128::from(rows);
    // Rounded up, so that the first row of a value is not given to the value before it.
    let fixed = fixed + u128::from(fixed * u128::from(rows) != u128::from(count) << 64);
    Range { start, first, step: (fixed >> 64) as u64, step_fraction: fixed as u64 }
}
