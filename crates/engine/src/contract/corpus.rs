//! Samples of every record and job variant, with integers at their limits, for the contract tests.

use std::collections::BTreeMap;

use super::FORMAT;
use super::job::*;
use super::record::*;

/// Values that a reader with floats, 32 bits or a sign would spoil.
const EDGES: [u64; 7] =
    [0, 1, u32::MAX as u64, u32::MAX as u64 + 1, (1 << 53) + 1, 1 << 63, u64::MAX];

/// Every record variant; of those with numbers, one for each edge.
pub fn records() -> Vec<Record> {
    let mut all = Vec::new();
    for (index, edge) in EDGES.into_iter().enumerate() {
        all.extend(records_with(edge));
        let endings = [Ending::Completed, Ending::Stopped, Ending::Aborted];
        all.push(Record::Summary(Box::new(summary(edge, endings[index % 3]))));
    }
    all.extend(phases());
    all.extend(errors());
    all.extend(histograms());
    all
}

fn records_with(edge: u64) -> Vec<Record> {
    vec![
        Record::Hello(Hello {
            time_ns: edge,
            format: FORMAT.into(),
            engine_version: "0.1.0".into(),
            build_profile: "release".into(),
            commit: "0123456789abcdef".into(),
            pid: u32::MAX,
            poller: "epoll".into(),
            scripts: vec![ScriptShape {
                name: "größe \"quoted\"\n".into(),
                program: "tpcc-like".into(),
                weight: u32::MAX,
                reads_only: true,
                is_background: false,
                statements: vec![StatementShape {
                    line: u32::MAX,
                    text: "SELECT '\u{1F600}'".into(),
                }],
            }],
        }),
        Record::Interval(Interval {
            time_ns: edge,
            interval_ns: edge,
            phase: PhaseName::Measure,
            counts: counts(edge),
            completed_by_script: vec![edge, 0],
            latency_sum_ns: edge,
            in_flight: edge,
            backlog: edge,
            connections: edge,
            thinking: edge,
            cpu_ns: edge,
        }),
        Record::Progress(Progress {
            time_ns: edge,
            table: "pgbench_accounts".into(),
            rows_done: edge,
            rows_total: edge,
        }),
        Record::Pieces(Pieces {
            time_ns: edge,
            phase: PhaseName::Create,
            done_count: edge,
            total_count: edge,
        }),
        Record::Connecting(Connecting { time_ns: edge, made_count: edge, wanted_count: edge }),
        Record::Warning(Notice {
            time_ns: edge,
            kind: "commit_in_doubt".into(),
            message: "1 commit is in doubt".into(),
            hint: String::new(),
        }),
    ]
}

fn counts(edge: u64) -> Counts {
    Counts {
        scheduled: edge,
        started: edge,
        completed: edge,
        failed: edge,
        skipped: edge,
        not_started: edge,
        unfinished: edge,
        late: edge,
        retried: edge,
        retries: edge,
        in_doubt: edge,
        rolled_back: edge,
    }
}

