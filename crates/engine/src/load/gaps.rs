//! The longest time without a completed transaction. It is found from the first and the last
//! completion of every interval, so it is exact if it is longer than one interval.

use crate::timeline::Timeline;

/// The longest gap so far.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// The latest completion.
    last_ns: u64,
    /// Begin and end, within the measured phase.
    pub(super) longest_ns: Option<(u64, u64)>,
}

impl Gaps {
    /// Take one interval: the times at which its first and its last transaction completed.
    pub(super) fn completed(&mut self, first_ns: u64, last_ns: u64, timeline: &Timeline) {
        let begin_ns = self.last_ns.max(timeline.measure_ns);
        let end_ns = first_ns.min(timeline.drain_ns);
        let length_ns = end_ns.saturating_sub(begin_ns);
        if length_ns > self.longest_ns.map_or(0, |(begin_ns, end_ns)| end_ns - begin_ns) {
            self.longest_ns = Some((begin_ns, end_ns));
        }
        self.last_ns = self.last_ns.max(last_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_what_the_measured_phase_has_of_it() {
        let mut timeline = Timeline::begin(0);
        (timeline.warm_ns, timeline.measure_ns) = (100, 1_000);
        (timeline.drain_ns, timeline.drain_end_ns) = (2_000, 2_500);
        let longest = |completed: &[(u64, u64)]| {
            let mut gaps = Gaps::default();
            completed.iter().for_each(|&(first, last)| gaps.completed(first, last, &timeline));
            gaps.longest_ns
        };
        assert_eq!(longest(&[(200, 500), (900, 950)]), None);
        assert_eq!(longest(&[(200, 900), (1_100, 1_190), (1_240, 1_990)]), Some((1_000, 1_100)));
        assert_eq!(longest(&[(1_010, 1_400), (1_700, 1_900)]), Some((1_400, 1_700)));
        // A thread may hand over late what completed before.
        assert_eq!(longest(&[(1_010, 1_400), (1_350, 1_420)]), Some((1_000, 1_010)));
        assert_eq!(longest(&[(1_010, 1_400), (2_400, 2_400)]), Some((1_400, 2_000)));
    }
}
