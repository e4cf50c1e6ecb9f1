//! How long replies wait for this thread: in their sockets, and read but not yet gone on with.
//!
//! One turn in so many is looked at closely: the kernel's schedstat before and after the wait says
//! whether the thread slept, and how long it was runnable without a core. What is not looked at
//! costs nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::clock::now_ns;

/// Turns from one look to the next; a prime, so as not to march in step with the load.
const TURNS_A_LOOK: u32 = 61;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct ReplyWait {
    /// None where the kernel keeps no such statistics: then nothing is said.
    schedstat: Option<File>,
    turns_left: u32,
    looked: Looked,
}

/// Replies of the turns that were looked at, and how long all of them waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) replies: u64,
    pub(super) waited_ns: u64,
}

/// What was seen before a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// How long the thread had been at work since the wait before.
    worked_ns: u64,
    before: Scheduled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheduled {
    starved_ns: u64,
    /// How often the thread was given a core.
    slices: u64,
}

impl ReplyWait {
    /// Call it in the thread itself.
    pub(super) fn of_this_thread() -> ReplyWait {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        ReplyWait { schedstat, turns_left: TURNS_A_LOOK, looked: Looked::default() }
    }

    /// Begin to look at this turn, if it is one of those; `woke_ns` is when the last wait ended.
    #[inline]
    pub(super) fn before_wait(&mut self, woke_ns: u64) -> Option<Look> {
        self.turns_left = self.turns_left.wrapping_sub(1);
        if self.turns_left != 0 {
            return None;
        }
        self.turns_left = TURNS_A_LOOK;
        let before = self.read()?;
        Some(Look { worked_ns: now_ns().saturating_sub(woke_ns), before })
    }

    /// Add the replies that a wait brought, with the instants at which they had been read.
    pub(super) fn after_wait(
        &mut self,
        look: Look,
        read_ns: impl ExactSizeIterator<Item = u64> + Clone,
    ) {
        let (Some(after), Some(first_ns)) = (self.read(), read_ns.clone().min()) else { return };
        let replies = read_ns.len() as u64;
        let reading_ns: u64 = read_ns.map(|at_ns| at_ns - first_ns).sum();
        let in_sockets_ns = in_sockets_ns(look, after, replies);
        self.looked.replies += replies;
        self.looked.waited_ns += reading_ns + in_sockets_ns;
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
        let mut bytes = [0; 96];
        let length = self.schedstat.as_ref()?.read_at(&mut bytes, 0).ok()?;
        parse(std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

/// How long `replies` lay in their sockets together.
///
/// The first one wakes a thread that slept, and waits until it has a core; the others come
/// meanwhile, half as long before on average. Where the thread did not sleep they came, evenly
/// spread, while it was at work on those before.
fn in_sockets_ns(look: Look, after: Scheduled, replies: u64) -> u64 {
    if after.slices == look.before.slices {
        return look.worked_ns * replies / 2;
    }
    after.starved_ns.saturating_sub(look.before.starved_ns) * (replies + 1) / 2
}

fn parse(text: &str) -> Option<Scheduled> {
    let mut numbers = text.split_whitespace().skip(1).map(str::parse::<u64>);
    Some(Scheduled { starved_ns: numbers.next()?.ok()?, slices: numbers.next()?.ok()? })
}

impl Looked {
    /// What was added since.
    pub(super) fn since(self, earlier: Looked) -> Looked {
        Looked {
            replies: self.replies - earlier.replies,
            waited_ns: self.waited_ns - earlier.waited_ns,
        }
    }

    /// Mean wait of a reply; None if none was looked at.
    pub(super) fn mean_ns(self) -> Option<u64> {
        self.waited_ns.checked_div(self.replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Look =
        Look { worked_ns: 8_000, before: Scheduled { starved_ns: 1_000, slices: 7 } };

    #[test]
    fn the_reply_that_wakes_the_thread_waits_longest() {
        let after = Scheduled { starved_ns: 5_000, slices: 8 };
        assert_eq!(in_sockets_ns(BEFORE, after, 1), 4_000);
        assert_eq!(in_sockets_ns(BEFORE, after, 3), 4_000 + 2_000 + 2_000);
    }

    #[test]
    fn replies_to_a_thread_at_work_wait_half_of_its_turn() {
        let after = Scheduled { starved_ns: 1_000, slices: 7 };
        assert_eq!(in_sockets_ns(BEFORE, after, 3), 12_000);
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
        let look = Look { worked_ns: 0, before };
        wait.after_wait(look, [1_000, 1_500, 3_000].into_iter());
        wait.went_on(100);
        let Looked { replies, waited_ns } = wait.looked();
        assert_eq!(replies, 3);
        assert!(waited_ns >= 500 + 2_000 + 100);
    }

    #[test]
    fn schedstat_is_read() {
        let seen = parse("12 345 6\n").expect("three numbers");
        assert_eq!(seen, Scheduled { starved_ns: 345, slices: 6 });
        assert_eq!(parse("12"), None);
    }
}
