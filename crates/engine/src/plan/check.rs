//! The rules that a job must keep before anything is started.
//!
//! Each message has the rule and the value seen. All rules are checked, so the user sees every
//! fault of a job at once. `script` checks the rules for a single script.

use pgdyno_script::is_valid_name;

use crate::contract::FORMAT;
use crate::contract::job::{Arrivals, Connect, InitWork, Job, LoadWork, Measure, OpenLoop, Target};
use crate::contract::record::ErrorKind;
use crate::dataset::{self, Dataset, DatasetKind};
use crate::refusal::Refusal;
use crate::session::security;

const MAX_THREADS: u16 = 1024;
const MAX_CLIENTS: u32 = 1_000_000;
/// Below a millisecond, writing the records would cost more CPU than the load.
const MIN_INTERVAL_NS: u64 = 1_000_000;

/// The rules for every job; returns those that the job breaks.
pub(super) fn job(job: &Job) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    refusals.rule(job.format == FORMAT, || format!("format must be {FORMAT}, got {}", job.format));
    target(&job.target, &mut refusals);
    refusals.0
}

/// Check a job that loads a dataset of one of these kinds, and return the dataset.
pub fn init(
    job_: &Job,
    init: &InitWork,
    kinds: &[DatasetKind],
) -> Result<Box<dyn Dataset>, Vec<Refusal>> {
    let dataset = dataset::read(&init.dataset, kinds).map_err(|refusal| vec![refusal])?;
    let mut refusals = Refusals(job(job_));
    if let Some(share) = init.share {
        refusals.rule(share.place < share.count, || {
            format!("share.place must be less than count {}, got {}", share.count, share.place)
        });
    }
    refusals.rule(init.jobs > 0, || "jobs must be above 0, got 0".into());
    for (message, hint) in dataset.broken_rules() {
        refusals.0.push(Refusal::new(ErrorKind::Job, message, hint));
    }
    if refusals.0.is_empty() { Ok(dataset) } else { Err(refusals.0) }
}

fn target(target: &Target, refusals: &mut Refusals) {
    refusals.rule(!target.hosts.is_empty(), || "target.hosts must name at least one host".into());
    let mut texts = vec![&target.user, &target.database, &target.application_name];
    texts.extend(target.hosts.iter().filter_map(|host| host.password.as_ref()));
    texts.extend(&target.password);
    texts.extend(target.options.iter().flat_map(|(name, value)| [name, value]));
    refusals.rule(!texts.iter().any(|text| text.contains('\0')), || {
        "user, database, password and options must not contain zero bytes".into()
    });
    refusals.rule(!target.user.is_empty(), || "target.user must not be empty".into());
    if let Err(why) = security(target) {
        refusals.rule(false, || format!("target.tls: {why}"));
    }
    refusals.rule(target.reach.timeout_ns != Some(0), || {
        "target.reach.timeout_ns must be above 0: omit it for no limit".into()
    });
}

