//! Measures round trips while the load runs, on a connection that no client uses.
//!
//! A network behaves differently under load, because proxies, drivers and hypervisors have more to
//! do. A thread sends a Sync message at random instants. The server answers the message without any
//! work. The result also says how long each end worked or waited for a core, so that the reader can
//! subtract this time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgdyno_script::Prng;

use crate::clock::{NEVER_NS, now_ns, thread_cpu_ns};
use crate::contract::job::Target;
use crate::contract::record::RoundTripProbes;
use crate::plan::Plan;
use crate::schedstat::{Schedstat, Scheduled};
use crate::session::{Session, StopFlag};
use crate::timeline::{Shared, Timeline};

/// Mean and longest time between two exchanges. About 40 exchanges a second cost 0.1 % of a core.
const GAP_NS: f64 = 25_000_000.0;
const GAP_MAX_NS: u64 = 100_000_000;

/// A thread that measures until its flag is set.
#[derive(Debug)]
pub(super) struct Probe {
    stop: StopFlag,
    thread: JoinHandle<Vec<Exchange>>,
}

/// One exchange. `backend`: the kernel's counters of the backend process after the exchange; None
/// if they cannot be read.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    duration_ns: u64,
    engine_runnable_ns: u64,
    backend: Option<Scheduled>,
}

impl Probe {
    /// Start the thread if the job asks for a probe. It records only in the measured phase.
    pub(super) fn start(plan: &Plan, shared: &Arc<Shared>) -> Option<Probe> {
        let application_name = plan.work.probe_application_name.clone()?;
        let target = Target { application_name, ..plan.target.clone() };
        let (stop, shared) = (Arc::new(AtomicBool::new(false)), Arc::clone(shared));
        let (flag, random) = (Arc::clone(&stop), Prng::from_seed(plan.work.seed));
        let body = move || measure(&target, &flag, &shared, random);
        let thread = thread::Builder::new().name("probe".into()).spawn(body).ok()?;
        Some(Probe { stop, thread })
    }

    /// Stop the thread and return the means; None if it recorded fewer than two exchanges.
    pub(super) fn end(self) -> Option<RoundTripProbes> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        summed_up(&self.thread.join().ok()?)
    }
}

/// Measure until the measured phase ends, or until the connection fails: there is no second one.
fn measure(target: &Target, stop: &StopFlag, shared: &Shared, mut random: Prng) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    let Ok(mut session) = Session::connect(target, stop) else { return exchanges };
    let backend = Schedstat::of_process(session.process_id());
    let own = Schedstat::of_this_thread();
    let (mut generation, mut timeline) = (0, Timeline::begin(now_ns()));
    while !stop.load(Ordering::Relaxed) {
        let gap_ns = (-(1.0 - random.unit()).ln() * GAP_NS) as u64;
        thread::park_timeout(Duration::from_nanos(gap_ns.min(GAP_MAX_NS)));
        timeline = shared.if_changed(&mut generation).unwrap_or(timeline);
        let begun_ns = now_ns();
        if begun_ns >= timeline.drain_ns {
            break;
        }
        let starved_before_ns = starved_ns(own.as_ref());
        let (cpu_before_ns, sent_ns) = (thread_cpu_ns(), now_ns());
        if session.sync().is_err() {
            break;
        }
        let (ended_ns, cpu_ns) = (now_ns(), thread_cpu_ns() - cpu_before_ns);
        let duration_ns = ended_ns - sent_ns;
        let starved_ns = starved_ns(own.as_ref()).saturating_sub(starved_before_ns);
        let engine_runnable_ns = cpu_ns + starved_ns;
        if sent_ns >= timeline.measure_ns && timeline.measure_ns != NEVER_NS {
            let backend = backend.as_ref().and_then(Schedstat::read);
            exchanges.push(Exchange { duration_ns, engine_runnable_ns, backend });
        }
    }
    exchanges
}

/// Return how long this thread has waited for a core so far; 0 if the kernel does not say. The
/// thread's CPU time comes from a clock, as the kernel updates the CPU time in /proc at each tick.
fn starved_ns(own: Option<&Schedstat>) -> u64 {
    own.and_then(Schedstat::read).map_or(0, |seen| seen.starved_ns)
}

