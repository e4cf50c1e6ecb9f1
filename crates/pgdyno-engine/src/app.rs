//! The verbs of `pgdyno-engine`: reads the arguments and runs one of them.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::facts::Facts;
use pgdyno_engine::contract::job::{ClockPair, InitWork, Job, Work};
use pgdyno_engine::contract::record::{
    Ending, EngineUsage, ErrorKind, Hello, Record, ScriptShape, Summary,
};
use pgdyno_engine::contract::{FORMAT, REVISION};
use pgdyno_engine::control::Order;
use pgdyno_engine::dataset::{self, Dataset};
use pgdyno_engine::output::Output;
use pgdyno_engine::plan::{Plan, check_init};
use pgdyno_engine::poller::Kind;
use pgdyno_engine::refusal::Refusal;
use pgdyno_engine::thread::Message;
use pgdyno_engine::{control, load, program};

use crate::table::{DATASETS, PROGRAMS};
use crate::{read_events, read_log};

const USAGE: &str = "usage: pgdyno-engine VERB

  run            read a job (one JSON line) from standard input, do it, and write records to
                 standard output. A further line `stop`, or the end of the input, stops it; a
                 part of a load waits for `start INSTANT` (CLOCK_MONOTONIC, ns)
  check-job      check a job without connecting: check-job [RELEASE/REVISION]; an engine that does
                 not suit a lab of this release and contract refuses
  print-sql      print the statements that a loading job may send, without connecting
  facts          print the built-ins, meta commands and datasets of this engine as JSON
  schema         print the JSON Schema of jobs and records
  read-log       read logs of a server and print their statements as JSON, a transaction a line:
                 read-log [--prefix LOG_LINE_PREFIX] FILE...; .gz and .zst are unpacked
  read-events    read a log and print what it says about the server as JSON, an event a line:
                 read-events [--prefix LOG_LINE_PREFIX] FILE; `-` is standard input
  pgbench        run as pgbench: see pgdyno-engine pgbench --help
  --version      print the version

Exit codes: 0 the summary was written; 1 the job was refused; 2 an error ended the job";

/// Exit code: the job did not begin.
const REFUSED: u8 = 1;
/// Exit code: an error ended the job, or nobody read the records.
const ABORTED: u8 = 2;

/// Run the verb that the arguments name.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    if words.first() == Some(&"pgbench") {
        return pgdyno_pgbench::main(&words[1..]);
    }
    if words.first() == Some(&"read-log") {
        return read(|out| read_log::main(&arguments[1..], out));
    }
    if words.first() == Some(&"read-events") {
        return read(|out| read_events::main(&arguments[1..], out));
    }
    match words.as_slice() {
        ["run"] => run(),
        ["check-job"] => check_job(),
        ["check-job", lab] if suits(lab) => check_job(),
        ["print-sql"] => print_sql(),
        ["facts"] => say(&[facts()]),
        ["schema"] => say(&[schema()]),
        ["--version" | "-V"] => say(&[version()]),
        ["--help" | "-?" | "help"] => say(&[USAGE.to_owned()]),
        _ => {
            eprintln!("pgdyno-engine: unknown verb: {}\n{USAGE}", words.join(" "));
            ExitCode::from(REFUSED)
        }
    }
}

fn read(log: impl FnOnce(&mut io::BufWriter<io::StdoutLock>) -> io::Result<bool>) -> ExitCode {
    let mut out = io::BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let written = log(&mut out).and_then(|is_read| {
        out.flush()?;
        Ok(is_read)
    });
    match written {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(REFUSED),
        Err(_) => ExitCode::from(ABORTED),
    }
}

fn version() -> String {
    format!(
        "pgdyno-engine {} ({}, {}, contract 1.{REVISION})",
        env!("CARGO_PKG_VERSION"),
        env!("PGDYNO_PROFILE"),
        env!("PGDYNO_COMMIT")
    )
}

/// Whether this engine knows all that a lab of this release, and contract revision, may ask.
fn suits(lab: &str) -> bool {
    lab.split_once('/').is_some_and(|(release, revision)| {
        let is_known = revision.parse::<u32>().is_ok_and(|revision| revision <= REVISION);
        release == env!("CARGO_PKG_VERSION") && is_known
    })
}

fn say(lines: &[String]) -> ExitCode {
    let mut out = io::stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    if written.and_then(|()| out.flush()).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ABORTED)
    }
}

fn facts() -> String {
    let facts = program::facts(PROGRAMS, DATASETS);
    serde_json::to_string_pretty(&facts).expect("plain data")
}

/// The types for which `schema` prints a schema.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Contract")]
struct Contract {
    job: Job,
    record: Record,
    facts: Facts,
}

fn schema() -> String {
    let mut generator = SchemaGenerator::default();
    dataset::describe(DATASETS, &mut generator);
    let schema = generator.into_root_schema_for::<Contract>();
    serde_json::to_string_pretty(&schema).expect("a schema is plain data")
}

/// The first line of the input, as a job.
fn read_job(input: &mut impl BufRead) -> Result<Job, Refusal> {
    let refuse = |what: String| Refusal::new(ErrorKind::Job, what, "see pgdyno-engine schema");
    let mut line = Vec::new();
    input
        .read_until(b'\n', &mut line)
        .map_err(|error| refuse(format!("the job could not be read: {error}")))?;
    if line.trim_ascii().is_empty() {
        return Err(refuse("no job: standard input had no line".into()));
    }
    serde_json::from_slice(&line).map_err(|error| refuse(format!("this is not a job: {error}")))
}

