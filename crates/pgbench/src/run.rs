//! Runs the benchmark: sets up as pgbench does, runs the load on this engine's threads, reports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use pgdyno_script::{RandomStreams, Script, clients_of_threads};

use super::log::{Form, Log};
use super::options::Options;
use super::progress::Progress;
use super::report::{self, Outcome, Partitioning, ScriptLines};
use super::say::{self, Fault, fault, print, session_error, version};
use super::stats::Counted;
use super::witness::{Command, Facts, SharedCounts, Witness, locked};
use super::{password, seed};
use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::{
    ArrivalProcess, Arrivals, ClockPair, ClosedLoop, Connect, Job, LoadWork, Measure, OpenLoop,
    RateStep, ScriptSource, ScriptText, Target, Work,
};
use pgdyno_engine::contract::record::{
    Ending, Measured, PhaseEvent, PhaseName, PhaseSpan, Record, TimeDistribution, WarningKind,
};
use pgdyno_engine::load;
use pgdyno_engine::observer::{Observer, PgbenchMode};
use pgdyno_engine::output::Output;
use pgdyno_engine::plan::{Plan, PlannedScript};
use pgdyno_engine::session::{Session, SessionError, StopFlag};

/// pgbench waits for running transactions without a limit.
const NO_LIMIT_NS: u64 = 1 << 60;

const PARTITIONS: &str = "select o.n, p.partstrat, pg_catalog.count(i.inhparent) \
     from pg_catalog.pg_class as c \
     join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) \
     cross join lateral (select pg_catalog.array_position(\
     pg_catalog.current_schemas(true), n.nspname)) as o(n) \
     left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) \
     left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) \
     where c.relname = 'pgbench_accounts' and o.n is not null \
     group by 1, 2 order by 1 asc limit 1";

/// Run the benchmark. Returns the exit code.
pub(super) fn run(options: &Options, target: &mut Target) -> Result<u8, Fault> {
    let seed = seed::choose(options.random_seed.as_deref())?;
    let mut session =
        password::connect(target, options.password_file.as_deref(), &StopFlag::default())
            .map_err(|fault| fault.and("could not create connection for setup"))?;
    let server = session.parameter("server_version").unwrap_or("?").to_owned();
    let _ = print(&format!("pgbench ({}, server {server})\n", version()));
    if options.debug {
        say::info(setup_facts(options, target));
    }
    let (scale, partitioning) = table_facts(&mut session, options, &target.database)?;
    if !options.no_vacuum {
        vacuum(&mut session, options);
    }
    drop(session);
    let loading = Loading::new(options, target, seed, scale)?;
    loading.run(options, scale, partitioning)
}

/// The first lines of `--debug`: where it connects, and how long the run lasts.
fn setup_facts(options: &Options, target: &Target) -> String {
    let host = target.hosts.first();
    let (name, number) = match options.duration_s {
        0 => ("nxacts", options.transactions),
        seconds => ("duration", seconds),
    };
    format!(
        "pghost: {} pgport: {} nclients: {} {name}: {number} dbName: {}",
        host.map_or("", |host| &host.host),
        host.map_or(0, |host| host.port),
        options.clients,
        target.database
    )
}

/// Read the scale factor and the partitions of the tables, for built-in scripts.
fn table_facts(
    session: &mut Session,
    options: &Options,
    database: &str,
) -> Result<(u64, Option<Partitioning>), Fault> {
    if !options.scripts.iter().any(|script| script.is_builtin) {
        return Ok((u64::from(options.scale), None));
    }
    let initialize = format!(
        "Perhaps you need to do initialization (\"pgbench -i\") in database \"{database}\"."
    );
    let count = "select count(*) from pgbench_branches";
    let rows = session.query(count).map_err(|error| {
        let said =
            fault(format!("could not count number of branches: {}", session_error(&error, count)));
        match &error {
            SessionError::Server(e) if e.sqlstate.as_str() == "42P01" => said.hint(&initialize),
            _ => said,
        }
    })?;
    let text = rows.first().and_then(|row| row[0].clone()).unwrap_or_default();
    let scale: u64 = text
        .parse()
        .map_err(|_| fault(format!("invalid count(*) from pgbench_branches: \"{text}\"")))?;
    if options.is_scale_given {
        say::warning(format!(
            "scale option ignored, using count from pgbench_branches table ({scale})"
        ));
    }
    // Old servers do not have this catalogue, and no partitioned tables.
    let rows = session.query(PARTITIONS).unwrap_or_default();
    let Some(row) = rows.first() else {
        let message = "no pgbench_accounts table found in \"search_path\"";
        return Err(fault(message).hint(initialize));
    };
    let method = match row[1].as_deref() {
        Some("r") => Some("range"),
        Some("h") => Some("hash"),
        None => None,
        Some(other) => return Err(fault(format!("unexpected partition method: \"{other}\""))),
    };
    let count = row[2].as_deref().and_then(|count| count.parse().ok()).unwrap_or(0);
    Ok((scale, method.map(|method| Partitioning { method, count })))
}

