//! Samples of all job variants, with integers at their limits, for the contract tests.

use std::collections::BTreeMap;

use super::FORMAT;
use super::job::*;

/// Return jobs which together use all variants of all enums.
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
        .chain([Work::Init(init_ledger())])
        .chain([false, true].map(|is_full| Work::Init(init_capture(is_full))))
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
        in_turns: is_full,
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

fn linear() -> ParameterSource {
    let plus = Some(Plus { step: 0, parameter: 1, slope: -1.0 });
    ParameterSource::Linear {
        step: 0,
        parameter: None,
        column: Some(0),
        slope: -1.5,
        offset: 0.1,
        plus,
    }
}

fn list(of: ParameterSource, length: Spread, count: Count) -> ParameterSource {
    ParameterSource::List {
        of: Box::new(of),
        length,
        as_long_as: Some(0),
        count: Some(count),
        is_one_value: true,
        is_distinct: true,
        is_sorted: true,
    }
}

/// A mirrored load with every source of a parameter.
fn mirror(protocol: Protocol) -> MirrorLoad {
    let (table, column) = ("public.accounts".to_owned(), "aid".to_owned());
    let distribution = Box::new(Distribution::default());
    let spread = Spread { least: 5.0, mean: 9.5, most: 15.0 };
    let count = Count { step: 0, parameter: Some(1), offset: -1 };
    let of_column = ParameterSource::Column {
        table: table.clone(),
        column: column.clone(),
        distribution: Some(distribution.clone()),
        range: Some((i64::MIN, i64::MAX)),
        group: Some(u32::MAX),
        is_not_null: true,
        by_frequency: true,
        found_rows: Some(FoundRows { rows: 2.5, of_rows: 1e9 }),
        given: vec![Given { column: column.clone(), step: 0, parameter: u32::MAX }],
        kept: 0.9,
    };
    let otherwise = Some(Box::new(of_column.clone()));
    let parameters = vec![
        ParameterSource::Constant { value: Some("größe".into()) },
        ParameterSource::Drawn { distribution },
        of_column.clone(),
        ParameterSource::Equal { step: 0, parameter: 0, take: Take::Element },
        ParameterSource::Returned { step: 0, column: 1, pick: Pick::Any, otherwise },
        linear(),
        ParameterSource::Count(count),
        ParameterSource::Turn { offset: 1 },
        ParameterSource::Between { step: 0, parameter: 0, least: 0.0, most: 20.0 },
        ParameterSource::Fresh { table: table.clone(), column },
        ParameterSource::Now { minus_s: 86_400.0 },
        ParameterSource::Taken { statement: 0, column: u32::MAX },
        ParameterSource::Record { fields: vec![ParameterSource::Now { minus_s: 0.0 }] },
        list(of_column, spread, count),
    ];
    let step = MirrorStep {
        statement: 0,
        parameters,
        repeat: spread,
        probability: 0.5,
        pause_ms: 0.25,
        same_trip: true,
        loops_with_before: true,
        turns: Some(count),
        optional: vec![0],
        not_null: vec![0],
    };
    MirrorLoad {
        tables: vec![table],
        settings: BTreeMap::from([("search_path".into(), "\"größe\"".into())]),
        data_age_s: 1e9,
        statements: vec![MirrorStatement {
            text: "SELECT $1".into(),
            parameter_types: vec!["integer".into()],
        }],
        templates: vec![MirrorTemplate {
            name: "look".into(),
            weight: u32::MAX,
            reads_only: true,
            protocol: Some(protocol),
            think_ms: 12.5,
            steps: vec![step],
        }],
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
                mirror: process.is_none().then(|| Box::new(mirror(protocol))),
            },
            ScriptSource {
                name: "orders.sql".into(),
                weight: 0,
                source: ScriptText::Text("SELECT '\\\"\u{1F600}';\n".into()),
                options: match process {
                    Some(_) => BTreeMap::new(),
                    None => BTreeMap::from([("mode".into(), "pipeline".into())]),
                },
                mirror: None,
            },
        ],
        variables: BTreeMap::from([("scale".into(), "100".into())]),
        arrivals,
        connect: Connect {
            timeout_ns: u64::MAX,
            rate_per_second: process.is_none().then_some(80.5),
            idle_connections: 1_000_000,
            active_connections: process.is_none().then_some(1_000_000),
            background_terminals: u32::MAX,
            each_transaction: process.is_some(),
            patience_ns: process.is_none().then_some(u64::MAX),
            outlasts_crashes: process.is_none(),
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
        journal: process.is_none().then(|| "/var/tmp/größe/commits".into()),
        part: process.map(|_| Part { first_thread: 1022, threads: 2 }),
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
        share: is_full.then_some(LoadShare { place: 1022, count: 1023 }),
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
        range_warehouses: is_full.then_some(u32::MAX),
        distribute: is_full.then_some(DistributedServer::Citus),
    };
    let dataset = DatasetOptions::Tpcc(options);
    InitWork { dataset, ..init(PartitionMethod::Range, is_full) }
}

