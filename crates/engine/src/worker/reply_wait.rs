//! How long replies wait for this thread: in their sockets, and read but not yet gone on with.
//!
//! One turn in so many is looked at closely: the kernel's schedstat before and after the wait says
//! whether the thread slept, and how long it was runnable without a core. What is not looked at
//! costs nothing.
//!
//! With io_uring what a turn sends leaves in the call that waits. A turn that is looked at sends
//! beforehand, and how long that takes is counted: the servers woken by the first of its messages
//! may take the core from the thread before the last one is out.

use crate::clock::now_ns;
use crate::schedstat::{Schedstat, Scheduled};

/// Turns from one look to the next; a prime, so as not to march in step with the load.
const TURNS_A_LOOK: u32 = 61;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct ReplyWait {
    /// None where the kernel keeps no such statistics: then nothing is said.
    schedstat: Option<Schedstat>,
    turns_left: u32,
    woken: Option<Woken>,
    looked: Looked,
}

/// A thread that slept until a reply came, and what waited for it when it had a core at last.
#[derive(Clone, Copy, Debug)]
struct Woken {
    starved_ns: u64,
    /// Transactions that waited for the server when it fell asleep.
    in_flight: u64,
    replies: u64,
    /// What it finds until then had come before: completions are handed over some at a time.
    until_ns: u64,
}

/// Replies of the turns that were looked at, and how long all of them waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) replies: u64,
    pub(super) waited_ns: u64,
    /// Messages that left in a call of their own, and how long all of them waited for it.
    sends: u64,
    send_waited_ns: u64,
}

/// What was seen before a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// How long the thread had been at work since the wait before.
    worked_ns: u64,
    before: Scheduled,
    /// False where only the rest of what woke the thread before is looked for.
    is_due: bool,
}

impl ReplyWait {
    /// Call it in the thread itself.
    pub(super) fn of_this_thread() -> ReplyWait {
        let schedstat = Schedstat::of_this_thread();
        ReplyWait { schedstat, turns_left: TURNS_A_LOOK, ..ReplyWait::default() }
    }

    /// Whether the next wait is one to look at: what the turn sends goes out before, then.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.turns_left == 1
    }

    /// Add what the turn sent before its wait: so many messages, one after the other, in all this.
    pub(super) fn sent(&mut self, messages: u64, took_ns: u64) {
        self.looked.sends += messages;
        self.looked.send_waited_ns += took_ns * (messages + 1) / 2;
    }

    /// Begin to look at this turn, if it is one of those; `woke_ns` is when the last wait ended.
    #[inline]
    pub(super) fn before_wait(&mut self, woke_ns: u64) -> Option<Look> {
        self.turns_left = self.turns_left.wrapping_sub(1);
        let is_due = self.turns_left == 0;
        if !is_due && self.woken.is_none() {
            return None;
        }
        if is_due {
            self.turns_left = TURNS_A_LOOK;
        }
        let before = self.read()?;
        Some(Look { worked_ns: now_ns().saturating_sub(woke_ns), before, is_due })
    }

    /// Add the replies that a wait brought, with the instants at which they had been read.
    ///
    /// Returns: whether they are among those looked at.
    pub(super) fn after_wait(
        &mut self,
        look: Look,
        read_ns: impl ExactSizeIterator<Item = u64> + Clone,
        in_flight: u64,
    ) -> bool {
        let Some(after) = self.read() else { return false };
        let replies = read_ns.len() as u64;
        let first_ns = read_ns.clone().min().unwrap_or(u64::MAX);
        let slept = after.slices != look.before.slices;
        let is_rest = match &mut self.woken {
            Some(woken) if !slept && first_ns < woken.until_ns => {
                woken.replies += replies;
                true
            }
            _ => false,
        };
        if !is_rest {
            if let Some(woken) = self.woken.take() {
                self.looked.waited_ns += woken.waited_ns();
            }
            if !look.is_due || replies == 0 {
                return false;
            }
            if slept {
                let starved_ns = after.starved_ns.saturating_sub(look.before.starved_ns);
                let until_ns = first_ns.saturating_add(starved_ns / 4);
                self.woken = Some(Woken { starved_ns, in_flight, replies, until_ns });
            } else {
                // They came, evenly spread, while it was at work on those before.
                self.looked.waited_ns += look.worked_ns * replies / 2;
            }
        }
        self.looked.replies += replies;
        self.looked.waited_ns += read_ns.map(|at_ns| at_ns - first_ns).sum::<u64>();
        true
    }

    /// Add how long a reply that had been read waited for its transaction to go on.
    pub(super) fn went_on(&mut self, after_ns: u64) {
        self.looked.waited_ns += after_ns;
    }

    /// What was seen so far.
    pub(super) fn looked(&self) -> Looked {
        self.looked
    }

    fn read(&self) -> Option<Scheduled> {
        self.schedstat.as_ref()?.read()
    }
}

impl Woken {
    /// How long its replies lay in their sockets together.
    ///
    /// The first one wakes the thread, and waits until it has a core. The others come meanwhile, of
    /// the transactions that were left, each as likely to end at any moment as at any other: the
    /// more of them have come, the earlier they came.
    fn waited_ns(&self) -> u64 {
        let starved_ns = self.starved_ns as f64;
        let others = self.replies.saturating_sub(1) as f64;
        // Half a transaction more, or all of them would have come at once.
        let left = (self.in_flight.saturating_sub(1) as f64).max(others) + 0.5;
        let came = others / left;
        let waited = if came < 1e-6 { 0.5 * came } else { 1.0 + came / (1.0 - came).ln() };
        (starved_ns * (1.0 + left * waited)) as u64
    }
}

impl Looked {
    /// What was added since.
    pub(super) fn since(self, earlier: Looked) -> Looked {
        Looked {
            replies: self.replies - earlier.replies,
            waited_ns: self.waited_ns - earlier.waited_ns,
            sends: self.sends - earlier.sends,
            send_waited_ns: self.send_waited_ns - earlier.send_waited_ns,
        }
    }

    /// Mean wait of a reply and of the message it answers; None if no reply was looked at.
    pub(super) fn mean_ns(self) -> Option<u64> {
        let reply_ns = self.waited_ns.checked_div(self.replies)?;
        Some(reply_ns + self.send_waited_ns.checked_div(self.sends).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(replies: u64, in_flight: u64) -> Woken {
        Woken { starved_ns: 1_000_000, in_flight, replies, until_ns: 0 }
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
    fn one_turn_in_many_is_looked_at() {
        let mut wait = ReplyWait::of_this_thread();
        let looks = (0..TURNS_A_LOOK * 3).filter(|_| wait.before_wait(now_ns()).is_some()).count();
        assert!(looks == 3 || wait.schedstat.is_none());
    }

    #[test]
    fn reading_one_after_the_other_is_waiting_too() {
        let mut wait = ReplyWait::of_this_thread();
        let Some(before) = wait.read() else { return };
        let look = Look { worked_ns: 0, before, is_due: true };
        assert!(wait.after_wait(look, [1_000, 1_500, 3_000].into_iter(), 3));
        wait.went_on(100);
        let Looked { replies, waited_ns, .. } = wait.looked();
        assert_eq!(replies, 3);
        assert!(waited_ns >= 500 + 2_000 + 100);
    }

    #[test]
    fn a_message_waits_for_those_before_it() {
        let mut wait = ReplyWait {
            looked: Looked { replies: 1, ..Looked::default() },
            ..ReplyWait::default()
        };
        wait.sent(3, 600);
        // After 200, 400 and 600.
        assert_eq!(wait.looked().mean_ns(), Some(400));
    }
}
