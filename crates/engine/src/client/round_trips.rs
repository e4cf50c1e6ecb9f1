//! Measures round trips without work for the server, on an idle connection before the load.

use pgdyno_wire::encode;

use super::Client;
use crate::clock::now_ns;
use crate::histogram::Histogram;
use crate::schedstat::{Schedstat, Scheduled};

/// Smallest number of exchanges, however long they take. There are more while there is time.
const COUNT_MIN: u64 = 20;
const COUNT_MAX: u64 = 500;
const ENOUGH_NS: u64 = 20_000_000;

/// The measured round trips.
#[derive(Debug, Default)]
pub struct RoundTrips {
    pub histogram: Histogram,
    /// Total time in which this thread and the backend were on a core or waited for one: the time
    /// that is not the network's. None if the kernel does not report both, for example on two
    /// hosts.
    pub runnable_ns: Option<u64>,
}

/// Measure the round trip of a Sync message.
pub async fn round_trips(client: Client<'_>) -> RoundTrips {
    let mut round_trips = RoundTrips::default();
    let ends = Ends::of(client.connection(|connection| connection.backend.process_id));
    let before = ends.as_ref().and_then(Ends::read);
    let begun_ns = now_ns();
    while is_wanted(round_trips.histogram.count(), now_ns() - begun_ns) {
        let sent_ns = now_ns();
        let exchange = client.exchange(false, |_, out, _| {
            encode::sync(out);
            1
        });
        match exchange.await {
            Ok(ended_ns) => round_trips.histogram.record(ended_ns - sent_ns),
            Err(_) => break,
        }
    }
    let after = ends.as_ref().and_then(Ends::read);
    round_trips.runnable_ns = runnable_ns(before, after, round_trips.histogram.count());
    round_trips
}

fn is_wanted(count: u64, elapsed_ns: u64) -> bool {
    count < COUNT_MIN || (count < COUNT_MAX && elapsed_ns < ENOUGH_NS)
}

/// Read the kernel's counters of this thread, and of the process with the backend's number.
type Both = (Scheduled, Scheduled);

struct Ends {
    engine: Schedstat,
    backend: Schedstat,
}

impl Ends {
    fn of(backend_id: i32) -> Option<Ends> {
        Some(Ends {
            engine: Schedstat::of_this_thread()?,
            backend: Schedstat::of_process(backend_id)?,
        })
    }

    fn read(&self) -> Option<Both> {
        Some((self.engine.read()?, self.backend.read()?))
    }
}

/// Returns: None if the process cannot be the backend. If the server is on another host, or behind
/// a pooler, a local process may have its number. The backend gets a core for each exchange.
fn runnable_ns(before: Option<Both>, after: Option<Both>, exchanges: u64) -> Option<u64> {
    let ((engine, backend), (engine_after, backend_after)) = (before?, after?);
    let (engine, backend) = (engine_after.since(engine), backend_after.since(backend));
    let is_backend = exchanges > 0 && backend.slices >= exchanges / 2;
    is_backend.then(|| engine.runnable_ns() + backend.runnable_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(runnable_ns: u64, slices: u64) -> Scheduled {
        Scheduled { cpu_ns: runnable_ns / 2, starved_ns: runnable_ns - runnable_ns / 2, slices }
    }

    #[test]
    fn work_at_both_ends_is_added_up() {
        let before = (seen(1_000, 7), seen(2_000, 5));
        let after = (seen(1_300, 30), seen(2_500, 25));
        assert_eq!(runnable_ns(Some(before), Some(after), 20), Some(800));
        assert_eq!(runnable_ns(Some(before), None, 20), None);
    }

    #[test]
    fn a_process_that_was_not_woken_is_not_the_backend() {
        let before = (seen(1_000, 7), seen(2_000, 5));
        let after = (seen(1_300, 30), seen(2_500, 9));
        assert_eq!(runnable_ns(Some(before), Some(after), 20), None);
    }

    #[test]
    fn far_servers_are_asked_a_few_times_and_near_ones_for_a_moment() {
        assert!(is_wanted(19, u64::MAX));
        assert!(!is_wanted(20, ENOUGH_NS));
        assert!(is_wanted(499, ENOUGH_NS - 1));
        assert!(!is_wanted(500, 0));
    }
}
