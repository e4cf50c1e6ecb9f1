//! Measures how long replies wait for this thread: in their sockets, and after they were read.
//!
//! A sample of the turns is examined closely: the kernel's schedstat before and after the wait says
//! whether the thread slept, and how long it was runnable without a core. Turns that are not
//! examined cost nothing. If there are few turns, every turn is examined, because otherwise one
//! stall would count as many. Each examined turn counts for the number of turns that it was chosen
//! from.
//!
//! With io_uring the messages of a turn leave in the call that waits. An examined turn sends them
//! before, and the time of sending is counted: servers that the first message wakes may take the
//! core from the thread before the last message is sent.

use std::ops::Range;

use crate::clock::now_ns;
use crate::schedstat::{Schedstat, Scheduled};

/// Most turns from one examined turn to the next. It is a prime, so that examined turns do not keep
/// step with the load.
const TURNS_A_LOOK_MAX: u32 = 61;
/// If turns take longer than this, more of them are examined: the cost is then negligible.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// The examined turns of a thread.
#[derive(Debug, Default)]
pub(super) struct ReplyWait {
    /// None if the kernel keeps no such statistics: then there is no report.
    schedstat: Option<Schedstat>,
    turns_left: u32,
    turns_a_look: u32,
    last_look_ns: u64,
    /// Number of turns for which the present examined turn counts.
    turns: u64,
    woken: Option<Woken>,
    looked: Looked,
    /// If this turn is examined: the places of its replies in the list of ready connections.
    places: Range<usize>,
}

/// A thread that slept until a reply came, and the replies that waited when it got a core.
#[derive(Clone, Copy, Debug)]
struct Woken {
    starved_ns: u64,
    /// Turns that this one stands for.
    turns: u64,
    /// Transactions that waited for the server when the thread fell asleep.
    in_flight: u64,
    replies: u64,
    /// Events until then had come before: completions are handed over in batches.
    until_ns: u64,
}

/// Replies of the examined turns, and their total wait. Each counts as often as the number of turns
/// for which its turn counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) replies: u64,
    pub(super) waited_ns: u64,
    /// Messages that left in a separate call, and their total wait for it.
    sends: u64,
    send_waited_ns: u64,
}

/// What was seen before a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// How long the thread has worked since the last wait.
    worked_ns: u64,
    before: Scheduled,
    /// Turns that this one stands for.
    turns: u64,
    /// False if the wait only collects the remaining events of the last wake-up.
    is_due: bool,
}

impl ReplyWait {
    /// Make it for the calling thread.
    pub(super) fn of_this_thread() -> ReplyWait {
        let schedstat = Schedstat::of_this_thread();
        ReplyWait { schedstat, turns_left: 1, turns_a_look: 1, ..ReplyWait::default() }
    }

    /// Return true if the next wait is examined. The messages of the turn are then sent before it.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.turns_left == 1
    }

    /// Add the messages that the turn sent before its wait, and the time of sending them.
    pub(super) fn sent(&mut self, messages: u64, took_ns: u64) {
        let turns = u64::from(self.turns_a_look);
        self.looked.sends += turns * messages;
        self.looked.send_waited_ns += turns * took_ns * (messages + 1) / 2;
    }

    /// Begin to examine this turn, if it was chosen.
    ///
    /// Args: `woke_ns`, the end of the last wait.
    #[inline]
    pub(super) fn before_wait(&mut self, woke_ns: u64) -> Option<Look> {
        self.turns_left = self.turns_left.wrapping_sub(1);
        let is_due = self.turns_left == 0;
        if !is_due && self.woken.is_none() {
            return None;
        }
        let at_ns = now_ns();
        let turns = u64::from(self.turns_a_look);
        if is_due {
            self.choose_next(at_ns);
        }
        let before = self.read()?;
        Some(Look { worked_ns: at_ns.saturating_sub(woke_ns), before, turns, is_due })
    }

    /// Choose the next turn to examine, by the time that the turns up to this one took.
    fn choose_next(&mut self, at_ns: u64) {
        let took_ns = at_ns.saturating_sub(self.last_look_ns).max(1);
        let wanted = u64::from(self.turns_a_look) * LOOK_EVERY_NS / took_ns;
        self.turns_a_look = wanted.clamp(1, u64::from(TURNS_A_LOOK_MAX)) as u32;
        self.turns_left = self.turns_a_look;
        self.last_look_ns = at_ns;
    }

    /// Add the replies that a wait returned.
    ///
    /// Args: `places`, theirs in the list of ready connections; `read_ns`, the instants at which
    /// they were read.
    pub(super) fn after_wait(
        &mut self,
        look: Look,
        places: Range<usize>,
        read_ns: impl ExactSizeIterator<Item = u64> + Clone,
        in_flight: u64,
    ) {
        if self.is_examined(look, read_ns, in_flight) {
            self.places = places;
        }
    }

    /// Take the places of the replies that this turn examines.
    #[inline]
    pub(super) fn take_places(&mut self) -> Range<usize> {
        std::mem::take(&mut self.places)
    }

    /// Add the replies of a wait; true if they are examined.
    fn is_examined(
        &mut self,
        look: Look,
        read_ns: impl ExactSizeIterator<Item = u64> + Clone,
        in_flight: u64,
    ) -> bool {
        let Some(after) = self.read() else { return false };
        let replies = read_ns.len() as u64;
        let first_ns = read_ns.clone().min().unwrap_or(u64::MAX);
        let slept = after.slices != look.before.slices;
        let rest_of = match &mut self.woken {
            Some(woken) if !slept && first_ns < woken.until_ns => {
                woken.replies += replies;
                Some(woken.turns)
            }
            _ => None,
        };
        self.turns = rest_of.unwrap_or(look.turns);
        if rest_of.is_none() {
            if let Some(woken) = self.woken.take() {
                self.looked.waited_ns += woken.turns * woken.waited_ns();
            }
            if !look.is_due || replies == 0 {
                return false;
            }
            if slept {
                let starved_ns = after.starved_ns.saturating_sub(look.before.starved_ns);
                let until_ns = first_ns.saturating_add(starved_ns / 4);
                let turns = look.turns;
                self.woken = Some(Woken { starved_ns, turns, in_flight, replies, until_ns });
            } else {
                // They came at any time while the thread worked on the replies before.
                self.looked.waited_ns += self.turns * look.worked_ns * replies / 2;
            }
        }
        self.looked.replies += self.turns * replies;
        self.looked.waited_ns += self.turns * read_ns.map(|at_ns| at_ns - first_ns).sum::<u64>();
        true
    }

    /// Add how long a reply that had been read waited for its transaction to go on.
    pub(super) fn went_on(&mut self, after_ns: u64) {
        self.looked.waited_ns += self.turns * after_ns;
    }

    /// Return the sums so far.
    pub(super) fn looked(&self) -> Looked {
        self.looked
    }

    fn read(&self) -> Option<Scheduled> {
        self.schedstat.as_ref()?.read()
    }
}

