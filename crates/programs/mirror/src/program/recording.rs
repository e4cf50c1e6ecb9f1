//! The file of a recording: the transactions of a log with their values, one JSON line each.
//!
//! A transaction is `[type, session, began_us, [[statement, value, ...], ...]]`. A value is a text,
//! null, or `{"key": 7, "or": "1001"}`: the key with this number, or the text if the load has not
//! made the key. A list of texts and keys is one value of these parts. A line
//! `{"made": [[transaction, call, row, column, key], ...]}` says which results have these keys: of
//! the transactions and calls from 0, in the order of the file. A line
//! `{"sessions": [[first_us, last_us], ...]}` has the begin of the first and the end of the last
//! transaction of each session. The last line is `{"end": N}`, the number of transactions.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::load::{MirrorLoad, MirrorTemplate, Recording};
use pgdyno_engine::plan::StatementKind;
use pgdyno_engine::program::{Pauses, TransactionType};

/// Longest line: a transaction with all its values.
const LINE_BYTES_MAX: usize = 256 << 20;

/// The transactions of a file, in its order.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) transactions: Vec<RecordedTransaction>,
    /// Sessions that follow each other are in one lane. This is how many were open at once.
    pub(super) lane_count: usize,
    pub(super) key_count: usize,
    /// Begin and end of each session; empty if the file does not have them.
    pub(super) sessions: Vec<(i64, i64)>,
    /// Begin of the first transaction of the file.
    pub(super) began_us: i64,
}

#[derive(Debug)]
pub(super) struct RecordedTransaction {
    /// The number of its type in the program.
    pub(super) kind: usize,
    pub(super) session: usize,
    pub(super) lane: usize,
    /// It is the last one of its session, and another session follows in its lane.
    pub(super) ends_session: bool,
    pub(super) began_us: i64,
    /// `None`: its statement is left out.
    pub(super) calls: Vec<Option<RecordedCall>>,
    pub(super) rolls_back: bool,
}

#[derive(Debug)]
pub(super) struct RecordedCall {
    /// Place among the statements of the type.
    pub(super) statement: usize,
    pub(super) values: Vec<RecordedValue>,
    pub(super) made: Vec<MadeKey>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RecordedValue {
    Text(Option<Box<str>>),
    Key(NumberedKey),
    Parts(Vec<ValuePart>),
}

/// A part of a value with keys in it, such as of an array.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ValuePart {
    Text(Box<str>),
    Key(NumberedKey),
}

/// A key that the load makes, or the text in its place if it did not.
#[derive(Debug, Deserialize)]
pub(super) struct NumberedKey {
    pub(super) key: usize,
    #[serde(rename = "or")]
    pub(super) otherwise: Box<str>,
}

impl RecordedValue {
    /// The numbers of the keys in it.
    fn keys(&self) -> Vec<usize> {
        match self {
            RecordedValue::Text(_) => Vec::new(),
            RecordedValue::Key(key) => vec![key.key],
            RecordedValue::Parts(parts) => {
                let key = |part: &ValuePart| match part {
                    ValuePart::Text(_) => None,
                    ValuePart::Key(key) => Some(key.key),
                };
                parts.iter().filter_map(key).collect()
            }
        }
    }
}

/// A key in the result of a call: where it is, and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeKey {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) key: usize,
}

