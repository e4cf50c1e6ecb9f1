//! What the kernel counted of a thread: on a core, runnable without one, how often given one.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Totals since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    pub cpu_ns: u64,
    /// Runnable, and no core was free for it.
    pub starved_ns: u64,
    /// How often it was given a core.
    pub slices: u64,
}

/// Where it can be read of one thread; kernels may be built without it.
#[derive(Debug)]
pub struct Schedstat(File);

impl Schedstat {
    pub fn of_this_thread() -> Option<Schedstat> {
        File::open("/proc/thread-self/schedstat").ok().map(Schedstat)
    }

    /// Of a process with one thread.
    pub fn of_process(id: i32) -> Option<Schedstat> {
        File::open(format!("/proc/{id}/schedstat")).ok().map(Schedstat)
    }

    /// Returns: None when the process ended.
    pub fn read(&self) -> Option<Scheduled> {
        let mut bytes = [0; 96];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        parse(std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

impl Scheduled {
    /// What was added since.
    pub fn since(self, earlier: Scheduled) -> Scheduled {
        Scheduled {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            starved_ns: self.starved_ns.saturating_sub(earlier.starved_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }

    /// How long it was at work, with a core or without.
    pub fn runnable_ns(self) -> u64 {
        self.cpu_ns + self.starved_ns
    }
}

fn parse(text: &str) -> Option<Scheduled> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(Scheduled { cpu_ns: next()?, starved_ns: next()?, slices: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_read() {
        let seen = parse("12 345 6\n").expect("three numbers");
        assert_eq!(seen, Scheduled { cpu_ns: 12, starved_ns: 345, slices: 6 });
        assert_eq!(parse("12 345"), None);
    }

    #[test]
    fn a_thread_at_work_is_seen_at_work() {
        let Some(schedstat) = Schedstat::of_this_thread() else { return };
        let before = schedstat.read().expect("this thread's");
        while schedstat.read().expect("this thread's").since(before).cpu_ns == 0 {}
        assert_eq!(Schedstat::of_process(-1).map(|_| ()), None);
    }
}
