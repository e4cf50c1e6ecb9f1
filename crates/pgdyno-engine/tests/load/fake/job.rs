//! Jobs against a fake server, done in this process or by the program, and what came of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::*;
use pgdyno_engine::contract::record::*;
// Not that of the values of a column.
use pgdyno_engine::contract::record::TimeDistribution;
use pgdyno_engine::load::{Ends, run};
use pgdyno_engine::output::Output;
use pgdyno_engine::plan::Plan;
use pgdyno_engine::thread::Message;

use super::{Answer, Server, Statement};

pub(crate) const MS: u64 = 1_000_000;

/// A closed loop of one client, simple protocol, half a second.
pub(crate) fn work(script: &str) -> LoadWork {
    LoadWork {
        threads: 1,
        seed: 7,
        protocol: Protocol::Simple,
        scripts: vec![ScriptSource {
            name: "test.sql".into(),
            weight: 1,
            source: ScriptText::Text(script.into()),
            options: BTreeMap::new(),
            templates: None,
        }],
        variables: BTreeMap::new(),
        arrivals: Arrivals::Closed(ClosedLoop { clients: 1 }),
        // Nothing takes so long: a host that stands still meanwhile does not end what is awaited.
        connect: Connect { timeout_ns: 60_000 * MS, ..Connect::default() },
        warm_ns: 0,
        measure: Measure::DurationNs(500 * MS),
        drain_ns: 60_000 * MS,
        max_tries: 1,
        read_only: false,
        count_interval_ns: 50 * MS,
        histogram_interval_ns: 100 * MS,
        statement_latency: true,
        think_ratio: 0.0,
        allow_shell: false,
        journal: None,
        part: None,
        probe_application_name: None,
    }
}

pub(crate) fn open(clients: u32, rate_tps: f64) -> Arrivals {
    Arrivals::Open(OpenLoop {
        clients,
        process: ArrivalProcess::Uniform,
        steps: vec![RateStep { duration_ns: 0, from_tps: rate_tps, to_tps: rate_tps }],
        latency_limit_ns: None,
    })
}

/// Everything a run wrote.
pub(crate) struct Run {
    pub(crate) ending: Ending,
    pub(crate) records: Vec<Record>,
}

/// Do the work, and check what holds for every run: sums, order, the last record.
pub(crate) fn load(server: &Server, work: LoadWork) -> Run {
    load_with(server, work, |_| {})
}

/// As `load`; `with` gets what a stop can be sent through.
pub(crate) fn load_with(
    server: &Server,
    work: LoadWork,
    with: impl FnOnce(Sender<Message>),
) -> Run {
    load_on(&[server], work, |_| {}, with)
}

/// As `load`, on a server with these answers, and stopped with a statement, known by its number.
pub(crate) fn load_until(
    number: usize,
    mut work: LoadWork,
    answer: impl Fn(&Statement) -> Answer + Send + Sync + 'static,
) -> (Server, Run) {
    let (tell, told) = channel();
    let server = Server::start(move |statement| {
        if statement.number == number {
            let _ = tell.send(());
        }
        answer(statement)
    });
    work.measure = Measure::DurationNs(600_000 * MS);
    let run = load_with(&server, work, |sender| {
        std::thread::spawn(move || {
            let _ = told.recv();
            let _ = sender.send(Message::Stop);
        });
    });
    (server, run)
}

/// As `load_with`, on servers in this order, as `change` wants to reach them.
pub(crate) fn load_on(
    servers: &[&Server],
    work: LoadWork,
    change: impl FnOnce(&mut Target),
    with: impl FnOnce(Sender<Message>),
) -> Run {
    let mut job = job_on(servers, &work);
    change(&mut job.target);
    let clock = job.clock;
    let plan = Plan::new(&job, &work, crate::native::PROGRAMS).expect("a valid job");
    let ends = Ends::new();
    with(ends.sender.clone());
    let mut written = Vec::new();
    let mut output = Output::new(&mut written, clock);
    let ending = run(plan, &mut output, ends);
    drop(output);
    Run::checked(ending, &written)
}

/// As `load`, by the program that `make build` made: it is optimised, these tests are not.
pub(crate) fn load_by_program(server: &Server, work: LoadWork) -> Run {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/pgdyno-engine");
    let mut engine = Command::new(&program);
    engine.arg("run").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut engine = engine.spawn().unwrap_or_else(|error| {
        panic!("{}: {error}; run: make build", program.display());
    });
    // It takes the end of its input for an order to stop.
    let mut input = engine.stdin.take().expect("a pipe");
    let job = serde_json::to_string(&job_on(&[server], &work)).expect("a job");
    writeln!(input, "{job}").expect("the engine reads its job");
    let mut written = Vec::new();
    engine.stdout.take().expect("a pipe").read_to_end(&mut written).expect("its records");
    drop(input);
    let text = String::from_utf8_lossy(&written);
    assert!(engine.wait().expect("the engine ends").success(), "{text}; run: make build");
    Run::checked(Ending::Completed, &written)
}

