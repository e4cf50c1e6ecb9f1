//! What the tests of the reader share.

use pgdyno_logs::{Beginning, Counts, Lines, Prefix, Reader};
use serde_json::Value;

/// The lines that the lab gets for a log that arrives in pieces of this size.
pub(crate) fn read_in_pieces(
    log: &[u8],
    prefix: Option<&str>,
    size: usize,
) -> (Vec<Value>, Counts) {
    let prefix = prefix.map(Prefix::new);
    let beginning = Beginning::of(log, prefix.as_ref()).expect("a log");
    let (mut reader, mut lines) = (Reader::new(&beginning.format), Lines::default());
    let mut out = Vec::new();
    for piece in log.chunks(size) {
        reader.feed(piece, &mut |message| lines.message(message, &mut out));
    }
    reader.end_of_file(&mut |message| lines.message(message, &mut out));
    lines.end(&mut out);
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    let values = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (values, reader.counts().clone())
}

/// The part of the values that introduces a number: `key` is `shape` or `sequence`.
pub(crate) fn introduced<'a>(values: &'a [Value], key: &str, number: &Value) -> &'a Value {
    values.iter().find(|line| line[key] == *number).expect("it is introduced")
}

pub(crate) fn parts(values: &[Value]) -> impl Iterator<Item = &Vec<Value>> {
    values.iter().filter_map(Value::as_array)
}

pub(crate) fn said(values: &[Value]) -> Vec<String> {
    let mut said = Vec::new();
    for part in parts(values) {
        let items = introduced(values, "sequence", &part[0])["items"].as_array().expect("a list");
        for (at, item) in items.iter().enumerate() {
            let shape = introduced(values, "shape", &item[0])["sql"].as_str().expect("a text");
            let [parameters, constants] =
                [0, 1].map(|of| part[8 + at].get(of).map_or("[]".to_owned(), Value::to_string));
            let took = &part[7][2 * at + 1];
            said.push(format!("{} {shape} | {parameters} {constants} {took}", item[1]));
        }
    }
    said
}
