//! The report at the end of a run: pgbench's lines, in its order.

use std::fmt::Write;

use super::options::Options;
use super::stats::{Counted, SimpleStats, Stats};
use pgdyno_engine::contract::job::Protocol;

/// The partitions of `pgbench_accounts`: method and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partitioning {
    pub method: &'static str,
    pub count: u64,
}

/// A script in the report.
#[derive(Clone, Debug)]
pub(super) struct ScriptLines {
    pub name: String,
    pub weight: u32,
    /// The first line of each command.
    pub commands: Vec<String>,
}

/// The input of the report.
#[derive(Debug)]
pub(super) struct Outcome {
    pub scale: u64,
    pub partitioning: Option<Partitioning>,
    pub scripts: Vec<ScriptLines>,
    pub counted: Counted,
    /// Time from the begin of the load to the end of its last transaction.
    pub duration_ns: u64,
    /// Time until all clients were connected.
    pub connect_ns: u64,
    /// With `-C`: the sum of the times of all connections.
    pub reconnect_sum_ns: u64,
}

/// Return the report.
pub(super) fn report(options: &Options, outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(options, outcome, &mut text);
    text
}

fn write_report(options: &Options, outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let stats = &outcome.counted.total;
    head(options, outcome, out)?;
    if stats.total() == 0 {
        return Ok(());
    }
    totals(options, outcome, out)?;
    let seconds = outcome.duration_ns as f64 / 1e9;
    let tps = stats.completed as f64 / seconds;
    if options.connects_anew {
        let count = (stats.completed + stats.failures()) as f64;
        let mean_ms = outcome.reconnect_sum_ns as f64 / 1e6 / count;
        writeln!(out, "average connection time = {mean_ms:.3} ms")?;
        writeln!(out, "tps = {tps:.6} (including reconnection times)")?;
    } else {
        let connect_ms = outcome.connect_ns as f64 / 1e6;
        writeln!(out, "initial connection time = {connect_ms:.3} ms")?;
        writeln!(out, "tps = {tps:.6} (without initial connection time)")?;
    }
    let has_several = outcome.scripts.len() > 1;
    for index in 0..outcome.scripts.len() {
        if has_several {
            one_script(options, outcome, index, seconds, out)?;
        }
        if options.per_command {
            commands(options, outcome, index, out)?;
        }
    }
    if options.percentiles {
        percentiles(outcome, out)?;
    }
    Ok(())
}

fn head(options: &Options, outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let stats = &outcome.counted.total;
    let kind = match outcome.scripts.as_slice() {
        [script] => script.name.as_str(),
        _ => "multiple scripts",
    };
    writeln!(out, "transaction type: {kind}\nscaling factor: {}", outcome.scale)?;
    if let Some(Partitioning { method, count }) = &outcome.partitioning {
        writeln!(out, "partition method: {method}\npartitions: {count}")?;
    }
    let mode = match options.protocol {
        Protocol::Simple => "simple",
        Protocol::Extended => "extended",
        Protocol::Prepared => "prepared",
    };
    writeln!(out, "query mode: {mode}")?;
    writeln!(out, "number of clients: {}", options.clients)?;
    writeln!(out, "number of threads: {}", options.threads)?;
    if options.max_tries > 0 {
        writeln!(out, "maximum number of tries: {}", options.max_tries)?;
    }
    let processed = "number of transactions actually processed";
    if options.duration_s > 0 {
        writeln!(out, "duration: {} s\n{processed}: {}", options.duration_s, stats.completed)
    } else {
        let wanted = u64::from(options.transactions) * u64::from(options.clients);
        writeln!(out, "number of transactions per client: {}", options.transactions)?;
        writeln!(out, "{processed}: {}/{wanted}", stats.completed)
    }
}

/// Format `count (percent%)`, the percentage of `total`.
fn share(count: u64, total: u64) -> String {
    format!("{count} ({:.3}%)", 100.0 * count as f64 / total as f64)
}

/// The lines about failures, retries and skipped transactions, of the run and of each script.
fn failures(options: &Options, stats: &Stats, bullet: &str, out: &mut String) -> std::fmt::Result {
    let total = stats.total();
    let mut line =
        |what: &str, count: u64| writeln!(out, "{bullet}number of {what}: {}", share(count, total));
    line("failed transactions", stats.failures())?;
    if options.failures_detailed {
        line("serialization failures", stats.serialization_failures)?;
        line("deadlock failures", stats.deadlock_failures)?;
        if options.continues_on_error {
            line("other failures", stats.other_failures)?;
        }
    }
    if options.max_tries != 1 {
        line("transactions retried", stats.retried)?;
        writeln!(out, "{bullet}total number of retries: {}", stats.retries)?;
    }
    if options.rate_tps > 0.0 && options.latency_limit_ms > 0.0 {
        writeln!(out, "{bullet}number of transactions skipped: {}", share(stats.skipped, total))?;
    }
    Ok(())
}