fn init_ledger() -> InitWork {
    let dataset = DatasetOptions::Ledger(LedgerOptions { accounts: 1_000_000 });
    InitWork { dataset, ..init(PartitionMethod::Range, true) }
}

fn init_capture(is_full: bool) -> InitWork {
    let options = CapturedOptions {
        creation: vec!["create table größe (a int)".into()],
        marked: vec!["table größe".into()],
        removal: vec!["drop table größe".into()],
        tables: vec![CapturedTable {
            name: "größe".into(),
            is_partitioned: is_full,
            rows: if is_full { u64::MAX } else { 0 },
            columns: ALL_KINDS.map(|kind| column(kind, is_full)).into(),
            keys: if is_full { vec![vec!["a".into(), "b".into()]] } else { Vec::new() },
            links: if is_full { vec![link()] } else { Vec::new() },
            indexes: if is_full { vec!["create index on größe (a)".into()] } else { Vec::new() },
        }],
        completion: vec!["analyze größe".into()],
        seed: if is_full { u64::MAX } else { 0 },
    };
    let dataset = DatasetOptions::Capture(options);
    InitWork { dataset, ..init(PartitionMethod::Range, is_full) }
}

const ALL_KINDS: [ValueKind; 19] = [
    ValueKind::Integer,
    ValueKind::Real,
    ValueKind::Numeric,
    ValueKind::Boolean,
    ValueKind::Text,
    ValueKind::Bytes,
    ValueKind::Uuid,
    ValueKind::Date,
    ValueKind::Timestamp,
    ValueKind::Timestamptz,
    ValueKind::Time,
    ValueKind::Interval,
    ValueKind::Json,
    ValueKind::Inet,
    ValueKind::Enum,
    ValueKind::Array,
    ValueKind::Range,
    ValueKind::Other,
    ValueKind::Rank,
];

fn column(kind: ValueKind, is_full: bool) -> CapturedColumn {
    let element = Distribution { kind: ValueKind::Integer, ..Distribution::default() };
    let distribution = Distribution {
        kind,
        null_fraction: if is_full { 0.5 } else { 0.0 },
        distinct: if is_full { 1e15 } else { 0.0 },
        width: if is_full { 12.5 } else { 0.0 },
        hot: if is_full { vec![Hot { value: "\\x\t".into(), fraction: 0.25 }] } else { Vec::new() },
        bounds: if is_full { vec!["a".into(), "ö".into()] } else { Vec::new() },
        element: is_full.then(|| Box::new(element)),
        length: is_full.then_some(Spread { least: 0.5, mean: 1.5, most: 2.5 }),
        step: is_full.then_some(0.5),
        is_dense: is_full,
        labels: if is_full { vec!["low".into(), "high".into()] } else { Vec::new() },
    };
    CapturedColumn {
        name: "\"größe\"".into(),
        distribution,
        correlation: if is_full { -0.5 } else { 0.0 },
        parent_in: is_full.then(|| "\"größe\"".into()),
    }
}

fn link() -> CapturedLink {
    CapturedLink {
        columns: vec!["a".into()],
        table: "b".into(),
        referenced: vec!["c".into()],
        extra: vec!["d".into()],
        distribution: column(ValueKind::Rank, false).distribution,
        correlation: 0.5,
    }
}