fn summary(edge: u64, ending: Ending) -> Summary {
    let span = PhaseSpan { phase: PhaseName::Load, began_ns: edge, ended_ns: edge };
    let failures = BTreeMap::from([("40001".to_owned(), edge), ("XXopen_block".to_owned(), 1)]);
    Summary {
        time_ns: edge,
        ending,
        phases: vec![span.clone()],
        counts: counts(edge),
        transactions_committed_all_phases: edge,
        scripts: vec![ScriptCounts {
            counts: counts(edge),
            failures: failures.clone(),
            counted: BTreeMap::from([("lines".into(), edge)]),
            served: Served { ended_count: edge, held_ns: edge, round_trips: edge },
        }],
        failures,
        failure_messages: match edge {
            0 => BTreeMap::new(),
            _ => BTreeMap::from([("40001".to_owned(), "ERROR: 100 % \"é\"".to_owned())]),
        },
        distributions: vec![distribution(Measured::Latency, None, None, edge)],
        unfinished_ages_ns: vec![edge],
        between_transactions_ns: (edge > 0).then_some(edge),
        sleep_ns: edge,
        shell_ns: edge,
        think_time_ns: (edge > 0).then_some(edge),
        connections_lost: edge,
        reconnects: edge,
        commits_in_doubt: edge,
        longest_gap: (edge > 0).then_some(Gap { began_ns: edge, ended_ns: edge }),
        idle: (edge > 0).then_some(IdleFacts { opened_count: edge, alive_count: edge }),
        round_trips: edge,
        round_trip_runnable_ns: (edge > 0).then_some(edge),
        round_trip_probes: (edge > 0).then_some(RoundTripProbes {
            count: edge,
            round_trip_ns: edge,
            engine_runnable_ns: edge,
            backend_runnable_ns: Some(edge),
            error_ns: edge,
        }),
        bytes_sent: edge,
        bytes_received: edge,
        cpu_user_ns: edge,
        cpu_system_ns: edge,
        resident_bytes_max: edge,
        threads: vec![ThreadFacts {
            poller: "epoll".into(),
            clients: u32::MAX,
            busy_ratio: 0.125,
            starved_ratio: 1.0,
            timer_lag_ns_p50: edge,
            timer_lag_ns_p99: edge,
            timer_lag_ns_max: edge,
            reply_wait_ns_mean: (edge > 0).then_some(edge),
        }],
        fairness: (edge > 0).then_some(Fairness {
            clients: edge,
            completed_count_min: edge,
            completed_count_max: edge,
            gini_ratio: 0.75,
        }),
        init: (edge > 0).then(|| InitFacts { rows: edge, bytes_sent: edge, steps: vec![span] }),
    }
}

fn distribution(
    measured: Measured,
    script: Option<u32>,
    statement: Option<u32>,
    edge: u64,
) -> Distribution {
    Distribution {
        measured,
        script,
        statement,
        count: edge,
        sum_ns: edge,
        min_ns: edge,
        max_ns: edge,
        buckets: vec![(0, 1), (u32::MAX, edge)],
    }
}

fn phases() -> Vec<Record> {
    use PhaseName::*;
    [Connect, Prepare, Warm, Measure, Drain, Create, Load, Vacuum, Index, ForeignKeys]
        .into_iter()
        .flat_map(|phase| {
            [PhaseEvent::Begin, PhaseEvent::End]
                .map(|event| Record::Phase(Phase { time_ns: 1, phase, event }))
        })
        .collect()
}

fn errors() -> Vec<Record> {
    use ErrorKind::*;
    let kinds = [
        Job,
        Script,
        Evaluation,
        Connect,
        Authentication,
        TooManyConnections,
        Prepare,
        TooManyFailures,
        ConnectionLost,
        Protocol,
        Init,
        System,
    ];
    let failure = |kind, has_place: bool| {
        Record::Error(Failure {
            time_ns: 1,
            kind,
            message: "what was asked, the value seen, the rule".into(),
            hint: "the next step".into(),
            sqlstate: has_place.then(|| "42P01".into()),
            script: has_place.then(|| "orders.sql".into()),
            line: has_place.then_some(u32::MAX),
            column: has_place.then_some(1),
        })
    };
    kinds.into_iter().flat_map(|kind| [failure(kind, false), failure(kind, true)]).collect()
}

fn histograms() -> Vec<Record> {
    use Measured::*;
    [Latency, Service, Lag, Statement, Attempt, Connect, RoundTrip, ConnectionWait]
        .into_iter()
        .flat_map(|measured| {
            [(None, None), (Some(0), None), (Some(0), Some(u32::MAX))].map(|(script, statement)| {
                Record::Histogram(Histogram {
                    time_ns: 1,
                    interval_ns: u64::MAX,
                    phase: PhaseName::Warm,
                    distribution: distribution(measured, script, statement, u64::MAX),
                })
            })
        })
        .collect()
}

