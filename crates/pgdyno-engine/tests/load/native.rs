//! Native programs: a toy of two types, run as the engine's own would be. Nothing else of the
//! engine knows it.

use std::collections::BTreeMap;

use pgdyno_engine::contract::job::*;
use pgdyno_engine::contract::record::{ErrorKind, Measured, TimeDistribution};
use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::plan::Plan;
use pgdyno_engine::program::{
    Asked, BoxFuture, Done, Mix, Native, Pauses, Planned, ProgramOption, Running, Session, Takes,
    TransactionType, Transactions, Unready,
};

use pgdyno_ledger::Ledger;
use pgdyno_tpcc::TpccLike;

use crate::fake::job::{MS, Run, job_on, load, open, work};
use crate::fake::{Answer, Server};

/// Reads a row three times out of four, else writes two, and takes every second write back.
#[derive(Debug)]
struct Toy;

const LOOK: usize = 0;
const BEGIN: usize = 0;
const PUT: usize = 1;
const COMMIT: usize = 2;
const ROLLBACK: usize = 3;

impl Native for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn description(&self) -> &'static str {
        "reads a row, or writes two"
    }

    fn dataset(&self) -> &'static str {
        "toys"
    }

    fn options(&self) -> &'static [ProgramOption] {
        const OPTIONS: &[ProgramOption] = &[
            ProgramOption {
                name: "mix",
                takes: Takes::Words(&["weights", "deck"]),
                description: "how the next type is chosen",
            },
            ProgramOption {
                name: "way",
                takes: Takes::Words(&["single", "pipeline", "odd"]),
                description: "",
            },
        ];
        OPTIONS
    }

    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String> {
        let kind = |name, weight, think_ns_mean, statements: &[&str]| TransactionType {
            name: String::from(name),
            weight,
            reads_only: weight == 3,
            pauses: Pauses { keying_ns: 10 * MS, think_ns_mean },
            statements: statements.iter().map(|&sql| sql.to_owned()).collect(),
            ..TransactionType::default()
        };
        Ok(Planned {
            types: vec![
                kind("look", 3, 40 * MS, &["SELECT toy WHERE id = $1"]),
                kind("put", 1, 80 * MS, &["BEGIN", "UPDATE toys SET a = $1", "COMMIT", "ROLLBACK"]),
            ],
            mix: if asked.option("mix") == "deck" { Mix::Deck } else { Mix::Chance },
            settings: Vec::new(),
            transactions: std::sync::Arc::new(ToyRun { way: asked.option("way").to_owned() }),
        })
    }
}

#[derive(Debug)]
struct ToyRun {
    way: String,
}

impl Transactions for ToyRun {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(async move {
            match session.ask("SELECT count", |rows| Ok(rows.one::<(i64,)>()?)).await? {
                (1,) => Ok(()),
                (count,) => Err(Unready::Refused {
                    message: format!("toys must have 1 row, got {count}"),
                    hint: "load them again".into(),
                }),
            }
        })
    }

    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Running<'s> {
        match number {
            0 => Box::pin(self.look(session)),
            _ => Box::pin(self.put(session)),
        }
    }
}

impl ToyRun {
    async fn look(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let id = session.random(|random| random.uniform(1, 1_000_000_000));
        let (count,): (i32,) = session.query(LOOK, &[&id], |rows| Ok(rows.one()?)).await?;
        assert_eq!(count, 1);
        if self.way == "odd" {
            session.query(LOOK, &[&id], |rows| Ok(rows.one::<(i32, i32)>()?)).await?;
        }
        Ok(Done::Committed)
    }

    async fn put(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let is_kept = session.random(|random| random.uniform(0, 1) == 0);
        let end = if is_kept { COMMIT } else { ROLLBACK };
        if self.way == "pipeline" {
            let pipeline = session.pipeline();
            pipeline.add(BEGIN, &[]).add(PUT, &[&"x"]).add(PUT, &[&None::<i32>]).add(end, &[]);
            pipeline.send(|_| Ok(())).await?;
        } else {
            session.execute(BEGIN, &[]).await?;
            session.execute(PUT, &[&"x"]).await?;
            session.execute(PUT, &[&None::<i32>]).await?;
            session.execute(end, &[]).await?;
        }
        Ok(if is_kept { Done::Committed } else { Done::RolledBack })
    }
}

pub(crate) const PROGRAMS: &[&dyn Native] = &[&Toy, &TpccLike, &Ledger];

fn toy(options: &[(&str, &str)]) -> LoadWork {
    let mut work = work("");
    work.protocol = Protocol::Prepared;
    work.scripts[0] = ScriptSource {
        name: "toy".into(),
        weight: 1,
        source: ScriptText::Builtin("toy".into()),
        options: options.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        templates: None,
    };
    work
}

