//! The values of a distribution in ascending order: common values, and parts of the histogram
//! between them.

use super::scale::Scale;
use crate::distribution::{Distribution, Hot};

/// Marks a segment that is not a common value.
const NOT_HOT: u32 = u32::MAX;

/// Values that follow each other: one common value, or the values of a part of the histogram.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Number of its first value.
    pub first: u64,
    /// How many different values it has.
    pub count: u64,
    /// Index of its bin of the histogram, or of its text.
    pub bin: u32,
    hot: u32,
    /// Position of the first value on the scale, and the distance of neighbours as 64.64 fixed
    /// point.
    low: i64,
    step: u64,
    step_fraction: u64,
    /// Share of the rows that are not NULL.
    pub mass: f64,
}

impl Segment {
    pub(super) fn is_hot(&self) -> bool {
        self.hot != NOT_HOT
    }

    /// The position on the scale of its `index`-th value. Positions ascend strictly.
    #[inline]
    pub(super) fn position(&self, index: u64) -> i64 {
        let fraction = ((u128::from(index) * u128::from(self.step_fraction)) >> 64) as u64;
        self.low.wrapping_add(index.wrapping_mul(self.step).wrapping_add(fraction) as i64)
    }
}

/// A part of the histogram that has no common value in it: positions `low` to `low + span - 1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub bin: u32,
    pub low: i64,
    pub span: u64,
    pub mass: f64,
    /// The last value is at the last position: it is the largest of all.
    pub is_last: bool,
}

#[derive(Debug)]
pub(super) struct Segments {
    all: Vec<Segment>,
    /// `first` of each, for the search.
    firsts: Vec<u64>,
    hot_texts: Vec<Vec<u8>>,
    count: u64,
}

/// What the segments are made of.
enum Item {
    Hot(u32),
    Part(Part),
}

impl Segments {
    /// The values of a kind whose positions are numbers.
    pub(super) fn on_scale(distribution: &Distribution, scale: &Scale) -> Segments {
        let bounds = scale.bounds(distribution);
        let place = |hot: &Hot| scale.position(&hot.value).unwrap_or(i64::MAX);
        let mut places: Vec<(i64, u32)> =
            (0..).zip(&distribution.hot).map(|(index, hot)| (place(hot), index)).collect();
        places.sort_unstable();
        let mut items = Vec::new();
        let mut hots = places.iter().copied().peekable();
        let bin_mass = rest_of(distribution) / (bounds.len().max(2) - 1) as f64;
        // The value of the bin before, if it has only one: it is not a value of the next bin, too.
        let mut alone: Option<i64> = None;
        for (bin, pair) in bounds.windows(2).enumerate() {
            let (mut low, mut high) = (pair[0], pair[1]);
            // The last bin has its upper bound, and a bin of a single value has this value.
            let is_last = bin + 2 == bounds.len();
            if is_last || high == low {
                high = high.saturating_add(1);
            }
            if alone == Some(low) {
                low = low.saturating_add(1);
            }
            alone = (pair[0] == pair[1]).then_some(pair[0]);
            if low >= high {
                if let Some((_, _, Item::Part(before))) = items.last_mut() {
                    before.mass += bin_mass;
                }
                continue;
            }
            let mut from = low;
            let mut parts = Vec::new();
            while let Some((at, index)) = hots.next_if(|&(at, _)| at < high) {
                if at >= from {
                    parts.push((from, at));
                    from = at.saturating_add(1);
                }
                parts.push((at, at));
                items.push((bin, parts.len() - 1, Item::Hot(index)));
            }
            parts.push((from, high));
            let free: f64 = parts.iter().map(|&(from, to)| span(from, to) as f64).sum();
            for (place, &(from, to)) in parts.iter().enumerate() {
                let span = span(from, to);
                if span > 0 {
                    let mass = bin_mass * span as f64 / free;
                    let is_last = is_last && place + 1 == parts.len();
                    let part = Part { bin: bin as u32, low: from, span, mass, is_last };
                    items.push((bin, place, Item::Part(part)));
                }
            }
        }
        items.extend(hots.map(|(_, index)| (usize::MAX, 0, Item::Hot(index))));
        items.sort_by_key(|&(bin, place, _)| (bin, place));
        Segments::made(distribution, items.into_iter().map(|(_, _, item)| item).collect())
    }