/// Return the means, and the standard error of the network's part.
fn summed_up(exchanges: &[Exchange]) -> Option<RoundTripProbes> {
    // The backend's work is the difference of two readings, so the first exchange is only a start.
    let (first, rest) = exchanges.split_first()?;
    let count = rest.len() as u64;
    let sum = |value: fn(&Exchange) -> u64| rest.iter().map(value).sum::<u64>();
    let mean = |sum: u64| sum.checked_div(count);
    let duration_ns = sum(|exchange| exchange.duration_ns);
    let of_backend = worked(first, rest).filter(|work| is_of_backend(work, duration_ns));
    let backend_ns = |place: usize| of_backend.as_ref().map_or(0, |work| work[place].runnable_ns());
    let network_ns: Vec<f64> = (rest.iter().enumerate())
        .map(|(place, exchange)| {
            exchange.duration_ns as f64 - (exchange.engine_runnable_ns + backend_ns(place)) as f64
        })
        .collect();
    Some(RoundTripProbes {
        count,
        round_trip_ns: mean(duration_ns)?,
        engine_runnable_ns: mean(sum(|exchange| exchange.engine_runnable_ns))?,
        backend_runnable_ns: of_backend
            .as_ref()
            .and_then(|work| mean(work.iter().map(|done| done.runnable_ns()).sum())),
        error_ns: standard_error(&network_ns) as u64,
    })
}

/// Return what the process with the backend's number did up to each exchange since the one before;
/// None if a reading is missing.
fn worked(first: &Exchange, rest: &[Exchange]) -> Option<Vec<Scheduled>> {
    let mut before = first.backend?;
    rest.iter()
        .map(|exchange| {
            let now = exchange.backend?;
            Some(now.since(std::mem::replace(&mut before, now)))
        })
        .collect()
}

/// Return whether the process is the backend. If the server is on another host, a process of this
/// host may have the same number. The backend runs in each exchange, and only a moment longer.
fn is_of_backend(work: &[Scheduled], duration_ns: u64) -> bool {
    let slices: u64 = work.iter().map(|done| done.slices).sum();
    let runnable_ns: u64 = work.iter().map(|done| done.runnable_ns()).sum();
    slices >= work.len() as u64 / 2 && runnable_ns <= 2 * duration_ns
}

fn standard_error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(duration_ns: u64, engine_runnable_ns: u64, backend: Option<u64>) -> Exchange {
        let seen = |cpu_ns| Scheduled { cpu_ns, starved_ns: 0, slices: cpu_ns };
        Exchange { duration_ns, engine_runnable_ns, backend: backend.map(seen) }
    }

    #[test]
    fn the_work_of_both_ends_is_known() {
        let seen = [
            exchange(900, 10, Some(0)),
            exchange(1_000, 10, Some(100)),
            exchange(1_200, 30, Some(300)),
        ];
        let found = summed_up(&seen).expect("two exchanges");
        assert_eq!((found.count, found.round_trip_ns), (2, 1_100));
        assert_eq!((found.engine_runnable_ns, found.backend_runnable_ns), (20, Some(150)));
        // The network's parts are 890 and 970 ns: each differs from their mean by 40.
        assert_eq!(found.error_ns, 40);
    }

    #[test]
    fn a_busy_process_of_this_host_with_the_backends_number_is_not_the_backend() {
        let busy = [
            exchange(900, 10, Some(0)),
            exchange(1_000, 10, Some(25_000)),
            exchange(1_200, 10, Some(51_000)),
        ];
        let found = summed_up(&busy).expect("two exchanges");
        assert_eq!(found.backend_runnable_ns, None);
        // The network's parts are 990 and 1190 ns.
        assert_eq!(found.error_ns, 100);
    }

    #[test]
    fn without_a_reading_of_each_exchange_the_backend_is_unknown() {
        let seen =
            [exchange(900, 10, Some(0)), exchange(1_000, 10, None), exchange(1_000, 10, Some(100))];
        assert_eq!(summed_up(&seen).expect("two exchanges").backend_runnable_ns, None);
    }

    #[test]
    fn nothing_is_said_of_a_backend_elsewhere_or_of_no_exchanges() {
        let far = [exchange(900, 10, None), exchange(1_000, 10, None)];
        assert_eq!(summed_up(&far).expect("one exchange").backend_runnable_ns, None);
        assert!(summed_up(&far[..1]).is_none());
        assert!(summed_up(&[]).is_none());
    }
}