/// A server that a plan needs and does not reach.
fn nowhere() -> Server {
    Server::start(|_| Answer::Done)
}

fn hello_of(work: &LoadWork) -> Vec<(String, String, u32, usize)> {
    let plan = Plan::new(&job_on(&[&nowhere()], work), work, PROGRAMS).expect("a valid job");
    let shapes = plan.shapes().into_iter();
    shapes.map(|s| (s.name, s.program, s.weight, s.statements.len())).collect()
}

fn refusals(work: &LoadWork) -> String {
    let job = job_on(&[&nowhere()], work);
    let refused = Plan::new(&job, work, PROGRAMS).expect_err("it is refused");
    assert!(refused.iter().all(|refusal| refusal.kind == ErrorKind::Job));
    refused.into_iter().map(|refusal| refusal.message).collect()
}

#[test]
fn the_types_of_a_program_are_counted_and_timed_apart() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[]);
    work.measure = Measure::TransactionsPerClient(400);
    let run = load(&server, work);
    let summary = run.summary();
    let [look, put] = summary.scripts.as_slice() else { panic!("two types") };
    assert_eq!(look.counts.completed + put.counts.completed, 400);
    assert!((50..150).contains(&put.counts.completed), "a quarter of 400: {put:?}");
    let of_type = |script| {
        let mut all = summary.distributions.iter();
        all.find(|d| d.measured == Measured::Latency && d.script == Some(script)).unwrap().count
    };
    assert_eq!((of_type(0), of_type(1)), (look.counts.completed, put.counts.completed));
    let put_statement = summary.distributions.iter().find(|d| {
        d.measured == Measured::Statement && d.script == Some(1) && d.statement == Some(1)
    });
    assert_eq!(put_statement.unwrap().count, 2 * put.counts.completed);
    for (number, counts, trips_each) in [(0, look, 1), (1, put, 4)] {
        let mut all = summary.distributions.iter();
        let latency =
            all.find(|d| d.measured == Measured::Latency && d.script == Some(number)).unwrap();
        assert_eq!(counts.served.ended_count, counts.counts.completed);
        assert_eq!(counts.served.round_trips, trips_each * counts.counts.completed);
        assert_eq!(counts.served.held_ns, latency.sum_ns);
    }
    assert_eq!(
        hello_of(&toy(&[])),
        [("look".into(), "toy".into(), 3, 1), ("put".into(), "toy".into(), 1, 4)]
    );
}

#[test]
fn a_rollback_on_purpose_is_completed_and_not_committed() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[]);
    work.measure = Measure::TransactionsPerClient(200);
    let run = load(&server, work);
    let (counts, summary) = (run.counts(), run.summary());
    assert_eq!((counts.completed, counts.failed), (200, 0));
    let rolled_back = server.seen().statements.iter().filter(|sql| *sql == "ROLLBACK").count();
    assert!(rolled_back > 0);
    assert_eq!(counts.rolled_back, rolled_back as u64);
    assert_eq!(summary.scripts[1].counts.rolled_back, rolled_back as u64);
    assert_eq!(summary.transactions_committed_all_phases, 200 - rolled_back as u64);
}

#[test]
fn a_deck_gives_each_terminal_its_exact_shares() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[("mix", "deck")]);
    work.measure = Measure::TransactionsPerClient(40);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 3 });
    let run = load(&server, work);
    let completed: Vec<_> = run.summary().scripts.iter().map(|s| s.counts.completed).collect();
    assert_eq!(completed, [90, 30]);
}

#[test]
fn thinking_terminals_hold_no_connection_and_their_time_adds_up() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[]);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 300 });
    work.connect.active_connections = Some(2);
    work.think_ratio = 1.0;
    work.warm_ns = 200 * MS;
    work.measure = Measure::DurationNs(1_000 * MS);
    let run = load(&server, work);
    let (summary, counts) = (run.summary(), run.counts());
    assert_eq!(server.connection_count(), 2);
    // A cycle is 60 ms and little more: 300 terminals do about 5,000 transactions a second.
    assert!((2_500..6_000).contains(&counts.completed), "{counts:?}");
    let thought_ns = summary.clients.think_time_ns.expect("they think");
    let busy_ns = run.distribution(Measured::Latency).sum_ns;
    let between_ns = summary.clients.between_transactions_ns.expect("a closed loop");
    let whole_ns = 300 * 1_000 * MS;
    let off = (thought_ns + busy_ns + between_ns) as f64 / whole_ns as f64 - 1.0;
    // A transaction counts whole in the phase of its end. So each terminal may be off by the part
    // of one latency that lies outside the measured phase, at its begin and at its end.
    let latencies = run.histograms().filter(|histogram| {
        let TimeDistribution { measured, script, .. } = histogram.distribution;
        (measured, script) == (Measured::Latency, None)
    });
    let longest_ns = latencies.map(|histogram| histogram.distribution.max_ns).max().unwrap_or(0);
    let allowed = 0.01 + longest_ns as f64 / (1_000 * MS) as f64;
    assert!(off.abs() < allowed, "{thought_ns} + {busy_ns} + {between_ns} of {whole_ns}: {off}");
    assert!(run.distribution(Measured::ConnectionWait).count == counts.completed);
    assert!(run.intervals().any(|interval| interval.thinking > 100));
}