/// Jobs with every variant.
pub fn jobs() -> Vec<Job> {
    let protocols = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];
    let modes = [
        SslMode::Disable,
        SslMode::Allow,
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyCa,
        SslMode::VerifyFull,
    ];
    let loads = protocols.into_iter().flat_map(|protocol| {
        [ArrivalProcess::Uniform, ArrivalProcess::Poisson]
            .into_iter()
            .map(Some)
            .chain([None])
            .map(move |process| Work::Load(load(protocol, process)))
    });
    let inits = [PartitionMethod::Range, PartitionMethod::Hash]
        .into_iter()
        .flat_map(|method| [false, true].map(|is_full| Work::Init(init(method, is_full))));
    let tpcc = [false, true].map(|is_full| Work::Init(init_tpcc(is_full)));
    loads
        .chain(inits)
        .chain(tpcc)
        .zip(modes.into_iter().cycle())
        .map(|(work, sslmode)| Job {
            format: FORMAT.into(),
            clock: ClockPair { monotonic_ns: i64::MAX as u64, unix_ns: u64::MAX },
            target: target(sslmode),
            work,
        })
        .collect()
}

fn target(sslmode: SslMode) -> Target {
    Target {
        hosts: vec![
            HostPort::new("/run/postgresql", u16::MAX),
            HostPort {
                hostaddr: Some("::1".into()),
                password: (sslmode == SslMode::Prefer).then(|| "of\\1".into()),
                ..HostPort::new("db.example", 1)
            },
        ],
        user: "größe".into(),
        database: "bank".into(),
        password: (sslmode != SslMode::Disable).then(|| "p\"w\\".into()),
        application_name: "pgdyno/bench/1".into(),
        sslmode,
        tls: match sslmode {
            SslMode::Disable => TlsSettings::default(),
            _ => TlsSettings {
                sslrootcert: Some("system".into()),
                sslcert: Some("/home/größe/client.crt".into()),
                sslkey: Some("client.key".into()),
                sslsni: Some(sslmode == SslMode::VerifyFull),
                channel_binding: match sslmode {
                    SslMode::Allow => ChannelBinding::Disable,
                    SslMode::Prefer => ChannelBinding::Prefer,
                    _ => ChannelBinding::Require,
                },
                ssl_min_protocol_version: Some(TlsVersion::V12),
                ssl_max_protocol_version: Some(TlsVersion::V13),
                sslcertmode: match sslmode {
                    SslMode::VerifyFull => CertificateMode::Disable,
                    _ => CertificateMode::Allow,
                },
                require_auth: Some("scram-sha-256,none".into()),
            },
        },
        options: BTreeMap::from([("search_path".into(), "a, b".into())]),
        reach: reach(sslmode),
        password_command: (sslmode == SslMode::Require).then(|| "cat \"größe\"".into()),
    }
}

fn reach(sslmode: SslMode) -> Reach {
    let target_session_attrs = match sslmode {
        SslMode::Disable => SessionAttrs::Any,
        SslMode::Allow => SessionAttrs::ReadWrite,
        SslMode::Prefer => SessionAttrs::ReadOnly,
        SslMode::Require => SessionAttrs::Primary,
        SslMode::VerifyCa => SessionAttrs::Standby,
        SslMode::VerifyFull => SessionAttrs::PreferStandby,
    };
    let is_full = sslmode == SslMode::VerifyFull;
    let all = is_full.then_some(u32::MAX);
    Reach {
        target_session_attrs,
        load_balance: is_full,
        timeout_ns: is_full.then_some(u64::MAX),
        keepalive: Keepalive {
            off: is_full,
            idle_s: all,
            interval_s: all,
            count: all,
            user_timeout_ms: all,
        },
    }
}

