//! Merges the counts of all threads: interval and histogram records, and the totals.

use std::collections::BTreeMap;
use std::io::Write;

use super::gaps::Gaps;
use crate::clock::process_cpu_ns;
use crate::contract::job::ClockPair;
use crate::contract::record::{
    Gap, Histogram, Interval, Phase, PhaseEvent, PhaseName, PhaseSpan, Record,
};
use crate::histogram_set::{HistogramSet, Layout};
use crate::output::Output;
use crate::plan::Plan;
use crate::recorder::{Epoch, Levels, OWNER_PHASES, Spares, Traffic};
use crate::tally::{OWNERS, Owner, Tally};
use crate::timeline::Timeline;

/// The counts of all threads so far.
#[derive(Debug)]
pub(super) struct Collector {
    layout: Layout,
    timeline: Timeline,
    /// End of the last epoch of each thread; "never" for a finished thread.
    seen_ns: Vec<u64>,
    /// Levels of each thread at the end of its last epoch.
    levels: Vec<Levels>,
    pending: BTreeMap<u64, Vec<Epoch>>,
    spares: Spares,
    /// End of the last interval written, and of the last set of histograms.
    written_ns: u64,
    histograms_written_ns: u64,
    /// Phases whose begin was written.
    begun_count: usize,
    /// Histograms since the last set, by owner.
    window: [HistogramSet; 3],
    /// Memory for the sums over all scripts.
    sum: crate::histogram::Histogram,
    pub(super) totals: [Tally; 3],
    pub(super) histograms: [HistogramSet; 3],
    gaps: Gaps,
    /// Shorter gaps are not reported.
    count_interval_ns: u64,
    clock: ClockPair,
    /// Of the measured phase.
    pub(super) traffic: Traffic,
    /// When each phase began and ended.
    pub(super) spans: Vec<PhaseSpan>,
}

impl Collector {
    pub(super) fn new(
        plan: &Plan,
        spares: Spares,
        timeline: Timeline,
        clock: ClockPair,
    ) -> Collector {
        let layout = plan.layout.clone();
        let sets = || OWNERS.map(|_| HistogramSet::new(&layout));
        let (window, histograms) = (sets(), sets());
        let thread_count = plan.own_thread_count() as usize;
        Collector {
            timeline,
            seen_ns: vec![timeline.connect_ns; thread_count],
            levels: vec![Levels::default(); thread_count],
            pending: BTreeMap::new(),
            spares,
            written_ns: timeline.connect_ns,
            histograms_written_ns: timeline.connect_ns,
            begun_count: 0,
            window,
            sum: Default::default(),
            totals: OWNERS.map(|_| Tally::new(layout.script_count())),
            histograms,
            gaps: Gaps::default(),
            count_interval_ns: plan.work.count_interval_ns,
            clock,
            traffic: Traffic::default(),
            spans: Vec::new(),
            layout,
        }
    }

    pub(super) fn set_timeline(&mut self, timeline: Timeline) {
        self.timeline = timeline;
    }

    pub(super) fn add(&mut self, epoch: Box<Epoch>) {
        self.seen_ns[epoch.thread as usize] = epoch.end_ns;
        self.pending.entry(epoch.end_ns).or_default().push(*epoch);
    }

    /// A thread has ended: it sends no more counts.
    pub(super) fn finished(&mut self, thread: u32) {
        self.seen_ns[thread as usize] = u64::MAX;
    }

    /// Connections of clients and idle ones, as last reported by the threads.
    pub(super) fn connections(&self) -> u64 {
        self.levels.iter().map(|levels| levels.connections + levels.idle_connections).sum()
    }