#[test]
fn without_a_think_ratio_nobody_keeps_still() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[]);
    work.measure = Measure::TransactionsPerClient(20);
    let run = load(&server, work);
    assert_eq!(run.summary().clients.think_time_ns, None);
    assert_eq!(run.counts().completed, 20);
}

#[test]
fn a_pipeline_is_one_round_trip_and_times_each_statement() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[("way", "pipeline"), ("mix", "deck")]);
    work.measure = Measure::TransactionsPerClient(8);
    let run = load(&server, work);
    let summary = run.summary();
    // Six reads and two pipelines of four statements.
    assert_eq!(summary.traffic.round_trips, 8);
    let timed = summary.distributions.iter().filter(|d| d.measured == Measured::Statement);
    assert_eq!(timed.map(|d| d.count).sum::<u64>(), 6 + 2 * 4);
}

#[test]
fn another_try_draws_the_same_random_numbers() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        "UPDATE toys SET a = $1" if statement.number % 5 == 0 => Answer::Error("40001"),
        _ => Answer::Done,
    });
    let mut work = toy(&[]);
    work.max_tries = 20;
    work.measure = Measure::TransactionsPerClient(100);
    let run = load(&server, work);
    let counts = run.counts();
    assert!(counts.retries > 0 && counts.failed == 0, "{counts:?}");
    // As many puts are kept as without any failure.
    let calm = Server::start(|_| Answer::Done);
    let mut work = toy(&[]);
    work.measure = Measure::TransactionsPerClient(100);
    assert_eq!(load(&calm, work).counts().rolled_back, counts.rolled_back);
}

#[test]
fn other_rows_than_a_program_must_get_fail_the_transaction() {
    let server = Server::start(|_| Answer::Done);
    let mut work = toy(&[("way", "odd"), ("mix", "deck")]);
    work.measure = Measure::TransactionsPerClient(4);
    let run = load(&server, work);
    assert_eq!(run.summary().failures, BTreeMap::from([("XXunexpected_rows".to_owned(), 3)]));
}

#[test]
fn a_program_that_finds_other_data_ends_the_run_with_a_next_step() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        "SELECT count" => Answer::Value("5"),
        _ => Answer::Done,
    });
    let run: Run = load(&server, toy(&[]));
    let error = run.error().expect("refused");
    assert_eq!(error.kind, ErrorKind::Prepare);
    assert_eq!((&*error.message, &*error.hint), ("toys must have 1 row, got 5", "load them again"));
}

#[test]
fn a_missing_table_names_the_dataset_to_load() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        "SELECT count" => Answer::Error("42P01"),
        _ => Answer::Done,
    });
    let run = load(&server, toy(&[]));
    assert_eq!(run.error().expect("refused").hint, "load its tables first: pgdyno init toys");
}

#[test]
fn what_a_program_cannot_do_is_refused_before_anything_starts() {
    let unknown = refusals(&toy(&[("speed", "high")]));
    assert!(unknown.contains("no option \"speed\"; its options are: mix, way"), "{unknown}");
    let value = refusals(&toy(&[("mix", "dice")]));
    assert!(value.contains("option mix must be one of weights, deck, got \"dice\""), "{value}");
    let mut simple = toy(&[]);
    simple.protocol = Protocol::Simple;
    assert!(refusals(&simple).contains("the simple protocol does not have"));
    let mut rate = toy(&[]);
    (rate.think_ratio, rate.arrivals) = (1.0, open(1, 10.0));
    assert!(refusals(&rate).contains("think_ratio must be 0 with a rate"));
    let mut factor = toy(&[]);
    factor.think_ratio = 1.5;
    assert!(refusals(&factor).contains("think_ratio must be 0 to 1, got 1.5"));
    let mut text = work("SELECT 1;\n");
    text.scripts[0].options = BTreeMap::from([("mix".into(), "deck".into())]);
    assert!(refusals(&text).contains("takes no options"));
}

#[test]
fn a_program_and_a_script_share_a_load_by_weight() {
    let server = Server::start(|_| Answer::Done);
    let mut mixed = toy(&[]);
    mixed.scripts.push(work("SELECT 1;\n").scripts.remove(0));
    mixed.measure = Measure::TransactionsPerClient(400);
    let run = load(&server, mixed);
    let of_text = run.summary().scripts[2].counts.completed;
    assert!((150..250).contains(&of_text), "half of 400: {of_text}");
}
