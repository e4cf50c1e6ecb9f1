//! A histogram of durations, in HDR buckets (see `contract::bucket`). Histograms are merged, and
//! never averaged.

use crate::contract::bucket::bucket_of;
use crate::contract::record::{Measured, TimeDistribution};

/// Number of buckets: for values below 2^47 ns (39 hours). Longer ones are counted in the last.
const LENGTH: usize = 32 * 1024;

/// Counts by bucket, with exact count, sum, minimum and maximum.
///
/// The 256 KiB of buckets are zero pages until a value falls into them. So the memory of a
/// histogram depends on the width of its distribution.
#[derive(Clone)]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    buckets: Box<[u64]>,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram({} values, {}..={} ns)", self.count, self.min_ns, self.max_ns)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = vec![0; LENGTH].into_boxed_slice();
        Histogram { count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, buckets }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.count += 1;
        self.sum_ns += value_ns;
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.buckets[bucket_index(value_ns)] += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Add the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        let touched = other.touched();
        for (mine, theirs) in self.buckets[touched.clone()].iter_mut().zip(&other.buckets[touched])
        {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Set all counts to 0, and keep the memory.
    pub fn clear(&mut self) {
        if self.count > 0 {
            let touched = self.touched();
            self.buckets[touched].fill(0);
        }
        (self.count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// Return the quantile at `ratio` (0..=1), exact to the width of a bucket; 0 without any value.
    pub fn quantile_ns(&self, ratio: f64) -> u64 {
        let rank = (ratio * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in self.touched() {
            seen += self.buckets[bucket];
            if seen >= rank {
                let (low, width) = crate::contract::bucket::bucket_range(bucket as u32);
                return (low + width - 1).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    /// Return the histogram in the form of a record.
    pub fn distribution(
        &self,
        measured: Measured,
        script: Option<u32>,
        statement: Option<u32>,
    ) -> TimeDistribution {
        let buckets = self
            .touched()
            .filter(|&bucket| self.buckets[bucket] > 0)
            .map(|bucket| (bucket as u32, self.buckets[bucket]))
            .collect();
        TimeDistribution {
            measured,
            script,
            statement,
            count: self.count,
            sum_ns: self.sum_ns,
            min_ns: if self.count > 0 { self.min_ns } else { 0 },
            max_ns: self.max_ns,
            buckets,
        }
    }

    /// Return the range of buckets that may be above 0.
    fn touched(&self) -> std::ops::Range<usize> {
        if self.count == 0 {
            return 0..0;
        }
        bucket_index(self.min_ns)..bucket_index(self.max_ns) + 1
    }
}

#[inline]
fn bucket_index(value_ns: u64) -> usize {
    (bucket_of(value_ns) as usize).min(LENGTH - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_equals_recording_everything_in_one() {
        let values = [0, 64, 1_000, 150_000, 150_001, 9_999_999, 3_600_000_000_000, u64::MAX / 4];
        let (mut whole, mut even, mut odd) = Default::default();
        for (index, value) in values.into_iter().enumerate() {
            let part: &mut Histogram = if index % 2 == 0 { &mut even } else { &mut odd };
            part.record(value);
            Histogram::record(&mut whole, value);
        }
        even.merge(&odd);
        let show = |h: &Histogram| h.distribution(Measured::Latency, None, None);
        assert_eq!(show(&even), show(&whole));
        assert_eq!(show(&whole).buckets.iter().map(|(_, count)| count).sum::<u64>(), 8);
        even.clear();
        assert_eq!(show(&even), show(&Histogram::default()));
    }

    #[test]
    fn quantiles_are_right_to_the_width_of_a_bucket() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 1_000));
        assert_eq!(histogram.quantile_ns(1.0), 1_000_000);
        let median = histogram.quantile_ns(0.5);
        assert!((500_000..500_600).contains(&median), "{median}");
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }
}