impl Recorded {
    /// Give each session a lane: the one that has been free for the shortest time. Afterwards the
    /// numbers of sessions ascend with their begin.
    fn place_in_lanes(&mut self) {
        let count = self.transactions.iter().map(|own| own.session + 1).max().unwrap_or(0);
        let is_known = self.sessions.len() >= count;
        let mut last = vec![None; count];
        for (number, own) in self.transactions.iter().enumerate() {
            last[own.session] = Some(number);
        }
        let mut order: Vec<usize> = (0..count).filter(|&own| last[own].is_some()).collect();
        if is_known {
            order.sort_by_key(|&session| self.sessions[session]);
        }
        // Of each lane: the end of its last session, and the last transaction of that.
        let mut lanes: Vec<(i64, usize)> = Vec::new();
        let mut place_of = vec![(0, 0); count];
        for (place, session) in order.into_iter().enumerate() {
            let (began_us, ended_us) = match is_known {
                true => self.sessions[session],
                false => (i64::MIN, i64::MAX),
            };
            let free = (0..lanes.len()).filter(|&lane| lanes[lane].0 <= began_us);
            let lane = free.max_by_key(|&lane| lanes[lane].0).unwrap_or(lanes.len());
            if let Some(&(_, before)) = lanes.get(lane) {
                self.transactions[before].ends_session = true;
            } else {
                lanes.push((0, 0));
            }
            lanes[lane] = (ended_us, last[session].expect("it has a transaction"));
            place_of[session] = (place, lane);
        }
        for own in &mut self.transactions {
            (own.session, own.lane) = place_of[own.session];
        }
        self.lane_count = lanes.len();
    }
}

/// A line that is not a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Made(Vec<(usize, usize, usize, usize, usize)>),
    Sessions(Vec<(i64, i64)>),
    End(usize),
}

type Line = (usize, usize, i64, Vec<Vec<serde_json::Value>>);

/// Read the file of a recording.
///
/// Args: `has_lane`, whether this engine runs a lane, given their number.
///
/// Returns: its transactions, and the types of the program in the order of the templates.
/// Errors: the end of a sentence that begins with the program's name.
pub(super) fn read(
    recording: &Recording,
    load: &MirrorLoad,
    has_lane: impl Fn(usize) -> bool,
) -> Result<(Recorded, Vec<TransactionType>), String> {
    let path = recording.path.as_path();
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
    let file = File::open(path).map_err(|why| cannot(&why))?;
    if !file.metadata().is_ok_and(|known| known.is_file()) {
        return Err(cannot(&"it is not a regular file"));
    }
    let mut reading = Reading {
        recording,
        load,
        recorded: Recorded::default(),
        places: Vec::new(),
        types: load.templates.iter().map(type_of).collect(),
        is_ended: false,
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(|why| cannot(&why))?;
        if length == 0 {
            break;
        }
        number += 1;
        if length > LINE_BYTES_MAX {
            return Err(cannot(&format!("line {number} is too long")));
        }
        let added = reading.add(line.trim_ascii_end());
        added.map_err(|why| cannot(&format!("line {number} {why}")))?;
    }
    if !reading.is_ended {
        return Err(cannot(&"lines at its end are missing"));
    }
    let Reading { mut recorded, mut types, .. } = reading;
    recorded.began_us = recorded.transactions.iter().map(|own| own.began_us).min().unwrap_or(0);
    recorded.transactions.retain(|own| own.kind != usize::MAX);
    recorded.place_in_lanes();
    recorded.transactions.retain(|own| has_lane(own.lane));
    for (number, kind) in types.iter_mut().enumerate() {
        let own = recorded.transactions.iter().filter(|own| own.kind == number);
        let mut is_read = vec![false; kind.statements.len()];
        for call in own.flat_map(|own| own.calls.iter().flatten()) {
            is_read[call.statement] |= !call.made.is_empty();
        }
        kind.unread = (0..is_read.len()).filter(|&place| !is_read[place]).collect();
    }
    Ok((recorded, types))
}

fn type_of(template: &MirrorTemplate) -> TransactionType {
    TransactionType {
        name: template.name.clone(),
        weight: template.weight.max(1),
        reads_only: template.reads_only,
        pauses: Pauses::default(),
        protocol: template.protocol,
        ..TransactionType::default()
    }
}

/// What was read so far.
struct Reading<'a> {
    recording: &'a Recording,
    load: &'a MirrorLoad,
    recorded: Recorded,
    /// For each type and statement of the load that it uses: the place among its statements.
    places: Vec<((usize, u32), usize)>,
    types: Vec<TransactionType>,
    is_ended: bool,
}