/// The job that is this work on these servers.
pub(crate) fn job_on(servers: &[&Server], work: &LoadWork) -> Job {
    let host = |server: &&Server| HostPort::new(server.folder.to_str().unwrap(), 5432);
    let clock = ClockPair::now();
    Job {
        format: FORMAT.into(),
        clock,
        target: Target {
            hosts: servers.iter().map(host).collect(),
            user: "ann".into(),
            database: "bank".into(),
            password: None,
            application_name: "test".into(),
            sslmode: SslMode::Disable,
            tls: Default::default(),
            options: BTreeMap::new(),
            reach: Default::default(),
            password_command: None,
        },
        work: Work::Load(work.clone()),
    }
}

impl Run {
    /// The run with these lines of output, after a check of what the contract promises.
    fn checked(ending: Ending, written: &[u8]) -> Run {
        let lines = written.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let records = lines.map(|line| serde_json::from_slice(line).expect("a record")).collect();
        let run = Run { ending, records };
        run.check();
        run
    }

    pub(crate) fn summary(&self) -> &Summary {
        match self.records.last() {
            Some(Record::Summary(summary)) => summary,
            other => panic!("the last record is not a summary: {other:?}"),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.summary().counts
    }

    pub(crate) fn error(&self) -> Option<&Failure> {
        self.records.iter().find_map(|record| match record {
            Record::Error(failure) => Some(failure),
            _ => None,
        })
    }

    pub(crate) fn warning(&self, kind: WarningKind) -> Option<&Notice> {
        self.records.iter().find_map(|record| match record {
            Record::Warning(notice) if notice.kind == kind => Some(notice),
            _ => None,
        })
    }

    pub(crate) fn intervals(&self) -> impl Iterator<Item = &Interval> {
        self.records.iter().filter_map(|record| match record {
            Record::Interval(interval) => Some(interval),
            _ => None,
        })
    }

    pub(crate) fn histograms(&self) -> impl Iterator<Item = &Histogram> {
        self.records.iter().filter_map(|record| match record {
            Record::Histogram(histogram) => Some(histogram),
            _ => None,
        })
    }

    pub(crate) fn distribution(&self, measured: Measured) -> &TimeDistribution {
        let mut all = self.summary().distributions.iter();
        all.find(|d| d.measured == measured && d.script.is_none()).expect("it was measured")
    }

    /// What the contract promises of every run.
    fn check(&self) {
        let summary = self.summary();
        check_sums("summary", &summary.counts);
        for script in &summary.scripts {
            check_sums("script", &script.counts);
            assert_eq!(script.failures.values().sum::<u64>(), script.counts.failed);
        }
        let by_script = |of: fn(&Counts) -> u64| -> u64 {
            summary.scripts.iter().map(|script| of(&script.counts)).sum()
        };
        assert_eq!(by_script(|counts| counts.completed), summary.counts.completed);
        assert_eq!(by_script(|counts| counts.started), summary.counts.started);
        let kept = summary.counts.completed - summary.counts.rolled_back;
        assert!(summary.transactions_committed_all_phases >= kept);
        let latency = summary.distributions.iter().find(|d| d.measured == Measured::Latency);
        assert_eq!(latency.map_or(0, |latency| latency.count), summary.counts.completed);
        self.check_histograms();
        let mut last_ns = 0;
        for interval in self.intervals() {
            assert!(interval.time_ns > last_ns, "intervals in order");
            assert_eq!(interval.completed_by_script.iter().sum::<u64>(), interval.counts.completed);
            if last_ns > 0 {
                assert_eq!(interval.time_ns - interval.interval_ns, last_ns, "without a gap");
            }
            last_ns = interval.time_ns;
        }
        let phases: Vec<_> = summary.phases.iter().map(|span| span.phase).collect();
        use PhaseName::*;
        assert_eq!(phases, [Connect, Prepare, Warm, Measure, Drain]);
        assert!(summary.phases.windows(2).all(|pair| pair[0].ended_ns == pair[1].began_ns));
    }

    /// Histograms of the measured phase are those of the summary, added up.
    fn check_histograms(&self) {
        let mut buckets = BTreeMap::new();
        for record in &self.records {
            let Record::Histogram(histogram) = record else { continue };
            let of = &histogram.distribution;
            let is_whole = of.measured == Measured::Latency && of.script.is_none();
            if histogram.phase == PhaseName::Measure && is_whole {
                for (bucket, count) in &of.buckets {
                    *buckets.entry(*bucket).or_insert(0) += count;
                }
            }
        }
        let all = self.summary().distributions.iter();
        let mut latency = all.filter(|d| d.measured == Measured::Latency && d.script.is_none());
        let expected = latency.next().map(|d| d.buckets.clone()).unwrap_or_default();
        assert_eq!(buckets.into_iter().collect::<Vec<_>>(), expected);
    }
}

fn check_sums(what: &str, counts: &Counts) {
    let Counts { scheduled, started, completed, failed, skipped, not_started, unfinished, .. } =
        *counts;
    assert_eq!(scheduled, started + skipped + not_started, "{what}: {counts:?}");
    assert_eq!(started, completed + failed + unfinished, "{what}: {counts:?}");
}
