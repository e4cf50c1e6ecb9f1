//! Several engines share a load: together they make the transactions of one engine.

use pgdyno_engine::contract::job::*;
use pgdyno_engine::contract::record::*;
use pgdyno_engine::thread::Message;

use crate::fake::job::{MS, Run, load_with, work};
use crate::fake::{Answer, Server};

fn shared(part: Option<Part>) -> LoadWork {
    LoadWork {
        threads: 3,
        arrivals: Arrivals::Closed(ClosedLoop { clients: 5 }),
        measure: Measure::TransactionsPerClient(8),
        part,
        ..work("\\set x random(1, 1000000000)\nSELECT :client_id, :x;\n")
    }
}

/// Run the work; return the statements that its clients sent, sorted, and what it wrote.
fn sent(work: LoadWork, start_ns: u64) -> (Vec<String>, Run) {
    let server = Server::start(|_| Answer::Done);
    let run = load_with(&server, work, |sender| {
        sender.send(Message::Start { at_ns: start_ns }).unwrap();
    });
    let mut texts = server.seen().statements.clone();
    texts.retain(|text| text.contains(", "));
    texts.sort();
    (texts, run)
}

#[test]
fn parts_of_a_load_make_together_the_transactions_of_the_whole() {
    let (whole, run) = sent(shared(None), 0);
    assert_eq!(whole.len(), 40);
    assert!(!run.records.iter().any(|record| matches!(record, Record::Ready(_))));
    let mut parts = Vec::new();
    for (first_thread, threads) in [(0, 1), (1, 2)] {
        let (texts, run) = sent(shared(Some(Part { first_thread, threads })), 0);
        assert!(run.records.iter().any(|record| matches!(record, Record::Ready(_))));
        let Some(Record::Summary(summary)) = run.records.last() else { panic!("no summary") };
        assert_eq!(summary.engine.threads.len(), usize::from(threads));
        parts.extend(texts);
    }
    parts.sort();
    assert_eq!(parts, whole);
}

#[test]
fn a_part_begins_at_the_instant_of_the_order() {
    let at_ns = pgdyno_engine::clock::now_ns() + 300 * MS;
    let (texts, run) = sent(shared(Some(Part { first_thread: 0, threads: 3 })), at_ns);
    assert_eq!(texts.len(), 40);
    let Some(Record::Summary(summary)) = run.records.last() else { panic!("no summary") };
    let begin = summary.phases.iter().find(|span| span.phase == PhaseName::Measure).unwrap();
    for thread in &summary.engine.threads {
        assert!(thread.began_ns.unwrap() >= begin.began_ns);
    }
    let ready = run.records.iter().find_map(|record| match record {
        Record::Ready(ready) => Some(ready.time_ns),
        _ => None,
    });
    assert!(ready.unwrap() < begin.began_ns);
}