impl Reading<'_> {
    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        if self.is_ended {
            return Err("follows the end".into());
        }
        if line.starts_with(b"[") {
            return self.transaction(parsed(line)?);
        }
        match parsed(line)? {
            Note::Made(made) => made.into_iter().try_for_each(|made| self.made(made)),
            Note::Sessions(sessions) => {
                self.recorded.sessions = sessions;
                Ok(())
            }
            Note::End(count) if count == self.recorded.transactions.len() => {
                self.is_ended = true;
                Ok(())
            }
            Note::End(count) => Err(format!(
                "says {count} transactions, but there are {}",
                self.recorded.transactions.len()
            )),
        }
    }

    fn transaction(&mut self, (kind, session, began_us, calls): Line) -> Result<(), String> {
        let known = self.recording.types.get(kind).ok_or("has an unknown type")?;
        let kind = match *known {
            Some(place) if (place as usize) < self.types.len() => place as usize,
            Some(_) => return Err("has a type without a template".into()),
            None => usize::MAX,
        };
        let mut made = Vec::new();
        let mut rolls_back = false;
        for call in calls {
            let mut parts = call.into_iter();
            let number =
                parts.next().and_then(|number| number.as_u64()).ok_or("has no statement")?;
            let place = usize::try_from(number).ok();
            let place = place.and_then(|place| self.recording.statements.get(place));
            let place = *place.ok_or("has an unknown statement")?;
            let Some(place) = place else {
                // Its place stays, because keys name calls by their places.
                made.push(None);
                continue;
            };
            let statement = self.load.statements.get(place as usize);
            let text = &statement.ok_or("has a statement that the job lacks")?.text;
            rolls_back = StatementKind::of(text) == StatementKind::Rollback;
            let values: Result<Vec<RecordedValue>, _> = parts.map(serde_json::from_value).collect();
            let values = values.map_err(|why| format!("has a wrong value: {why}"))?;
            let largest = values.iter().flat_map(RecordedValue::keys).max();
            let count = largest.map_or(0, |key| key + 1);
            self.recorded.key_count = self.recorded.key_count.max(count);
            let statement = if kind == usize::MAX { 0 } else { self.place(kind, place) };
            made.push(Some(RecordedCall { statement, values, made: Vec::new() }));
        }
        self.recorded.transactions.push(RecordedTransaction {
            kind,
            session,
            lane: 0,
            ends_session: false,
            began_us,
            calls: made,
            rolls_back,
        });
        Ok(())
    }

    /// Return the place of a statement among those of a type.
    fn place(&mut self, kind: usize, statement: u32) -> usize {
        if let Some((_, place)) = self.places.iter().find(|(of, _)| *of == (kind, statement)) {
            return *place;
        }
        let own = &mut self.types[kind];
        let given = &self.load.statements[statement as usize];
        own.statements.push(given.text.clone());
        own.parameter_types.push(given.parameter_types.clone());
        self.places.push(((kind, statement), own.statements.len() - 1));
        own.statements.len() - 1
    }

    fn made(
        &mut self,
        (transaction, call, row, column, key): (usize, usize, usize, usize, usize),
    ) -> Result<(), String> {
        let own = self.recorded.transactions.get_mut(transaction);
        let call = own.and_then(|own| own.calls.get_mut(call)).ok_or("names an unknown call")?;
        if let Some(call) = call {
            call.made.push(MadeKey { row, column, key });
        }
        self.recorded.key_count = self.recorded.key_count.max(key + 1);
        Ok(())
    }
}