impl Woken {
    /// Return the total time of the replies in their sockets.
    ///
    /// The first reply wakes the thread, and waits until the thread has a core. The other replies
    /// come in this time. Each transaction may end at any moment with the same probability, so the
    /// more replies have come, the earlier they came.
    fn waited_ns(&self) -> u64 {
        let starved_ns = self.starved_ns as f64;
        let others = self.replies.saturating_sub(1) as f64;
        // Half a transaction is added. Without it, all replies would count as having come at once.
        let left = (self.in_flight.saturating_sub(1) as f64).max(others) + 0.5;
        let came = others / left;
        let waited = if came < 1e-6 { 0.5 * came } else { 1.0 + came / (1.0 - came).ln() };
        (starved_ns * (1.0 + left * waited)) as u64
    }
}

impl Looked {
    /// Return the difference to an earlier state.
    pub(super) fn since(self, earlier: Looked) -> Looked {
        Looked {
            replies: self.replies - earlier.replies,
            waited_ns: self.waited_ns - earlier.waited_ns,
            sends: self.sends - earlier.sends,
            send_waited_ns: self.send_waited_ns - earlier.send_waited_ns,
        }
    }

    /// Return the mean wait of a reply and of its message; None if no reply was examined.
    pub(super) fn mean_ns(self) -> Option<u64> {
        let reply_ns = self.waited_ns.checked_div(self.replies)?;
        Some(reply_ns + self.send_waited_ns.checked_div(self.sends).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(replies: u64, in_flight: u64) -> Woken {
        Woken { starved_ns: 1_000_000, turns: 1, in_flight, replies, until_ns: 0 }
    }

    #[test]
    fn the_reply_that_wakes_the_thread_waits_for_all_of_it() {
        assert_eq!(woken(1, 16).waited_ns(), 1_000_000);
    }

    #[test]
    fn few_of_many_come_evenly_and_all_of_few_come_early() {
        // 2 of 9,999 others: half of the time each. 15 of 15: most of it each.
        assert!((1_990_000..2_010_000).contains(&woken(3, 10_000).waited_ns()));
        assert!((11_000_000..16_000_000).contains(&woken(16, 16).waited_ns()));
    }

    #[test]
    fn of_many_turns_few_are_looked_at_and_of_few_all() {
        let mut wait = ReplyWait::of_this_thread();
        for (turn_ns, looks_at) in [(1_000, 61), (1_000_000, 5), (10_000_000, 1)] {
            let mut at_ns = 1;
            // Until what was chosen before is over, and once more.
            for _ in 0..200 {
                at_ns += turn_ns;
                wait.turns_left -= 1;
                if wait.turns_left == 0 {
                    wait.choose_next(at_ns);
                }
            }
            assert_eq!(wait.turns_a_look, looks_at);
        }
    }

    #[test]
    fn a_look_stands_for_the_turns_it_was_chosen_from() {
        let mut wait = ReplyWait::of_this_thread();
        let Some(before) = wait.read() else { return };
        let look = |turns| Look { worked_ns: 0, before, turns, is_due: true };
        assert!(wait.is_examined(look(1), [1_000].into_iter(), 3));
        let first_look = wait.looked();
        assert!(wait.is_examined(look(4), [1_000, 1_500, 3_000].into_iter(), 3));
        wait.went_on(100);
        let Looked { replies, waited_ns, .. } = wait.looked().since(first_look);
        assert_eq!(replies, 4 * 3);
        assert!(waited_ns >= 4 * (500 + 2_000 + 100));
    }

    #[test]
    fn a_message_waits_for_those_before_it() {
        let mut wait = ReplyWait {
            turns_a_look: 1,
            looked: Looked { replies: 1, ..Looked::default() },
            ..ReplyWait::default()
        };
        wait.sent(3, 600);
        // After 200, 400 and 600.
        assert_eq!(wait.looked().mean_ns(), Some(400));
    }
}
