//! What a job must satisfy before anything is started: each rule with the value seen.

use pgdyno_script::is_valid_name;

use super::Refusal;
use crate::contract::FORMAT;
use crate::contract::job::{Arrivals, Connect, Job, LoadWork, Measure, OpenLoop, Target, Work};
use crate::contract::record::ErrorKind;
use crate::dataset;

const MAX_THREADS: u16 = 1024;
const MAX_CLIENTS: u32 = 1_000_000;
/// Below a millisecond the records would cost more than the load.
const MIN_INTERVAL_NS: u64 = 1_000_000;

/// Rules for every job.
pub(super) fn job(job: &Job) -> Vec<Refusal> {
    let mut found = Found::default();
    found.rule(job.format == FORMAT, || format!("format must be {FORMAT}, got {}", job.format));
    target(&job.target, &mut found);
    found.0
}

/// Rules for loading a dataset.
pub fn init(job_: &Job) -> Result<(), Vec<Refusal>> {
    let mut found = Found(job(job_));
    if let Work::Init(init) = &job_.work {
        found.rule(init.jobs > 0, || "jobs must be above 0, got 0".into());
        for (message, hint) in dataset::of(&init.dataset).broken_rules() {
            found.0.push(Refusal::new(ErrorKind::Job, message, hint));
        }
    }
    if found.0.is_empty() { Ok(()) } else { Err(found.0) }
}

fn target(target: &Target, found: &mut Found) {
    found.rule(!target.hosts.is_empty(), || "target.hosts must name at least one host".into());
    let mut texts = vec![&target.user, &target.database, &target.application_name];
    texts.extend(target.hosts.iter().filter_map(|host| host.password.as_ref()));
    texts.extend(&target.password);
    texts.extend(target.options.iter().flat_map(|(name, value)| [name, value]));
    found.rule(!texts.iter().any(|text| text.contains('\0')), || {
        "user, database, password and options must not contain zero bytes".into()
    });
    found.rule(!target.user.is_empty(), || "target.user must not be empty".into());
    if let Err(why) = super::security(target) {
        found.rule(false, || format!("target.tls: {why}"));
    }
    found.rule(target.reach.timeout_ns != Some(0), || {
        "target.reach.timeout_ns must be above 0: omit it for no limit".into()
    });
}

/// Rules for generating load.
pub(super) fn load(work: &LoadWork) -> Vec<Refusal> {
    let mut found = Found::default();
    let clients = match &work.arrivals {
        Arrivals::Closed(closed) => closed.clients,
        Arrivals::Open(open) => {
            open_loop(open, &mut found);
            open.clients
        }
    };
    found.within("threads", u64::from(work.threads), 1, u64::from(MAX_THREADS));
    found.within("clients", u64::from(clients), 1, u64::from(MAX_CLIENTS));
    found.rule(!work.scripts.is_empty(), || "scripts must name at least one script".into());
    found.rule(
        work.scripts.is_empty() || work.scripts.iter().any(|script| script.weight > 0),
        || "at least one script must have a weight above 0".into(),
    );
    found.rule((0.0..=1.0).contains(&work.think_ratio), || {
        format!("think_ratio must be 0 to 1, got {}", work.think_ratio)
    });
    found.rule_with_hint(
        work.think_ratio == 0.0 || matches!(work.arrivals, Arrivals::Closed(_)),
        || "think_ratio must be 0 with a rate: transactions then start when they are due".into(),
        "leave the rate out, or the think factor",
    );
    found.within("max_tries", u64::from(work.max_tries), 1, u64::from(u16::MAX));
    match work.measure {
        Measure::DurationNs(duration_ns) => {
            found.rule(duration_ns > 0, || "measure.duration_ns must be above 0".into());
        }
        Measure::TransactionsPerClient(count) => {
            found.rule(count > 0, || "measure.transactions_per_client must be above 0".into());
        }
    }
    found.rule(work.count_interval_ns >= MIN_INTERVAL_NS, || {
        format!("count_interval_ns must be at least 1,000,000, got {}", work.count_interval_ns)
    });
    found.rule(
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
    found.rule(work.connect.timeout_ns > 0, || "connect.timeout_ns must be above 0".into());
    found.rule(work.connect.rate_per_second.is_none_or(is_rate), || {
        format!("connect.rate_per_second must be above 0, got {:?}", work.connect.rate_per_second)
    });
    connections(&work.connect, &mut found);
    for name in work.variables.keys() {
        found.rule(is_valid_name(name), || {
            format!("variable name \"{name}\" must consist of letters, digits and underscores")
        });
    }
    found.0
}

fn connections(connect: &Connect, found: &mut Found) {
    found.within(
        "connect.idle_connections",
        u64::from(connect.idle_connections),
        0,
        u64::from(MAX_CLIENTS),
    );
    found.rule(connect.active_connections != Some(0), || {
        "connect.active_connections must be above 0, got 0".into()
    });
    found.rule_with_hint(
        connect.active_connections.is_none() || !connect.each_transaction,
        || {
            "connect.active_connections and connect.each_transaction exclude each other: a \
             connection that is shared is not made anew for every transaction"
                .into()
        },
        "give one of --active and -C",
    );
    found.rule(connect.patience_ns != Some(0), || "connect.patience_ns must be above 0".into());
}

fn open_loop(open: &OpenLoop, found: &mut Found) {
    for (index, step) in open.steps.iter().enumerate() {
        let is_valid = |tps: f64| tps.is_finite() && tps >= 0.0;
        found.rule(is_valid(step.from_tps) && is_valid(step.to_tps), || {
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
    found.rule_with_hint(
        offers,
        || "arrivals.steps must offer a rate above 0 somewhere".into(),
        "leave the rate out for a closed loop",
    );
    found.rule(open.latency_limit_ns != Some(0), || "latency_limit_ns must be above 0".into());
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

#[derive(Default)]
struct Found(Vec<Refusal>);

impl Found {
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