    /// Write the next interval that all threads have passed, with its other records.
    pub(super) fn next_interval<W: Write>(&mut self, output: &mut Output<W>) -> Option<Interval> {
        let complete_ns = self.seen_ns.iter().copied().min().unwrap_or(0);
        let (&end_ns, _) = self.pending.first_key_value()?;
        if end_ns > complete_ns {
            return None;
        }
        let epochs = self.pending.remove(&end_ns).expect("just seen");
        self.write_phases(end_ns - 1, output);
        let phase = epochs[0].phase;
        let completed = epochs.iter().filter_map(|epoch| epoch.completed_ns);
        if let Some((first_ns, last_ns)) = completed.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            self.gaps.completed(first_ns, last_ns, &self.timeline);
        }
        let has_histograms = epochs.iter().any(|epoch| epoch.has_histograms);
        let counted = self.merge(epochs);
        let interval = self.interval(end_ns, phase, &counted, output);
        output.write(&Record::Interval(interval.clone()));
        if has_histograms {
            self.write_histograms(end_ns, output);
        }
        self.written_ns = end_ns;
        self.write_phases(end_ns, output);
        Some(interval)
    }

    /// Add the epochs to the totals.
    ///
    /// Returns: the sum of their counts.
    fn merge(&mut self, epochs: Vec<Epoch>) -> Tally {
        let mut counted = Tally::new(self.layout.script_count());
        for mut epoch in epochs {
            for (total, tally) in self.totals.iter_mut().zip(&epoch.tallies) {
                total.merge(tally);
                counted.merge(tally);
            }
            for (window, set) in self.window.iter_mut().zip(&mut epoch.histograms) {
                let Some(mut set) = set.take() else { continue };
                window.merge(&set);
                set.clear();
                // Sending fails if the thread has ended; then the histograms are not needed.
                let _ = self.spares[epoch.thread as usize].send(set);
            }
            if epoch.phase == PhaseName::Measure {
                self.traffic.merge(epoch.traffic);
            }
            self.levels[epoch.thread as usize] = epoch.levels;
        }
        counted
    }

    fn interval<W: Write>(
        &self,
        end_ns: u64,
        phase: PhaseName,
        counted: &Tally,
        output: &Output<W>,
    ) -> Interval {
        let sum = |of: fn(&Levels) -> u64| self.levels.iter().map(of).sum();
        Interval {
            time_ns: output.clock.unix_ns(end_ns),
            interval_ns: end_ns - self.written_ns,
            phase,
            counts: counted.counts(&self.layout),
            completed_by_script: counted.scripts.iter().map(|script| script.completed).collect(),
            latency_sum_ns: counted
                .foreground(&self.layout)
                .map(|script| script.latency_sum_ns)
                .sum(),
            in_flight: sum(|levels| levels.in_flight),
            backlog: sum(|levels| levels.backlog),
            connections: sum(|levels| levels.connections),
            thinking: sum(|levels| levels.thinking),
            cpu_ns: process_cpu_ns(),
        }
    }

    fn write_histograms<W: Write>(&mut self, end_ns: u64, output: &mut Output<W>) {
        for (owner, phase) in OWNER_PHASES {
            let window = &mut self.window[owner as usize];
            for distribution in window.distributions(&self.layout, &mut self.sum) {
                output.write(&Record::Histogram(Histogram {
                    time_ns: output.clock.unix_ns(end_ns),
                    interval_ns: end_ns - self.histograms_written_ns,
                    phase,
                    distribution,
                }));
            }
            self.histograms[owner as usize].merge(window);
            window.clear();
        }
        self.histograms_written_ns = end_ns;
    }

    /// Write the begin of every phase up to `at_ns`, and the end of the one before each.
    fn write_phases<W: Write>(&mut self, at_ns: u64, output: &mut Output<W>) {
        while let Some(&(phase, begin_ns)) = self.timeline.phases().get(self.begun_count) {
            if begin_ns > at_ns {
                return;
            }
            self.end_phase(begin_ns, output);
            self.begun_count += 1;
            let time_ns = output.clock.unix_ns(begin_ns);
            self.spans.push(PhaseSpan { phase, began_ns: time_ns, ended_ns: time_ns });
            output.write(&Record::Phase(Phase { time_ns, phase, event: PhaseEvent::Begin }));
        }
    }

    fn end_phase<W: Write>(&mut self, at_ns: u64, output: &mut Output<W>) {
        if let Some(span) = self.spans.last_mut() {
            let time_ns = output.clock.unix_ns(at_ns);
            span.ended_ns = time_ns;
            let (phase, event) = (span.phase, PhaseEvent::End);
            output.write(&Record::Phase(Phase { time_ns, phase, event }));
        }
    }

    /// The longest time of the measured phase in which nothing completed.
    pub(super) fn longest_gap(&self) -> Option<Gap> {
        let (begin_ns, end_ns) = self.gaps.longest_ns?;
        let unix_ns = |at_ns| self.clock.unix_ns(at_ns);
        (end_ns - begin_ns >= self.count_interval_ns)
            .then(|| Gap { began_ns: unix_ns(begin_ns), ended_ns: unix_ns(end_ns) })
    }

    /// The run is over: write the remaining phase records.
    pub(super) fn end_phases<W: Write>(&mut self, end_ns: u64, output: &mut Output<W>) {
        self.gaps.completed(end_ns, end_ns, &self.timeline);
        self.write_phases(end_ns, output);
        self.end_phase(end_ns, output);
    }

    pub(super) fn measured(&self) -> (&Tally, &HistogramSet) {
        let owner = Owner::Measure as usize;
        (&self.totals[owner], &self.histograms[owner])
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }
}
