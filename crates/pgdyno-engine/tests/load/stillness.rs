//! What the host itself kept from its threads while a test ran: upper bounds of counts grow by it,
//! and by nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgdyno_engine::clock::now_ns;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::fake::job::MS;

/// A gap is noted from here on: a thread that wants to run each millisecond did not for so long.
const LEAST_NS: u64 = 5 * MS;

/// A thread on every core that asks for a little of it each millisecond.
pub(crate) struct Stillness {
    is_over: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Vec<u64>>>,
}

impl Stillness {
    pub(crate) fn watch() -> Stillness {
        let is_over = Arc::new(AtomicBool::new(false));
        let watchers = allowed_cores()
            .into_iter()
            .map(|core| {
                let is_over = Arc::clone(&is_over);
                thread::spawn(move || {
                    stay_on(core);
                    gaps(&is_over)
                })
            })
            .collect();
        Stillness { is_over, watchers }
    }

    /// Every gap of every core so far, in nanoseconds. None on a host that kept nothing back.
    pub(crate) fn gaps_ns(self) -> Vec<u64> {
        self.is_over.store(true, Ordering::Release);
        self.watchers.into_iter().flat_map(|watcher| watcher.join().expect("a watcher")).collect()
    }
}

fn gaps(is_over: &AtomicBool) -> Vec<u64> {
    let mut found = Vec::new();
    let mut before_ns = now_ns();
    while !is_over.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
        let woken_ns = now_ns();
        if woken_ns - before_ns >= LEAST_NS {
            found.push(woken_ns - before_ns);
        }
        before_ns = woken_ns;
    }
    found
}

fn allowed_cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("the cores of this process");
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
}

fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).expect("a core of this process");
}