    /// The values of a kind without an order: the common ones first.
    pub(super) fn unordered(distribution: &Distribution) -> Segments {
        let hots = (0..distribution.hot.len() as u32).map(Item::Hot);
        let part =
            Part { bin: 0, low: 0, span: 1 << 62, mass: rest_of(distribution), is_last: false };
        Segments::made(distribution, hots.chain([Item::Part(part)]).collect())
    }

    /// The values of a kind that only knows the place of each common value, 0 to 1: `places` has
    /// them in ascending order, with the indexes of the common values.
    pub(super) fn between_shares(distribution: &Distribution, places: &[(f64, u32)]) -> Segments {
        const SPAN: f64 = (1_u64 << 62) as f64;
        let mass = rest_of(distribution);
        let (mut parts, mut hots, mut from) = (Vec::new(), Vec::new(), 0.0);
        for &(to, hot) in places.iter().chain([&(1.0, NOT_HOT)]) {
            let width = to.clamp(from, 1.0) - from;
            if width > 0.0 {
                let span = (width * SPAN) as u64;
                let part = Part { bin: 0, low: 0, span, mass: mass * width, is_last: false };
                parts.push(part);
            }
            if hot != NOT_HOT {
                hots.push((parts.len(), hot));
            }
            from += width;
        }
        Segments::of_parts(distribution, parts, hots)
    }

    /// The values of texts: `parts` in ascending order, and each common value (its index is the
    /// second number of a pair) before the part with the index that is the first number.
    pub(super) fn of_parts(
        distribution: &Distribution,
        parts: Vec<Part>,
        hots: Vec<(usize, u32)>,
    ) -> Segments {
        let mut items = Vec::new();
        let mut hots = hots.into_iter().peekable();
        for (index, part) in parts.into_iter().enumerate() {
            while let Some((_, hot)) = hots.next_if(|&(before, _)| before <= index) {
                items.push(Item::Hot(hot));
            }
            items.push(Item::Part(part));
        }
        items.extend(hots.map(|(_, hot)| Item::Hot(hot)));
        Segments::made(distribution, items)
    }

    fn made(distribution: &Distribution, items: Vec<Item>) -> Segments {
        let hot_count = distribution.hot.len() as u64;
        let wanted = (distribution.distinct.round() as u64).max(1).saturating_sub(hot_count);
        let counts = shared(wanted, &items);
        let mut all: Vec<Segment> = Vec::with_capacity(items.len());
        let mut first = 0;
        for (item, count) in items.iter().zip(counts) {
            let segment = match item {
                Item::Hot(index) => Segment {
                    first,
                    count: 1,
                    bin: 0,
                    hot: *index,
                    low: 0,
                    step: 0,
                    step_fraction: 0,
                    mass: distribution.hot[*index as usize].fraction,
                },
                Item::Part(part) if count > 0 => spread(part, first, count),
                Item::Part(_) => continue,
            };
            first += segment.count;
            all.push(segment);
        }
        if all.is_empty() {
            let part = Part { bin: 0, low: 0, span: 1, mass: 1.0, is_last: false };
            all.push(spread(&part, 0, 1));
            first = 1;
        }
        let total: f64 = all.iter().map(|segment| segment.mass).sum();
        let even = 1.0 / all.len() as f64;
        for segment in &mut all {
            segment.mass = if total > 0.0 { segment.mass / total } else { even };
        }
        let hot_texts = distribution.hot.iter().map(|hot| hot.value.clone().into_bytes()).collect();
        let firsts = all.iter().map(|segment| segment.first).collect();
        Segments { all, firsts, hot_texts, count: first }
    }

