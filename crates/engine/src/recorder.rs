//! Counts the transactions of one thread, epoch by epoch.
//!
//! The thread reports each event to its recorder. At the end of an epoch the recorder gives all
//! counts away as an `Epoch`, and begins with empty ones. `tally` explains why.

use std::sync::mpsc::{Receiver, Sender};

use crate::contract::record::PhaseName;
use crate::histogram_set::{HistogramSet, Layout};
use crate::outcome::{Ended, Outcome};
use crate::program::Counted;
use crate::tally::{OWNERS, Owner, Tally};
use crate::timeline::Timeline;

/// Number of a thread.
pub type ThreadId = u32;

/// Traffic of one thread: waits for replies, and bytes of the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub round_trips: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Traffic {
    pub fn merge(&mut self, other: Traffic) {
        self.round_trips += other.round_trips;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

/// The state of a thread at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels {
    /// Transactions that have started and not ended.
    pub in_flight: u64,
    /// Open loop: transactions that are due and have not started.
    pub backlog: u64,
    /// Open connections for transactions; `idle_connections` are the additional ones.
    pub connections: u64,
    pub idle_connections: u64,
    /// Terminals in their keying or think time.
    pub thinking: u64,
}

/// Everything one thread counted in one epoch.
#[derive(Debug)]
pub struct Epoch {
    pub thread: ThreadId,
    pub end_ns: u64,
    pub phase: PhaseName,
    /// By owner.
    pub tallies: [Tally; 3],
    /// By owner. Histograms are handed over on a coarser grid, so they may be absent.
    pub histograms: [Option<Box<HistogramSet>>; 3],
    pub has_histograms: bool,
    pub levels: Levels,
    pub traffic: Traffic,
    /// When the first and the last transaction completed; None if none completed.
    pub completed_ns: Option<(u64, u64)>,
}

/// The counts of one thread in the running epoch.
#[derive(Debug)]
pub struct Recorder {
    pub layout: Layout,
    thread: ThreadId,
    latency_limit_ns: Option<u64>,
    count_interval_ns: u64,
    histogram_interval_ns: u64,
    timeline: Timeline,
    /// End of the running epoch.
    boundary_ns: u64,
    last_boundary_ns: u64,
    owner: Owner,
    tallies: [Tally; 3],
    histograms: [Option<Box<HistogramSet>>; 3],
    pub traffic: Traffic,
    pub committed_count: u64,
    completed_ns: Option<(u64, u64)>,
    /// Histograms that the collector has emptied, to be used again.
    spares: Receiver<Box<HistogramSet>>,
}

/// The channels that return emptied histograms, one for each thread.
pub type Spares = Vec<Sender<Box<HistogramSet>>>;

/// The arguments of `Recorder::new`.
#[derive(Debug)]
pub struct RecorderSetup {
    pub layout: Layout,
    pub thread: ThreadId,
    pub latency_limit_ns: Option<u64>,
    pub count_interval_ns: u64,
    pub histogram_interval_ns: u64,
    pub spares: Receiver<Box<HistogramSet>>,
}

impl Recorder {
    pub fn new(setup: RecorderSetup, timeline: Timeline) -> Recorder {
        let empty = || Tally::new(setup.layout.script_count());
        let mut recorder = Recorder {
            tallies: [empty(), empty(), empty()],
            layout: setup.layout,
            thread: setup.thread,
            latency_limit_ns: setup.latency_limit_ns,
            count_interval_ns: setup.count_interval_ns,
            histogram_interval_ns: setup.histogram_interval_ns,
            timeline,
            boundary_ns: 0,
            last_boundary_ns: timeline.connect_ns,
            owner: Owner::Warm,
            histograms: [const { None }; 3],
            traffic: Traffic::default(),
            committed_count: 0,
            completed_ns: None,
            spares: setup.spares,
        };
        recorder.set_timeline(timeline);
        recorder
    }

    /// Return whether transactions that end now are of the measured phase.
    pub fn is_measuring(&self) -> bool {
        self.owner == Owner::Measure
    }