fn load(protocol: Protocol, process: Option<ArrivalProcess>) -> LoadWork {
    let arrivals = match process {
        None => Arrivals::Closed(ClosedLoop { clients: 1_000_000 }),
        Some(process) => Arrivals::Open(OpenLoop {
            clients: 1,
            process,
            steps: vec![
                RateStep { duration_ns: (1 << 53) + 1, from_tps: 0.0, to_tps: 0.1 },
                RateStep { duration_ns: 0, from_tps: 1e9, to_tps: 1e9 },
            ],
            latency_limit_ns: (process == ArrivalProcess::Poisson).then_some(u64::MAX),
        }),
    };
    LoadWork {
        threads: 1024,
        seed: u64::MAX,
        protocol,
        scripts: vec![
            ScriptSource {
                name: "tpcb-like".into(),
                weight: u32::MAX,
                source: ScriptText::Builtin("tpcb-like".into()),
                options: BTreeMap::new(),
            },
            ScriptSource {
                name: "orders.sql".into(),
                weight: 0,
                source: ScriptText::Text("SELECT '\\\"\u{1F600}';\n".into()),
                options: match process {
                    Some(_) => BTreeMap::new(),
                    None => BTreeMap::from([("mode".into(), "pipeline".into())]),
                },
            },
        ],
        variables: BTreeMap::from([("scale".into(), "100".into())]),
        arrivals,
        connect: Connect {
            timeout_ns: u64::MAX,
            rate_per_second: process.is_none().then_some(80.5),
            idle_connections: 1_000_000,
            active_connections: process.is_none().then_some(1_000_000),
            each_transaction: process.is_some(),
            patience_ns: process.is_none().then_some(u64::MAX),
        },
        warm_ns: u64::MAX,
        measure: match process {
            None => Measure::TransactionsPerClient(u64::MAX),
            Some(_) => Measure::DurationNs((1 << 53) + 1),
        },
        drain_ns: 0,
        max_tries: u16::MAX,
        read_only: true,
        count_interval_ns: 100_000_000,
        histogram_interval_ns: 1_000_000_000,
        statement_latency: process.is_none(),
        think_ratio: if process.is_none() { 0.1 } else { 0.0 },
        allow_shell: true,
        probe_application_name: process.is_none().then(|| "pgdyno/observe/7.1".into()),
    }
}

fn init(partition_method: PartitionMethod, is_full: bool) -> InitWork {
    let (server, column) = match partition_method {
        PartitionMethod::Range => (DistributedServer::Citus, DistributionColumn::Aid),
        PartitionMethod::Hash => (DistributedServer::Greenplum, DistributionColumn::Bid),
    };
    let options = PgbenchOptions {
        scale: if is_full { u32::MAX } else { 1 },
        fillfactor: is_full.then_some(100),
        unlogged: is_full,
        foreign_keys: is_full,
        partitions: if is_full { u32::MAX } else { 0 },
        partition_method,
        tablespace: is_full.then(|| "fast".into()),
        index_tablespace: is_full.then(|| "faster".into()),
        range_rows: is_full.then_some(u64::MAX),
        steps: is_full.then(|| "dtgGvpf ".into()),
        distribute: is_full.then_some(Distribute { server, column }),
    };
    InitWork {
        dataset: DatasetOptions::Pgbench(options),
        jobs: u16::MAX,
        mark: "pgdyno dataset".into(),
        drop_existing: is_full,
        resume: is_full,
        keep_unfinished: is_full,
    }
}

fn init_tpcc(is_full: bool) -> InitWork {
    let options = TpccOptions {
        warehouses: if is_full { 1_000_000 } else { 1 },
        seed: if is_full { u64::MAX } else { 0 },
        c_last: if is_full { 255 } else { 0 },
        fillfactor: is_full.then_some(10),
        unlogged: is_full,
        foreign_keys: is_full,
        partitions: 0,
        distribute: is_full.then_some(DistributedServer::Citus),
    };
    let dataset = DatasetOptions::Tpcc(options);
    InitWork { dataset, ..init(PartitionMethod::Range, is_full) }
}
