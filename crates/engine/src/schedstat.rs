//! Reads the kernel's counters of a thread: time on a core, time waiting for one, time slices.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Totals since the thread began, or the difference of two totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    pub cpu_ns: u64,
    /// Time in which the thread was runnable and waited for a core.
    pub starved_ns: u64,
    /// How often the thread got a core.
    pub slices: u64,
}

/// The open file with the counters of one thread. Kernels may be built without it.
#[derive(Debug)]
pub struct Schedstat(File);

impl Schedstat {
    pub fn of_this_thread() -> Option<Schedstat> {
        File::open("/proc/thread-self/schedstat").ok().map(Schedstat)
    }

    /// The counters of a process that has one thread, such as a backend.
    pub fn of_process(id: i32) -> Option<Schedstat> {
        File::open(format!("/proc/{id}/schedstat")).ok().map(Schedstat)
    }

    /// Read the counters; None if the process has ended.
    pub fn read(&self) -> Option<Scheduled> {
        let mut bytes = [0; 96];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        parse(std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

impl Scheduled {
    /// Return the growth since `earlier`.
    pub fn since(self, earlier: Scheduled) -> Scheduled {
        Scheduled {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            starved_ns: self.starved_ns.saturating_sub(earlier.starved_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }

    /// Return how long the thread was runnable, on a core or waiting for one.
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