fn parsed<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|why| format!("is not understood: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::MirrorStatement;
    use pgdyno_engine::contract::job::Protocol;

    const TEXTS: [&str; 3] =
        ["INSERT INTO t (a) VALUES ($1) RETURNING id", "DELETE FROM t WHERE id = $1", "ROLLBACK"];

    /// Read a file with these lines. Its types are "one" and one that is left out.
    fn read_lines(lines: &[&str]) -> Result<(Recorded, Vec<TransactionType>), String> {
        let name = format!("pgdyno-{}-{:p}.recording", std::process::id(), &raw const *lines);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, lines.join("\n")).expect("temporary files can be written");
        let statement = |text: &str| MirrorStatement {
            text: text.to_owned(),
            parameter_types: vec!["text".to_owned()],
        };
        let load = MirrorLoad {
            tables: Vec::new(),
            settings: Default::default(),
            data_age_s: 0.0,
            statements: TEXTS.into_iter().map(statement).collect(),
            templates: vec![MirrorTemplate {
                name: "one".to_owned(),
                weight: 1,
                reads_only: false,
                protocol: Some(Protocol::Extended),
                think_ms: 0.0,
                steps: Vec::new(),
            }],
            is_probe: false,
            recording: None,
        };
        let recording = Recording {
            path: path.clone(),
            statements: vec![Some(0), Some(1), Some(2), None],
            types: vec![Some(0), None],
        };
        let read = read(&recording, &load, |_| true);
        std::fs::remove_file(path).expect("the file exists");
        read
    }

    #[test]
    fn a_key_of_one_transaction_is_used_in_another_one() {
        let (recorded, types) = read_lines(&[
            r#"[0,0,5,[[0,"x"],[2]]]"#,
            r#"[1,1,6,[[1,"7"]]]"#,
            r#"[0,2,7,[[1,{"key":0,"or":"1001"}],[3],[1,null]]]"#,
            r#"{"made":[[0,0,0,1,0]]}"#,
            r#"{"end":3}"#,
        ])
        .unwrap();
        // The transaction of the other type is left out.
        let [first, second] = recorded.transactions.as_slice() else { panic!("{recorded:?}") };
        assert!(first.rolls_back && !second.rolls_back);
        fn call(own: &RecordedTransaction, place: usize) -> &RecordedCall {
            own.calls[place].as_ref().unwrap()
        }
        assert_eq!((call(first, 0).made[0].column, recorded.key_count), (1, 1));
        let key = &call(second, 0).values[0];
        assert!(matches!(key, RecordedValue::Key(NumberedKey { key: 0, .. })));
        // The call between them has a statement that is left out.
        assert!(second.calls[1].is_none());
        assert!(matches!(call(second, 2).values[0], RecordedValue::Text(None)));
        assert_eq!(types[0].statements, [TEXTS[0], TEXTS[2], TEXTS[1]]);
        // Only the rows of the INSERT are read.
        assert_eq!(types[0].unread, [1, 2]);
    }

    #[test]
    fn sessions_that_follow_each_other_are_in_one_lane() {
        let (recorded, _) = read_lines(&[
            "[0,0,10,[[0]]]",
            "[0,1,15,[[0]]]",
            "[0,0,20,[[0]]]",
            "[0,2,30,[[0]]]",
            "[0,3,35,[[0]]]",
            r#"{"sessions":[[10,25],[15,40],[30,33],[34,50]]}"#,
            r#"{"end":5}"#,
        ])
        .unwrap();
        let lanes: Vec<_> = recorded.transactions.iter().map(|own| own.lane).collect();
        assert_eq!((recorded.lane_count, lanes), (2, vec![0, 1, 0, 0, 0]));
        let ends: Vec<_> = recorded.transactions.iter().map(|own| own.ends_session).collect();
        assert_eq!(ends, [false, false, true, true, false]);
        // A file that does not say when sessions were open: each has a lane.
        let (recorded, _) =
            read_lines(&["[0,0,10,[[0]]]", "[0,1,15,[[0]]]", r#"{"end":2}"#]).unwrap();
        assert_eq!(recorded.lane_count, 2);
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_line() {
        let refused = |lines: &[&str]| read_lines(lines).unwrap_err();
        assert!(refused(&["[0,0,5,[[9]]]"]).contains("line 1 has an unknown statement"));
        assert!(refused(&["[7,0,5,[[0]]]"]).contains("line 1 has an unknown type"));
        assert!(refused(&["[0,0,5,[[0]]]"]).contains("lines at its end are missing"));
        assert!(refused(&["[0,0,5,[[0]]]", r#"{"end":2}"#]).contains("says 2 transactions"));
        assert!(refused(&[r#"{"made":[[0,0,0,0,0]]}"#]).contains("an unknown call"));
        assert!(refused(&["[0,0,5"]).contains("line 1 is not understood"));
    }
}