fn totals(options: &Options, outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let Counted { total: stats, late, .. } = &outcome.counted;
    failures(options, stats, "", out)?;
    if options.latency_limit_ms > 0.0 {
        let percent = match stats.completed {
            0 => 0.0,
            completed => 100.0 * *late as f64 / completed as f64,
        };
        writeln!(
            out,
            "number of transactions above the {:.1} ms latency limit: {late}/{} ({percent:.3}%)",
            options.latency_limit_ms, stats.completed
        )?;
    }
    let is_throttled = options.rate_tps > 0.0;
    if is_throttled || options.progress_s > 0 || options.latency_limit_ms > 0.0 {
        moments("latency", &stats.latency, out)?;
    } else {
        // As pgbench without these options: calculated from the length of the run.
        let clients_ms = outcome.duration_ns as f64 / 1e6 * f64::from(options.clients);
        let suffix = if stats.failures() > 0 { " (including failures)" } else { "" };
        let mean_ms = clients_ms / stats.total() as f64;
        writeln!(out, "latency average = {mean_ms:.3} ms{suffix}")?;
    }
    if is_throttled {
        writeln!(
            out,
            "rate limit schedule lag: avg {:.3} (max {:.3}) ms",
            stats.lag.sum / 1e3 / stats.completed as f64,
            stats.lag.max / 1e3
        )?;
    }
    Ok(())
}

fn moments(what: &str, stats: &SimpleStats, out: &mut String) -> std::fmt::Result {
    if stats.count == 0 {
        return Ok(());
    }
    let (mean, deviation) = stats.moments();
    writeln!(out, "{what} average = {:.3} ms", mean / 1e3)?;
    writeln!(out, "{what} stddev = {:.3} ms", deviation / 1e3)
}

fn one_script(
    options: &Options,
    outcome: &Outcome,
    index: usize,
    seconds: f64,
    out: &mut String,
) -> std::fmt::Result {
    let ScriptLines { name, weight, .. } = &outcome.scripts[index];
    let stats = &outcome.counted.scripts[index];
    let weights: u64 = outcome.scripts.iter().map(|script| u64::from(script.weight)).sum();
    let (count, total) = (stats.total(), outcome.counted.total.total());
    let percent = |part: f64, whole: f64| 100.0 * part / whole;
    let targeted = percent(f64::from(*weight), weights as f64);
    writeln!(out, "SQL script {}: {name}", index + 1)?;
    writeln!(out, " - weight: {weight} (targets {targeted:.1}% of total)")?;
    let share = percent(count as f64, total as f64);
    writeln!(out, " - {count} transactions ({share:.1}% of total)")?;
    if count > 0 {
        writeln!(
            out,
            " - number of transactions actually processed: {} (tps = {:.6})",
            stats.completed,
            stats.completed as f64 / seconds
        )?;
        failures(options, stats, " - ", out)?;
    }
    moments(" - latency", &stats.latency, out)
}

/// The lines of `-r`: latency by command.
fn commands(
    options: &Options,
    outcome: &Outcome,
    index: usize,
    out: &mut String,
) -> std::fmt::Result {
    let bullet = if outcome.scripts.len() > 1 { " - " } else { "" };
    let what = if options.max_tries == 1 { " and failures" } else { ", failures and retries" };
    writeln!(out, "{bullet}statement latencies in milliseconds{what}:")?;
    let counts = &outcome.counted.commands[index];
    for (line, counts) in outcome.scripts[index].commands.iter().zip(counts) {
        let mean_ms = counts.sum_ns as f64 / 1e6 / counts.count.max(1) as f64;
        write!(out, "   {mean_ms:11.3}  {:10} ", counts.failures)?;
        if options.max_tries != 1 {
            write!(out, "{:10} ", counts.retries)?;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The lines of `--percentiles`, an option that pgbench does not have.
fn percentiles(outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let latency = &outcome.counted.latency;
    if latency.count() == 0 {
        return Ok(());
    }
    for (name, share) in
        [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)]
    {
        writeln!(out, "{name} latency = {:.3} ms", latency.quantile_ns(share) as f64 / 1e6)?;
    }
    writeln!(out, "max latency = {:.3} ms", latency.max_ns() as f64 / 1e6)
}
