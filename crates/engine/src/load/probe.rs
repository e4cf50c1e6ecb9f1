//! Round trips while the load runs, on a connection that no client uses.
//!
//! The network of an idle moment is not the network under load: proxies, drivers and hypervisors
//! then have more to do. A thread sends a Sync message at random instants, which the server answers
//! without any work. It subtracts the time in which either end worked or waited for a core.

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

/// Mean and longest time between two exchanges: 40 of them cost 0.1 % of a core.
const GAP_NS: f64 = 25_000_000.0;
const GAP_MAX_NS: u64 = 100_000_000;

/// A thread that measures until its flag is set.
#[derive(Debug)]
pub(super) struct Probe {
    stop: StopFlag,
    thread: JoinHandle<Vec<Exchange>>,
}

/// One exchange, with the kernel's counts of the backend until then; None if unknown.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    duration_ns: u64,
    engine_runnable_ns: u64,
    backend: Option<Scheduled>,
}

impl Probe {
    /// Start it if the job asks for a probe; it measures only in the measured phase.
    pub(super) fn start(plan: &Plan, shared: &Arc<Shared>) -> Option<Probe> {
        let application_name = plan.work.probe_application_name.clone()?;
        let target = Target { application_name, ..plan.target.clone() };
        let (stop, shared) = (Arc::new(AtomicBool::new(false)), Arc::clone(shared));
        let (flag, random) = (Arc::clone(&stop), Prng::from_seed(plan.work.seed));
        let body = move || measure(&target, &flag, &shared, random);
        let thread = thread::Builder::new().name("probe".into()).spawn(body).ok()?;
        Some(Probe { stop, thread })
    }

    /// Return its result, None without any exchange.
    pub(super) fn end(self) -> Option<RoundTripProbes> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        summed_up(&self.thread.join().ok()?)
    }
}

/// Measure until the measured phase ends; a connection that fails is not made again.
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
        let engine_runnable_ns = cpu_ns + starved_ns(own.as_ref()) - starved_before_ns;
        if sent_ns >= timeline.measure_ns && timeline.measure_ns != NEVER_NS {
            let backend = backend.as_ref().and_then(Schedstat::read);
            exchanges.push(Exchange { duration_ns, engine_runnable_ns, backend });
        }
    }
    exchanges
}

/// How long this thread has waited for a core so far. Its CPU time is read from a clock, because
/// the kernel's file is only updated at each tick.
fn starved_ns(own: Option<&Schedstat>) -> u64 {
    own.and_then(Schedstat::read).map_or(0, |seen| seen.starved_ns)
}

/// The means; if the backend is known, also the standard error of the network's part.
fn summed_up(exchanges: &[Exchange]) -> Option<RoundTripProbes> {
    // The backend's work since the exchange before is known from the second exchange on.
    let (first, rest) = exchanges.split_first()?;
    let mut before = first.backend;
    let (mut duration_ns, mut engine_ns, mut backend_ns, mut slices) = (0, 0, 0, 0);
    let mut network_ns = Vec::with_capacity(rest.len());
    for exchange in rest {
        let done = exchange.backend.zip(before).map(|(now, then)| now.since(then));
        before = exchange.backend;
        let runnable_ns = done.map_or(0, Scheduled::runnable_ns);
        duration_ns += exchange.duration_ns;
        engine_ns += exchange.engine_runnable_ns;
        backend_ns += runnable_ns;
        slices += done.map_or(0, |done| done.slices);
        network_ns
            .push(exchange.duration_ns as f64 - (exchange.engine_runnable_ns + runnable_ns) as f64);
    }
    let count = rest.len() as u64;
    let mean = |sum: u64| sum.checked_div(count);
    // If the server is on another host, a local process may have the backend's pid; it does not
    // work during each exchange.
    let is_backend = before.is_some() && slices >= count / 2;
    Some(RoundTripProbes {
        count,
        round_trip_ns: mean(duration_ns)?,
        engine_runnable_ns: mean(engine_ns)?,
        backend_runnable_ns: if is_backend { mean(backend_ns) } else { None },
        error_ns: standard_error(&network_ns) as u64,
    })
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
    fn work_of_both_ends_is_known_apart_from_the_way() {
        let seen = [
            exchange(900, 10, Some(0)),
            exchange(1_000, 10, Some(100)),
            exchange(1_200, 30, Some(300)),
        ];
        let found = summed_up(&seen).expect("two exchanges");
        assert_eq!((found.count, found.round_trip_ns), (2, 1_100));
        assert_eq!((found.engine_runnable_ns, found.backend_runnable_ns), (20, Some(150)));
        // 890 and 970: their mean is 40 from each.
        assert_eq!(found.error_ns, 40);
    }

    #[test]
    fn nothing_is_said_of_a_backend_elsewhere_or_of_no_exchanges() {
        let far = [exchange(900, 10, None), exchange(1_000, 10, None)];
        assert_eq!(summed_up(&far).expect("one exchange").backend_runnable_ns, None);
        assert!(summed_up(&far[..1]).is_none());
        assert!(summed_up(&[]).is_none());
    }
}
