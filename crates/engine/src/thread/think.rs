//! Keying and think time: the pauses of a terminal between two transactions.
//!
//! While it pauses, a terminal is only a small struct with a timer. If clients share connections,
//! it has none in this time. Pauses are never part of a latency.

use std::collections::VecDeque;

use crate::client::{Pause, Shard};
use crate::clock::now_ns;
use crate::plan::Plan;
use crate::program::Pauses;
use crate::timers::Wake;

/// Terminals of a thread that pause, and the sum of their pauses.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    is_on: bool,
    count: u64,
    /// Terminals whose pause has ended, and that were not handled yet.
    over: VecDeque<u32>,
    /// The instant up to which pauses were counted.
    counted_ns: u64,
}

/// A terminal whose keying is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedIn {
    pub(super) client: u32,
    pub(super) script: usize,
    pub(super) due_ns: u64,
    pub(super) now_ns: u64,
}

impl Thinking {
    pub(super) fn new(is_on: bool) -> Thinking {
        Thinking { is_on, ..Thinking::default() }
    }

    /// True if the load has pauses.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Return the sum of the terminals' pauses since the last call.
    pub(super) fn until(&mut self, at_ns: u64) -> u64 {
        let passed_ns = at_ns.saturating_sub(self.counted_ns);
        self.counted_ns = self.counted_ns.max(at_ns);
        passed_ns * self.count
    }

    /// Begin the think time of a terminal, and the keying time of its next transaction.
    ///
    /// Args: `from_ns`, the end of its last transaction, or the begin of the load.
    pub(super) fn begin(
        &mut self,
        client: u32,
        script: usize,
        from_ns: u64,
        plan: &Plan,
        shard: &mut Shard,
    ) {
        let terminal = &mut shard.clients.terminals[client as usize];
        let pauses = |script: usize| &plan.scripts[script].pauses;
        let pause_ns = match terminal.pause {
            // It already pauses: its connection was lost and made again meanwhile.
            Pause::Until { .. } => return,
            // All terminals begin at once, so their first pauses are spread over one cycle.
            Pause::Fresh => {
                let Pauses { keying_ns, .. } = *pauses(script);
                let whole_ns = keying_ns + pauses(script).think_ns(&mut terminal.random);
                (whole_ns as f64 * terminal.random.unit()) as u64
            }
            Pause::None { last_script } => {
                let last = pauses(last_script as usize);
                pauses(script).keying_ns + last.think_ns(&mut terminal.random)
            }
        };
        let due_ns = from_ns + (pause_ns as f64 * plan.work.think_ratio) as u64;
        terminal.pause = Pause::Until { due_ns, script: script as u32 };
        shard.timers.set(due_ns, Wake::Terminal(client));
        let now = now_ns();
        shard.recorder.think(self.until(now));
        // From now on the terminal counts as thinking, until it is handled again. If its timer is
        // late, the delay also counts as thinking, and as timer lag.
        shard.recorder.between_transactions(now.saturating_sub(from_ns));
        self.count += 1;
    }

    /// The timer of a terminal has fired.
    pub(super) fn is_over(&mut self, client: u32) {
        self.over.push_back(client);
    }

    /// Take the next terminal whose keying is over.
    #[inline]
    pub(super) fn next_over(&mut self, shard: &mut Shard) -> Option<KeyedIn> {
        loop {
            let client = self.over.pop_front()?;
            let now_ns = now_ns();
            let terminal = &mut shard.clients.terminals[client as usize];
            let Pause::Until { due_ns, script } = terminal.pause else { continue };
            terminal.pause = Pause::None { last_script: script };
            shard.recorder.think(self.until(now_ns));
            self.count -= 1;
            return Some(KeyedIn { client, script: script as usize, due_ns, now_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_counted_by_terminal_and_never_twice() {
        let mut thinking = Thinking::new(true);
        assert_eq!(thinking.until(1_000), 0);
        thinking.count = 3;
        assert_eq!(thinking.until(1_500), 1_500);
        // A change within a turn may be read after a boundary that is handed over later.
        assert_eq!(thinking.until(1_400), 0);
        thinking.count = 2;
        assert_eq!(thinking.until(1_600), 200);
    }
}