    /// Replace the texts of the common values by what `write` makes of each.
    pub(super) fn with_hot_texts(mut self, write: impl Fn(&str, &mut Vec<u8>)) -> Segments {
        for text in &mut self.hot_texts {
            let old = std::mem::take(text);
            write(&String::from_utf8_lossy(&old), text);
        }
        self
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn all(&self) -> &[Segment] {
        &self.all
    }

    #[inline]
    pub(super) fn of_number(&self, number: u64) -> &Segment {
        &self.all[self.firsts.partition_point(|&first| first <= number) - 1]
    }

    #[inline]
    pub(super) fn hot_text(&self, segment: &Segment) -> Option<&[u8]> {
        self.hot_texts.get(segment.hot as usize).map(Vec::as_slice)
    }

    pub(super) fn repetition(&self, rows: u64) -> (f64, f64) {
        let of = |segment: &Segment| {
            // Rows of one value cannot be fewer than one.
            let count = (segment.count as f64).min((segment.mass * rows as f64).max(1.0));
            let frequency = segment.mass / count;
            (segment.mass * frequency, segment.mass * frequency * frequency)
        };
        self.all.iter().map(of).fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }
}

/// The share of all rows that are neither NULL nor common.
fn rest_of(distribution: &Distribution) -> f64 {
    let hot: f64 = distribution.hot.iter().map(|hot| hot.fraction).sum();
    let rest = 1.0 - distribution.null_fraction - hot;
    let is_all_hot = distribution.hot.len() as f64 >= distribution.distinct.round();
    if is_all_hot && !distribution.hot.is_empty() { 0.0 } else { rest.max(0.0) }
}

fn span(from: i64, to: i64) -> u64 {
    to.saturating_sub(from).max(0) as u64
}

/// Share `wanted` different values among the parts: as their masses are, but at most as many as a
/// part has positions, and at least one if it has rows.
fn shared(wanted: u64, items: &[Item]) -> Vec<u64> {
    let room: Vec<(f64, u64)> = items
        .iter()
        .map(|item| match item {
            Item::Hot(_) => (0.0, 0),
            Item::Part(part) => (part.mass, part.span),
        })
        .collect();
    let mut counts = vec![0_u64; items.len()];
    let mut is_full: Vec<bool> =
        room.iter().map(|&(mass, span)| mass <= 0.0 || span == 0).collect();
    // Each turn fills at least one part, or shares all that is left.
    loop {
        let mass: f64 =
            room.iter().zip(&is_full).filter(|(_, full)| !**full).map(|(r, _)| r.0).sum();
        let given: u64 =
            counts.iter().zip(&is_full).filter(|(_, full)| **full).map(|(count, _)| count).sum();
        let left = wanted.saturating_sub(given) as f64;
        if mass <= 0.0 {
            return counts;
        }
        let mut has_filled = false;
        for (index, &(part_mass, span)) in room.iter().enumerate() {
            if !is_full[index] && left * part_mass / mass >= span as f64 {
                (counts[index], is_full[index], has_filled) = (span, true, true);
            }
        }
        if has_filled {
            continue;
        }
        // Rounded so that the sum is right.
        let (mut sum, mut before) = (0.0, 0);
        for (index, &(part_mass, _)) in room.iter().enumerate() {
            if !is_full[index] {
                sum += left * part_mass / mass;
                let until = sum.round() as u64;
                counts[index] = (until - before).max(1);
                before = until.max(before);
            }
        }
        return counts;
    }
}

/// The segment of a part with `count` values at equal distances, the first at its low end.
fn spread(part: &Part, first: u64, count: u64) -> Segment {
    let fixed = match part.is_last && count > 1 {
        true => (u128::from(part.span - 1) << 64).div_ceil(u128::from(count - 1)),
        false => (u128::from(part.span) << 64) / u128::from(count),
    };
    Segment {
        first,
        count,
        bin: part.bin,
        hot: NOT_HOT,
        low: part.low,
        step: (fixed >> 64) as u64,
        step_fraction: fixed as u64,
        mass: part.mass,
    }
}