    pub fn set_timeline(&mut self, timeline: Timeline) {
        self.timeline = timeline;
        self.boundary_ns = timeline.next_boundary(self.last_boundary_ns, self.count_interval_ns);
        self.owner = owner_at(&timeline, self.last_boundary_ns);
    }

    /// Return the end of the running epoch.
    #[inline]
    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    /// Return the owner of events that happen now, in a closed loop.
    #[inline]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// End the running epoch and return it.
    ///
    /// Call it for each boundary that has passed, in order.
    pub fn rotate(&mut self, levels: Levels) -> Epoch {
        let end_ns = self.boundary_ns;
        let has_histograms =
            self.timeline.is_histogram_boundary(end_ns, self.histogram_interval_ns);
        let epoch = self.take(end_ns, levels, has_histograms);
        self.last_boundary_ns = end_ns;
        self.boundary_ns = self.timeline.next_boundary(end_ns, self.count_interval_ns);
        self.owner = owner_at(&self.timeline, end_ns);
        epoch
    }

    /// Return the last epoch, at the end of the thread.
    pub fn finish(&mut self, end_ns: u64) -> Epoch {
        self.take(end_ns.max(self.last_boundary_ns), Levels::default(), true)
    }

    fn take(&mut self, end_ns: u64, levels: Levels, has_histograms: bool) -> Epoch {
        let empty = || Tally::new(self.layout.script_count());
        let tallies = std::mem::replace(&mut self.tallies, [empty(), empty(), empty()]);
        let histograms =
            if has_histograms { std::mem::take(&mut self.histograms) } else { [const { None }; 3] };
        Epoch {
            thread: self.thread,
            end_ns,
            phase: self.timeline.phase_at(end_ns.saturating_sub(1)).0,
            tallies,
            histograms,
            has_histograms,
            levels,
            traffic: std::mem::take(&mut self.traffic),
            completed_ns: self.completed_ns.take(),
        }
    }

    #[inline]
    pub fn statement(&mut self, owner: Owner, script: usize, statement: usize, ns: u64) {
        let set = set_of(&mut self.histograms, &self.spares, &self.layout, owner);
        set.statement(&self.layout, script, statement, ns);
    }

    pub fn attempt(&mut self, owner: Owner, script: usize, ns: u64) {
        let set = set_of(&mut self.histograms, &self.spares, &self.layout, owner);
        set.attempt(&self.layout, script, ns);
    }

    /// Count a started transaction. An open loop counts it now; a closed loop counts it at its end.
    #[inline]
    pub fn started(&mut self, owner: Owner, script: usize) {
        if self.layout.is_open_loop() {
            self.tallies[owner as usize].scripts[script].started += 1;
        }
    }

    #[inline]
    pub fn ended(&mut self, owner: Owner, script: usize, ended: &Ended) {
        let latency_ns = ended.ended_ns.saturating_sub(ended.scheduled_ns);
        let is_open_loop = self.layout.is_open_loop();
        let limit_ns = self.latency_limit_ns;
        let tally = &mut self.tallies[owner as usize].scripts[script];
        tally.started += u64::from(!is_open_loop);
        tally.retries += u64::from(ended.retries);
        match ended.outcome {
            Outcome::Completed | Outcome::RolledBack => {
                let is_kept = ended.outcome == Outcome::Completed;
                tally.completed += 1;
                tally.rolled_back += u64::from(!is_kept);
                tally.retried += u64::from(ended.retries > 0);
                tally.late += u64::from(limit_ns.is_some_and(|limit| latency_ns > limit));
                tally.latency_sum_ns += latency_ns;
                // Background work is not counted here: its commit was counted when it was deferred.
                let is_background = self.layout.is_background(script);
                self.committed_count += u64::from(is_kept && !is_background);
                let (first_ns, last_ns) =
                    self.completed_ns.unwrap_or((ended.ended_ns, ended.ended_ns));
                self.completed_ns = Some((first_ns, last_ns.max(ended.ended_ns)));
                let set = set_of(&mut self.histograms, &self.spares, &self.layout, owner);
                set.transaction(&self.layout, script, ended);
            }
            Outcome::Failed(code) => {
                tally.failed += 1;
                *tally.failures.entry(code).or_default() += 1;
            }
        }
    }