/// The rules for a job that generates load; returns those that the job breaks.
pub(super) fn load(work: &LoadWork) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    if let Arrivals::Open(open) = &work.arrivals {
        open_loop(open, &mut refusals);
    }
    refusals.within("threads", u64::from(work.threads), 1, u64::from(MAX_THREADS));
    if let Some(part) = work.part {
        let end = u32::from(part.first_thread) + u32::from(part.threads);
        refusals.rule(part.threads > 0 && end <= u32::from(work.threads), || {
            format!(
                "part must be at least 1 of the {} threads, got {} threads from {} on",
                work.threads, part.threads, part.first_thread
            )
        });
    }
    refusals.within("clients", u64::from(work.client_count()), 1, u64::from(MAX_CLIENTS));
    refusals.rule(!work.scripts.is_empty(), || "scripts must name at least one script".into());
    refusals.rule(
        work.scripts.is_empty() || work.scripts.iter().any(|script| script.weight > 0),
        || "at least one script must have a weight above 0".into(),
    );
    refusals.rule((0.0..=1.0).contains(&work.think_ratio), || {
        format!("think_ratio must be 0 to 1, got {}", work.think_ratio)
    });
    refusals.rule_with_hint(
        work.think_ratio == 0.0 || matches!(work.arrivals, Arrivals::Closed(_)),
        || "think_ratio must be 0 with a rate: the schedule says when a transaction starts".into(),
        "leave out the rate or the think factor",
    );
    refusals.within("max_tries", u64::from(work.max_tries), 1, u64::from(u16::MAX));
    match work.measure {
        Measure::DurationNs(duration_ns) => {
            refusals.rule(duration_ns > 0, || "measure.duration_ns must be above 0".into());
        }
        Measure::TransactionsPerClient(count) => {
            refusals.rule(count > 0, || "measure.transactions_per_client must be above 0".into());
        }
    }
    refusals.rule(work.count_interval_ns >= MIN_INTERVAL_NS, || {
        format!("count_interval_ns must be at least 1,000,000, got {}", work.count_interval_ns)
    });
    refusals.rule(
        work.histogram_interval_ns > 0
            && work.count_interval_ns > 0
            && work.histogram_interval_ns.is_multiple_of(work.count_interval_ns),
        || {
            format!(
                "histogram_interval_ns must be a multiple of count_interval_ns, got {} and {}",
                work.histogram_interval_ns, work.count_interval_ns
            )
        },
    );
    refusals.rule(work.connect.timeout_ns > 0, || "connect.timeout_ns must be above 0".into());
    refusals.rule(work.connect.rate_per_second.is_none_or(is_rate), || {
        format!("connect.rate_per_second must be above 0, got {:?}", work.connect.rate_per_second)
    });
    connections(&work.connect, &mut refusals);
    for name in work.variables.keys() {
        refusals.rule(is_valid_name(name), || {
            format!("variable name \"{name}\" must consist of letters, digits and underscores")
        });
    }
    refusals.0
}

fn connections(connect: &Connect, refusals: &mut Refusals) {
    refusals.within(
        "connect.idle_connections",
        u64::from(connect.idle_connections),
        0,
        u64::from(MAX_CLIENTS),
    );
    refusals.rule(connect.active_connections != Some(0), || {
        "connect.active_connections must be above 0, got 0".into()
    });
    refusals.rule_with_hint(
        connect.active_connections.is_none() || !connect.each_transaction,
        || {
            "connect.active_connections and connect.each_transaction exclude each other: \
             clients cannot share connections if every transaction opens a new one"
                .into()
        },
        "give only one of --active and -C",
    );
    refusals.rule(connect.patience_ns != Some(0), || "connect.patience_ns must be above 0".into());
}

fn open_loop(open: &OpenLoop, refusals: &mut Refusals) {
    for (index, step) in open.steps.iter().enumerate() {
        let is_valid = |tps: f64| tps.is_finite() && tps >= 0.0;
        refusals.rule(is_valid(step.from_tps) && is_valid(step.to_tps), || {
            format!(
                "rates of step {} must be finite and not negative, got {} and {}",
                index + 1,
                step.from_tps,
                step.to_tps
            )
        });
    }
    let last = open.steps.len().saturating_sub(1);
    let offers = open.steps.iter().enumerate().any(|(index, step)| {
        step.to_tps > 0.0 && index == last
            || step.duration_ns > 0 && step.from_tps + step.to_tps > 0.0
    });
    refusals.rule_with_hint(
        offers,
        || "arrivals.steps must offer a rate above 0 somewhere".into(),
        "leave the rate out for a closed loop",
    );
    refusals.rule(open.latency_limit_ns != Some(0), || "latency_limit_ns must be above 0".into());
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    fn rule(&mut self, holds: bool, message: impl FnOnce() -> String) {
        self.rule_with_hint(holds, message, "correct the job");
    }

    fn rule_with_hint(&mut self, holds: bool, message: impl FnOnce() -> String, hint: &str) {
        if !holds {
            self.0.push(Refusal::new(ErrorKind::Job, message(), hint));
        }
    }

    fn within(&mut self, name: &str, value: u64, least: u64, most: u64) {
        self.rule((least..=most).contains(&value), || {
            format!("{name} must be {least} to {most}, got {value}")
        });
    }
}