fn vacuum(session: &mut Session, options: &Options) {
    let mut round = |announcement: &str, statements: &[&str]| {
        eprint!("{announcement}");
        for sql in statements {
            let result = session.query(sql);
            for notice in session.take_notices() {
                eprintln!("{}", say::server_error(&notice, sql));
            }
            if let Err(error) = result {
                say::error(session_error(&error, sql));
                say::detail("(ignoring this error and continuing anyway)");
            }
        }
        eprintln!("end.");
    };
    let tables = ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"];
    round("starting vacuum...", &tables);
    if options.vacuum_all {
        round("starting vacuum pgbench_accounts...", &["vacuum analyze pgbench_accounts"]);
    }
}

/// The input of a load.
struct Loading {
    plan: Plan,
    clock: ClockPair,
    counts: Vec<SharedCounts>,
    scripts: Vec<ScriptLines>,
}

impl Loading {
    fn new(options: &Options, target: &Target, seed: u64, scale: u64) -> Result<Loading, Fault> {
        let clock = ClockPair::now();
        let work = work(options, seed, scale);
        let job = Job {
            format: FORMAT.to_owned(),
            clock,
            target: target.clone(),
            work: Work::Load(work.clone()),
        };
        let are_bytes: Vec<bool> = options.scripts.iter().map(|s| s.are_bytes).collect();
        let mut plan = Plan::of_pgbench(&job, &work, &are_bytes).map_err(|refusals| {
            let mut said = refusals.iter().map(|refusal| &refusal.message);
            let first = fault(said.next().map_or("", String::as_str));
            said.fold(first, |fault, message| fault.and(message))
        })?;
        let scripts: Vec<ScriptLines> = script_lines(&plan);
        let command_counts: Vec<usize> = scripts.iter().map(|s| s.commands.len()).collect();
        let counts: Vec<SharedCounts> = (0..options.threads)
            .map(|_| Arc::new(Mutex::new(Counted::new(&command_counts))))
            .collect();
        let facts = Facts::of(options, clock, commands(&plan));
        let streams = RandomStreams::new(
            seed,
            options.clients as usize,
            options.threads as usize,
            !options.variables.contains_key("default_seed"),
        );
        let ranges = clients_of_threads(options.clients as usize, options.threads as usize);
        let mut observers: Vec<Option<Box<dyn Observer>>> = Vec::new();
        for ((thread, counts), clients) in (0..options.threads).zip(&counts).zip(ranges) {
            let sample = streams.threads[thread as usize].sample;
            let prefix = options.log_prefix.as_deref();
            let open = || Log::open(prefix, thread, Form::of(options), sample);
            observers.push(Some(Box::new(Witness {
                facts: Facts { thread, first_client: clients.start as u32, ..facts.clone() },
                counts: counts.clone(),
                log: options.log.then(open).transpose()?,
                numbers: vec![0; clients.len()],
            })));
        }
        plan.pgbench = PgbenchMode::new(options.connects_anew, observers).tracing(options.debug);
        Ok(Loading { plan, clock, counts, scripts })
    }

    fn run(
        self,
        options: &Options,
        scale: u64,
        partitioning: Option<Partitioning>,
    ) -> Result<u8, Fault> {
        let Loading { plan, clock, counts, scripts } = self;
        let heard = Rc::new(RefCell::new(Heard::default()));
        let (begins, began) = channel();
        let progress = Progress::of(options, clock, counts.clone());
        let reporter =
            (options.progress_s > 0).then(|| thread::spawn(move || progress.run(&began)));
        let mut output = {
            let heard = heard.clone();
            let mut begins = Some(begins);
            Output::heard(clock, move |record| heard.borrow_mut().hear(record, clock, &mut begins))
        };
        let ending = load::run(plan, &mut output, load::Ends::new());
        // Dropping the sender ends the progress report.
        drop(output);
        if let Some(reporter) = reporter {
            let _ = reporter.join();
        }
        let heard = heard.take();
        if ending == Ending::Aborted {
            let (message, whose) = heard.error.unwrap_or(("the load ended early".into(), None));
            let said = fault(message);
            return Err(whose.into_iter().fold(said, |said, whose| said.and(whose)));
        }
        let mut counted = locked(&counts[0]).clone();
        counts[1..].iter().for_each(|counts| counted.merge(&locked(counts)));
        let outcome = heard.outcome(options, scale, partitioning, scripts, counted);
        let _ = print(&report::report(options, &outcome));
        if outcome.counted.has_aborted {
            say::error("Run was aborted; the above results are incomplete.");
            return Ok(2);
        }
        Ok(0)
    }
}

/// The facts that the records report.
#[derive(Debug, Default)]
struct Heard {
    /// The first error; and the connection that failed, if a client could not connect.
    error: Option<(String, Option<String>)>,
    /// On the monotonic clock; 0 = never.
    load_began_ns: u64,
    connect: Option<PhaseSpan>,
    distributions: Vec<TimeDistribution>,
}