fn check_job() -> ExitCode {
    let job = read_job(&mut io::stdin().lock());
    let mut output = Output::new(io::stdout(), clock_of(&job));
    match job.map_err(|refusal| vec![refusal]).and_then(|job| check(&job)) {
        Ok(checked) => {
            hello(&mut output, shapes(&checked));
            output.flush();
            ExitCode::SUCCESS
        }
        Err(refusals) => refused(&mut output, &refusals),
    }
}

fn shapes(checked: &Checked) -> Vec<ScriptShape> {
    match checked {
        Checked::Load(plan) => plan.shapes(),
        Checked::Init(..) => Vec::new(),
    }
}

/// Print what a loading job sends to the newest server. For an older one, ANALYZE may differ.
fn print_sql() -> ExitCode {
    let job = read_job(&mut io::stdin().lock());
    let clock = clock_of(&job);
    let checked = job.map_err(|refusal| vec![refusal]).and_then(|job| match &job.work {
        Work::Init(init) => check_init(&job, init, DATASETS)
            .map(|dataset| dataset::statements(dataset.as_ref(), init, u32::MAX)),
        Work::Load(_) => Err(vec![Refusal::new(
            ErrorKind::Job,
            "print-sql needs a job that loads a dataset",
            "give a job whose work is of the kind init",
        )]),
    });
    match checked {
        Ok(statements) => say(&statements.iter().map(|sql| format!("{sql};")).collect::<Vec<_>>()),
        Err(refusals) => refused(&mut Output::new(io::stdout(), clock), &refusals),
    }
}

fn clock_of(job: &Result<Job, Refusal>) -> ClockPair {
    job.as_ref().map_or_else(|_| ClockPair::now(), |job| job.clock)
}

fn refused<W: Write>(output: &mut Output<W>, refusals: &[Refusal]) -> ExitCode {
    refusals.iter().for_each(|refusal| output.refuse(refusal, now_ns()));
    output.flush();
    ExitCode::from(REFUSED)
}

/// A checked job.
enum Checked {
    Load(Box<Plan>),
    Init(InitWork, Box<dyn Dataset>),
}

fn check(job: &Job) -> Result<Checked, Vec<Refusal>> {
    match &job.work {
        Work::Load(work) => {
            Plan::new(job, work, PROGRAMS).map(|plan| Checked::Load(Box::new(plan)))
        }
        Work::Init(init) => {
            check_init(job, init, DATASETS).map(|dataset| Checked::Init(init.clone(), dataset))
        }
    }
}

fn run() -> ExitCode {
    let mut input = BufReader::new(io::stdin());
    let job = read_job(&mut input);
    let mut output = Output::new(io::stdout(), clock_of(&job));
    let checked = job.map_err(|refusal| vec![refusal]).and_then(|job| Ok((check(&job)?, job)));
    let (checked, job) = match checked {
        Ok(checked) => checked,
        Err(refusals) => return refused(&mut output, &refusals),
    };
    hello(&mut output, shapes(&checked));
    output.flush();
    let ending = match checked {
        Checked::Load(plan) => run_load(*plan, input, &mut output),
        Checked::Init(init, dataset) => run_init(&job, &init, dataset.as_ref(), input, &mut output),
    };
    match ending {
        Ok(Ending::Completed | Ending::Stopped) if !output.is_broken() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(ABORTED),
        Err(error) => {
            let message = format!("listening for signals failed: {error}");
            output.refuse(&Refusal::new(ErrorKind::System, message, ""), now_ns());
            output.flush();
            ExitCode::from(ABORTED)
        }
    }
}

fn run_load<W: Write>(
    plan: Plan,
    input: BufReader<Stdin>,
    output: &mut Output<W>,
) -> io::Result<Ending> {
    let ends = load::Ends::new();
    let sender = ends.sender.clone();
    control::listen(input, move |order| {
        // If the coordinator has ended, there is nothing to start or stop.
        let _ = sender.send(match order {
            Order::Start { at_ns } => Message::Start { at_ns },
            Order::Stop => Message::Stop,
        });
    })?;
    Ok(load::run(plan, output, ends))
}

fn run_init<W: Write>(
    job: &Job,
    init: &InitWork,
    dataset: &dyn Dataset,
    input: BufReader<Stdin>,
    output: &mut Output<W>,
) -> io::Result<Ending> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    control::listen(input, move |order| {
        if order == Order::Stop {
            flag.store(true, Ordering::Release);
        }
    })?;
    let done = dataset::load(job, init, dataset, &stop, &mut |record| {
        output.write(&record);
        output.flush();
    });
    let (ending, facts) = (done.ending, done.facts);
    output.write(&Record::Summary(Box::new(Summary {
        time_ns: output.clock.unix_ns(now_ns()),
        ending,
        phases: facts.steps.clone(),
        engine: EngineUsage {
            resident_bytes_max: load::resident_bytes_max(),
            ..EngineUsage::default()
        },
        init: Some(facts),
        ..Summary::default()
    })));
    output.flush();
    Ok(ending)
}

fn hello<W: Write>(output: &mut Output<W>, scripts: Vec<ScriptShape>) {
    output.write(&Record::Hello(Hello {
        time_ns: output.clock.unix_ns(now_ns()),
        format: FORMAT.to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        build_profile: env!("PGDYNO_PROFILE").to_owned(),
        commit: env!("PGDYNO_COMMIT").to_owned(),
        pid: std::process::id(),
        poller: Kind::choose().map_or("none", Kind::name).to_owned(),
        scripts,
    }));
}
