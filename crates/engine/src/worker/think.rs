//! Keying and think time: the pauses of a terminal between two transactions.
//!
//! While it pauses, a terminal is only a small struct with a timer. If clients share connections,
//! it has none in this time. Pauses are never part of a latency.

use super::{Starts, Worker};
use crate::client::Pause;
use crate::clock::now_ns;
use crate::program::Pauses;
use crate::timers::Wake;

/// Terminals of a thread that pause, and the sum of their pauses.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    pub(super) is_on: bool,
    pub(super) count: u64,
    /// Terminals whose pause has ended, and that were not handled yet.
    pub(super) over: Vec<u32>,
    /// The instant up to which pauses were counted.
    counted_ns: u64,
}

impl Thinking {
    pub(super) fn new(is_on: bool) -> Thinking {
        Thinking { is_on, ..Thinking::default() }
    }

    /// Return the sum of the terminals' pauses since the last call.
    pub(super) fn until(&mut self, at_ns: u64) -> u64 {
        let passed_ns = at_ns.saturating_sub(self.counted_ns);
        self.counted_ns = self.counted_ns.max(at_ns);
        passed_ns * self.count
    }
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// Begin the think time of a terminal, and the keying time of its next transaction.
    ///
    /// Args: `from_ns`, the end of its last transaction, or the begin of the load.
    pub(super) fn think(&mut self, client: u32, script: usize, from_ns: u64) {
        let factor = self.plan.work.think_ratio;
        {
            let shard = &mut *self.shard.borrow_mut();
            let terminal = &mut shard.clients.terminals[client as usize];
            let pauses = |script: usize| &self.plan.scripts[script].pauses;
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
            let due_ns = from_ns + (pause_ns as f64 * factor) as u64;
            terminal.pause = Pause::Until { due_ns, script: script as u32 };
            shard.timers.set(due_ns, Wake::Terminal(client));
            let now = now_ns();
            shard.recorder.think(self.thinking.until(now));
            // From now on the terminal counts as thinking, until it is handled again. If its timer
            // is late, the delay also counts as thinking, and as timer lag.
            shard.recorder.between_transactions(now.saturating_sub(from_ns));
        }
        self.thinking.count += 1;
    }

    /// Start the transactions of terminals whose keying is over.
    pub(super) fn start_keyed_in(&mut self) {
        let mut over = std::mem::take(&mut self.thinking.over);
        for client in over.drain(..) {
            let now = now_ns();
            let (due_ns, script) = {
                let shard = &mut *self.shard.borrow_mut();
                let terminal = &mut shard.clients.terminals[client as usize];
                let Pause::Until { due_ns, script } = terminal.pause else { continue };
                terminal.pause = Pause::None { last_script: script };
                shard.recorder.think(self.thinking.until(now));
                (due_ns, script as usize)
            };
            self.thinking.count -= 1;
            self.facts.timer_lag.record(now.saturating_sub(due_ns));
            // If the client has no connection now, it starts when it gets one.
            if now < self.timeline.drain_ns && self.can_work(client) {
                self.start_chosen(client, script, now, None);
            }
        }
        self.thinking.over = over;
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