impl Heard {
    fn hear(&mut self, record: &Record, clock: ClockPair, begins: &mut Option<Sender<u64>>) {
        match record {
            Record::Error(failure) => {
                let whose = (failure.hint.starts_with("could not create connection"))
                    .then(|| failure.hint.clone());
                self.error.get_or_insert_with(|| (failure.message.clone(), whose));
            }
            Record::Phase(phase)
                if phase.phase == PhaseName::Measure && phase.event == PhaseEvent::Begin =>
            {
                let since_ns = phase.time_ns.saturating_sub(clock.unix_ns);
                self.load_began_ns = clock.monotonic_ns + since_ns;
                if let Some(begins) = begins {
                    // It fails if there is no progress report.
                    let _ = begins.send(self.load_began_ns);
                }
            }
            Record::Summary(summary) => {
                let span = summary.phases.iter().find(|span| span.phase == PhaseName::Connect);
                self.connect = span.cloned();
                self.distributions.clone_from(&summary.distributions);
            }
            // pgbench has no such warnings, for example about commits in doubt.
            Record::Warning(notice) if notice.kind == WarningKind::ScriptNotice => {
                say::warning(&notice.message);
            }
            _ => {}
        }
    }

    fn outcome(
        self,
        options: &Options,
        scale: u64,
        partitioning: Option<Partitioning>,
        scripts: Vec<ScriptLines>,
        counted: Counted,
    ) -> Outcome {
        let limit_ns = u64::from(options.duration_s) * 1_000_000_000;
        let lasted_ns = counted.last_ns.saturating_sub(self.load_began_ns);
        // If all clients were aborted, the run ended before its time.
        let duration_ns = match counted.has_aborted {
            true => lasted_ns,
            false => lasted_ns.max(limit_ns),
        };
        let connects = self.distributions.iter().find(|d| d.measured == Measured::Connect);
        Outcome {
            scale,
            partitioning,
            scripts,
            counted,
            duration_ns: duration_ns.max(1),
            connect_ns: self.connect.map_or(0, |span| span.ended_ns - span.began_ns),
            reconnect_sum_ns: connects.map_or(0, |d| d.sum_ns),
        }
    }
}

fn work(options: &Options, seed: u64, scale: u64) -> LoadWork {
    let mut variables = options.variables.clone();
    variables.entry("scale".into()).or_insert_with(|| scale.to_string());
    let clients = options.clients;
    let arrivals = match options.rate_tps > 0.0 {
        false => Arrivals::Closed(ClosedLoop { clients }),
        true => Arrivals::Open(OpenLoop {
            clients,
            process: ArrivalProcess::Poisson,
            steps: vec![RateStep {
                duration_ns: 0,
                from_tps: options.rate_tps,
                to_tps: options.rate_tps,
            }],
            latency_limit_ns: Some(options.latency_limit_ms)
                .filter(|limit| *limit > 0.0)
                .map(|limit| (limit * 1e6) as u64),
        }),
    };
    LoadWork {
        threads: u16::try_from(options.threads).unwrap_or(u16::MAX),
        seed,
        protocol: options.protocol,
        scripts: options
            .scripts
            .iter()
            .map(|script| ScriptSource {
                name: script.name.clone(),
                weight: script.weight,
                source: ScriptText::Text(script.text.clone()),
                options: BTreeMap::new(),
                templates: None,
            })
            .collect(),
        variables,
        arrivals,
        connect: Connect { timeout_ns: NO_LIMIT_NS, ..Connect::default() },
        warm_ns: 0,
        measure: match options.duration_s {
            0 => Measure::TransactionsPerClient(u64::from(options.transactions)),
            seconds => Measure::DurationNs(u64::from(seconds) * 1_000_000_000),
        },
        drain_ns: NO_LIMIT_NS,
        // The witness counts tries. This number only says whether there may be a second try.
        max_tries: if options.max_tries == 1 { 1 } else { u16::MAX },
        read_only: false,
        count_interval_ns: 100_000_000,
        histogram_interval_ns: 1_000_000_000,
        statement_latency: options.per_command,
        think_ratio: 0.0,
        allow_shell: true,
        journal: None,
        part: None,
        probe_application_name: None,
    }
}

fn script_lines(plan: &Plan) -> Vec<ScriptLines> {
    let lines = |(script, text): (&PlannedScript, &Script)| {
        let commands = text.commands.iter().map(|c| c.first_line().to_owned());
        ScriptLines {
            name: script.name.clone(),
            weight: script.weight,
            commands: commands.collect(),
        }
    };
    plan.scripts.iter().zip(plan.texts()).map(lines).collect()
}

fn commands(plan: &Plan) -> Vec<Vec<Command>> {
    let command = |command: &pgdyno_script::Command| Command {
        name: command.name(),
        failure: command.failure(),
    };
    plan.texts().map(|text| text.commands.iter().map(command).collect()).collect()
}