    /// Count a transaction that ended in the present phase, whichever phase it belongs to.
    ///
    /// Args: `held_ns`, how long the transaction had its connection.
    #[inline]
    pub fn served(&mut self, script: usize, held_ns: u64, round_trips: u32) {
        let served = &mut self.tallies[self.owner as usize].scripts[script].served;
        served.ended_count += 1;
        served.held_ns += held_ns;
        served.round_trips += u64::from(round_trips);
    }

    /// Add the counters of a native program, from a completed transaction.
    pub fn counted(&mut self, owner: Owner, script: usize, counted: &Counted) {
        let mine = &mut self.tallies[owner as usize].scripts[script].counted;
        mine.iter_mut().zip(counted).for_each(|(mine, count)| *mine += count);
    }

    /// Add the time between two transactions of a client, in a closed loop.
    #[inline]
    pub fn between_transactions(&mut self, ns: u64) {
        self.tallies[self.owner as usize].between_transactions_ns += ns;
    }

    /// Add the time that a script spent in `\sleep`.
    pub fn slept(&mut self, owner: Owner, ns: u64) {
        self.tallies[owner as usize].sleep_ns += ns;
    }

    /// Add the time that a script waited for a shell command.
    pub fn ran_shell(&mut self, owner: Owner, ns: u64) {
        self.tallies[owner as usize].shell_ns += ns;
    }

    /// Add keying and think time, the sum over all terminals.
    pub fn think(&mut self, ns: u64) {
        self.tallies[self.owner as usize].think_time_ns += ns;
    }

    /// Count a transaction that had not ended when the drain ended.
    pub fn unfinished(&mut self, owner: Owner, script: usize, retries: u16) {
        let is_open_loop = self.layout.is_open_loop();
        let tally = &mut self.tallies[owner as usize].scripts[script];
        tally.started += u64::from(!is_open_loop);
        tally.unfinished += 1;
        tally.retries += u64::from(retries);
    }

    /// Count a transaction whose commit was sent and never answered: it may have happened or not.
    pub fn in_doubt(&mut self, owner: Owner, script: usize, retries: u16) {
        self.unfinished(owner, script, retries);
        self.tallies[owner as usize].scripts[script].in_doubt += 1;
    }

    /// Record how long a completed transaction waited for its connection.
    pub fn connection_wait(&mut self, owner: Owner, script: usize, ns: u64) {
        let set = set_of(&mut self.histograms, &self.spares, &self.layout, owner);
        set.connection_wait(&self.layout, script, ns);
    }

    /// Count deferred work that had not started when the drain ended.
    pub fn left_undone(&mut self, owner: Owner, script: usize) {
        self.tallies[owner as usize].scripts[script].not_started += 1;
    }

    pub fn scheduled(&mut self, owner: Owner, count: u64) {
        self.tallies[owner as usize].scheduled += count;
    }

    pub fn skipped(&mut self, owner: Owner) {
        self.tallies[owner as usize].skipped += 1;
    }

    pub fn not_started(&mut self, owner: Owner) {
        self.tallies[owner as usize].not_started += 1;
    }
}

/// Return the owner's histograms. They are created at the first value.
#[inline]
fn set_of<'a>(
    histograms: &'a mut [Option<Box<HistogramSet>>; 3],
    spares: &Receiver<Box<HistogramSet>>,
    layout: &Layout,
    owner: Owner,
) -> &'a mut HistogramSet {
    histograms[owner as usize].get_or_insert_with(|| {
        spares.try_recv().unwrap_or_else(|_| Box::new(HistogramSet::new(layout)))
    })
}

/// Return the owner of transactions that begin at an instant, or in a closed loop end at it.
pub fn owner_at(timeline: &Timeline, at_ns: u64) -> Owner {
    match timeline.phase_at(at_ns).0 {
        PhaseName::Measure => Owner::Measure,
        PhaseName::Drain => Owner::Drain,
        _ => Owner::Warm,
    }
}

/// Each owner with its phase.
pub const OWNER_PHASES: [(Owner, PhaseName); 3] =
    [(OWNERS[0], PhaseName::Warm), (OWNERS[1], PhaseName::Measure), (OWNERS[2], PhaseName::Drain)];
