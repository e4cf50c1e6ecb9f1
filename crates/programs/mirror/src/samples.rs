//! Samples of the parts of a job that belong to a capture, for the tests of the contract.

use std::collections::BTreeMap;

use pgdyno_engine::contract::job::Protocol;
use pgdyno_engine::dataset::Options;

use crate::distribution::{Distribution, Hot, Spread, ValueKind};
use crate::load::*;
use crate::tables::{CapturedColumn, CapturedLink, CapturedOptions, CapturedRescue, CapturedTable};

impl Options for CapturedOptions {
    const KIND: &'static str = "capture";

    fn samples() -> Vec<CapturedOptions> {
        let sample = |is_full: bool| CapturedOptions {
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
                indexes: if is_full {
                    vec!["create index on größe (a)".into()]
                } else {
                    Vec::new()
                },
                rescues: if is_full { vec![rescue()] } else { Vec::new() },
            }],
            left_out: if is_full { "left_out".into() } else { String::new() },
            candidates: if is_full { vec!["{}".into()] } else { Vec::new() },
            completion: vec!["analyze größe".into()],
            seed: if is_full { u64::MAX } else { 0 },
        };
        [false, true].map(sample).into()
    }
}

fn rescue() -> CapturedRescue {
    CapturedRescue { sql: "alter table größe drop b".into(), words: "without b".into() }
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
pub(super) fn mirror(protocol: Protocol) -> MirrorLoad {
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
        left_out: true,
        loops_with_before: true,
        turns: Some(count),
        optional: vec![0],
        not_null: vec![0],
    };
    MirrorLoad {
        recording: None,
        tables: vec![table],
        settings: BTreeMap::from([("search_path".into(), "\"größe\"".into())]),
        data_age_s: 1e9,
        is_probe: true,
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
        otherwise: if is_full { vec![distribution.clone()] } else { Vec::new() },
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
