//! Samples of all job variants, with integers at their limits, for the contract tests.

use std::collections::BTreeMap;

use super::FORMAT;
use super::job::*;
use crate::dataset::DatasetKind;
use crate::program::Native;

/// Return jobs which together use all variants of all enums, also those of these programs and
/// datasets.
pub fn jobs(natives: &[&dyn Native], kinds: &[DatasetKind]) -> Vec<Job> {
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
        [ArrivalProcess::Uniform, ArrivalProcess::Poisson].into_iter().map(Some).chain([None]).map(
            move |process| {
                let templates = natives.iter().find_map(|native| native.sample_templates(protocol));
                Work::Load(load(protocol, process, templates))
            },
        )
    });
    let inits = kinds.iter().flat_map(|kind| {
        let samples = kind.samples().into_iter().enumerate();
        samples.map(|(number, dataset)| Work::Init(init(dataset, number % 2 == 1)))
    });
    loads
        .chain(inits)
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

fn load(
    protocol: Protocol,
    process: Option<ArrivalProcess>,
    templates: Option<Templates>,
) -> LoadWork {
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
                templates: templates.filter(|_| process.is_none()),
            },
            ScriptSource {
                name: "orders.sql".into(),
                weight: 0,
                source: ScriptText::Text("SELECT '\\\"\u{1F600}';\n".into()),
                options: match process {
                    Some(_) => BTreeMap::new(),
                    None => BTreeMap::from([("mode".into(), "pipeline".into())]),
                },
                templates: None,
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

fn init(dataset: DatasetOptions, is_full: bool) -> InitWork {
    InitWork {
        dataset,
        jobs: u16::MAX,
        mark: "pgdyno dataset".into(),
        drop_existing: is_full,
        resume: is_full,
        keep_unfinished: is_full,
        share: is_full.then_some(LoadShare { place: 1022, count: 1023 }),
    }
}
