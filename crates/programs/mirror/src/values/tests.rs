//! Distributions with a known answer.

use std::collections::BTreeMap;

use pgdyno_script::Prng;

use super::*;

fn texts(values: &Values, rows: u64) -> Vec<String> {
    let places = values.places(rows);
    let text = |place| {
        let mut out = Vec::new();
        values.write(places.number_at(place), &mut out);
        String::from_utf8(out).expect("text")
    };
    (0..rows).map(text).collect()
}

fn counted(texts: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text.as_str()).or_default() += 1;
    }
    counts
}

fn hot(values: &[(&str, f64)]) -> Vec<Hot> {
    values.iter().map(|&(value, fraction)| Hot { value: value.into(), fraction }).collect()
}

fn strings(bounds: &[&str]) -> Vec<String> {
    bounds.iter().map(|bound| (*bound).to_string()).collect()
}

fn numbers(kind: ValueKind, distinct: f64, bounds: &[&str]) -> Distribution {
    Distribution { kind, distinct, bounds: strings(bounds), ..Distribution::default() }
}

#[test]
fn a_dense_unique_column_has_every_number_of_its_range_once_and_in_order() {
    let dense = Distribution {
        is_dense: true,
        ..numbers(ValueKind::Integer, 1000.0, &["1", "500", "1000"])
    };
    let values = Values::new(&dense).unwrap();
    let expected: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    assert_eq!(texts(&values, 1000), expected);
}

#[test]
fn a_bound_that_repeats_is_one_value_with_the_rows_of_all_its_bins() {
    let bounds = ["0", "1", "4", "4", "4", "5", "6"];
    let values = Values::new(&numbers(ValueKind::Integer, 7.0, &bounds)).unwrap();
    let texts = texts(&values, 60);
    let counts = counted(&texts);
    assert_eq!(counts["4"], 30, "{counts:?}");
    let mut every: Vec<_> = (0..values.count()).map(|number| values.value(number)).collect();
    every.dedup();
    assert_eq!(every, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn common_values_have_their_frequency_and_the_others_share_the_rest() {
    let skewed = Distribution {
        hot: hot(&[("50", 0.5), ("10", 0.25)]),
        null_fraction: 0.0,
        ..numbers(ValueKind::Integer, 52.0, &["0", "25", "99"])
    };
    let texts = texts(&Values::new(&skewed).unwrap(), 10_000);
    let counts = counted(&texts);
    assert_eq!((counts["50"], counts["10"], counts.len()), (5000, 2500, 52));
    let others = counts.iter().filter(|(value, _)| !["50", "10"].contains(value));
    assert!(others.clone().all(|(_, &count)| (45..=55).contains(&count)), "{counts:?}");
    let ascending: Vec<i64> = texts.iter().map(|text| text.parse().unwrap()).collect();
    assert!(ascending.is_sorted());
    assert_eq!((ascending[0], *ascending.last().unwrap()), (0, 99));
}

#[test]
fn as_many_rows_are_between_all_bounds() {
    let bounds = ["-1000", "0", "1", "2", "4", "1000000"];
    let values = Values::new(&numbers(ValueKind::Integer, 600.0, &bounds)).unwrap();
    let texts = texts(&values, 10_000);
    let between = |low: i64, high: i64| {
        let inside = |text: &&String| (low..high).contains(&text.parse().unwrap());
        texts.iter().filter(inside).count()
    };
    // The third bin has one value, and the fourth two.
    for (low, high) in [(-1000, 0), (0, 1), (1, 2), (2, 4), (4, 1_000_001)] {
        assert!((1990..=2010).contains(&between(low, high)), "{low}: {}", between(low, high));
    }
    assert_eq!(counted(&texts).len(), 600, "full bins leave their share to the others");
}

#[test]
fn every_kind_keeps_its_bounds_order_and_number_of_values() {
    let kinds = [
        (ValueKind::Integer, ["-5", "70000"]),
        (ValueKind::Numeric, ["-1.50", "99.99"]),
        (ValueKind::Real, ["0.25", "7.75"]),
        (ValueKind::Date, ["1999-12-31", "2024-02-29"]),
        (ValueKind::Timestamp, ["1999-12-31 23:59:59", "2024-02-29 12:00:00.5"]),
        (ValueKind::Time, ["00:00:01", "23:59:59.25"]),
        (ValueKind::Text, ["anna", "zoe"]),
        (ValueKind::Inet, ["10.0.0.1", "192.168.1.1"]),
    ];
    for (kind, bounds) in kinds {
        let values = Values::new(&numbers(kind, 500.0, &bounds)).unwrap();
        let texts = texts(&values, 5000);
        assert_eq!(counted(&texts).len(), 500, "{kind:?}");
        if kind != ValueKind::Text {
            assert_eq!(texts[0].trim_end_matches('0'), bounds[0].trim_end_matches('0'), "{kind:?}");
        }
        let key = |text: &String| match kind {
            ValueKind::Integer | ValueKind::Numeric | ValueKind::Real => {
                format!("{:020.4}", text.parse::<f64>().unwrap() + 1000.0)
            }
            ValueKind::Inet => text.split('.').map(|part| format!("{part:0>3}")).collect(),
            _ => text.clone(),
        };
        assert!(texts.is_sorted_by_key(key), "{kind:?} {:?}", &texts[..3]);
    }
}

#[test]
fn the_last_bound_is_the_largest_value() {
    for (kind, bounds) in [
        (ValueKind::Integer, ["1", "1000"]),
        (ValueKind::Date, ["2020-01-01", "2024-02-29"]),
        (ValueKind::Numeric, ["0.01", "7.77"]),
    ] {
        let values = Values::new(&numbers(kind, 100.0, &bounds)).unwrap();
        let mut last = Vec::new();
        values.write(u64::MAX, &mut last);
        assert_eq!(String::from_utf8(last).unwrap(), bounds[1]);
    }
}

#[test]
fn texts_are_different_between_their_bounds_and_as_long_as_asked() {
    let bounds = ["https://a.example/aa", "https://a.example/mm", "https://b.example/zz"];
    let wide = Distribution {
        width: 60.0,
        hot: hot(&[("https://a.example/nn", 0.1)]),
        ..numbers(ValueKind::Text, 2001.0, &bounds)
    };
    let texts = texts(&Values::new(&wide).unwrap(), 20_000);
    let counts = counted(&texts);
    assert_eq!((counts.len(), counts["https://a.example/nn"]), (2001, 2000));
    assert!(texts.iter().all(|text| bounds[0] <= text.as_str() && text.as_str() < "https://bc"));
    let mean = texts.iter().map(String::len).sum::<usize>() as f64 / texts.len() as f64;
    assert!((mean - 60.0).abs() < 3.0, "{mean}");
    assert!(texts.is_sorted());
}

#[test]
fn a_limit_of_the_length_holds_and_texts_without_bounds_are_made() {
    let code = Distribution {
        width: 30.0,
        length: Some(Spread { least: 0.0, mean: 10.0, most: 10.0 }),
        ..numbers(ValueKind::Text, 900.0, &[])
    };
    let texts = texts(&Values::new(&code).unwrap(), 900);
    assert_eq!(counted(&texts).len(), 900);
    assert!(texts.iter().all(|text| text.len() == 10));
}

#[test]
fn draws_have_the_frequencies_and_the_values_of_the_rows() {
    let skewed = Distribution {
        null_fraction: 0.2,
        hot: hot(&[("7", 0.4)]),
        ..numbers(ValueKind::Integer, 11.0, &["0", "100"])
    };
    let values = Values::new(&skewed).unwrap();
    let existing = texts(&values, 1000);
    let (mut random, mut nulls, mut sevens) = (Prng::from_seed(1), 0, 0);
    for _ in 0..10_000 {
        let mut out = Vec::new();
        if !values.draw(&mut random, &mut out) {
            nulls += 1;
            continue;
        }
        let text = String::from_utf8(out).unwrap();
        sevens += usize::from(text == "7");
        assert!(existing.contains(&text));
    }
    assert!((1850..2150).contains(&nulls) && (3800..4200).contains(&sevens), "{nulls} {sevens}");
}

#[test]
fn a_rank_is_a_value_of_the_column_that_it_refers_to() {
    let parent = numbers(ValueKind::Uuid, 50.0, &[]);
    let child = Distribution {
        element: Some(Box::new(parent.clone())),
        hot: hot(&[("3", 0.5)]),
        ..numbers(ValueKind::Rank, 40.0, &["0", "49"])
    };
    let parents = texts(&Values::new(&parent).unwrap(), 50);
    let children = texts(&Values::new(&child).unwrap(), 1000);
    let counts = counted(&children);
    assert_eq!((counts.len(), counts[parents[3].as_str()]), (40, 500));
    assert!(children.iter().all(|child| parents.contains(child)));
}

#[test]
fn arrays_ranges_documents_and_bytes_are_well_formed() {
    let element =
        Distribution { distinct: 4.0, ..numbers(ValueKind::Text, 4.0, &["a\"b", "x\\y"]) };
    let array = Distribution {
        element: Some(Box::new(element)),
        length: Some(Spread { least: 0.0, mean: 2.0, most: 4.0 }),
        ..numbers(ValueKind::Array, 100.0, &[])
    };
    let arrays = texts(&Values::new(&array).unwrap(), 1000);
    let commas = arrays.iter().filter(|text| text.len() > 2);
    let elements = commas.map(|text| text.matches("\",\"").count() + 1).sum::<usize>();
    assert!((1500..2500).contains(&elements), "{elements}");
    let day = numbers(ValueKind::Date, 10.0, &["2024-01-01", "2024-01-31"]);
    let range = Distribution {
        element: Some(Box::new(day)),
        length: Some(Spread { least: 1.0, mean: 2.0, most: 3.0 }),
        ..numbers(ValueKind::Range, 10.0, &[])
    };
    let ranges = texts(&Values::new(&range).unwrap(), 10);
    assert!(ranges[0].starts_with("[\"2024-01-01\",\"2024-01-0"), "{}", ranges[0]);
    let json = Distribution { width: 80.0, ..numbers(ValueKind::Json, 30.0, &[]) };
    for text in texts(&Values::new(&json).unwrap(), 30) {
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(document["n"].is_u64() && (35..=125).contains(&text.len()), "{text}");
    }
    let bytes = Distribution { width: 16.0, ..numbers(ValueKind::Bytes, 64.0, &[]) };
    let bytes = texts(&Values::new(&bytes).unwrap(), 64);
    assert_eq!(counted(&bytes).len(), 64);
    assert!(bytes.iter().all(|text| text.starts_with("\\x") && text.len() % 2 == 0));
}

#[test]
fn labels_booleans_and_listed_values_are_kept() {
    let flags = Distribution {
        hot: hot(&[("t", 0.75), ("f", 0.25)]),
        ..numbers(ValueKind::Boolean, 2.0, &[])
    };
    let flags = texts(&Values::new(&flags).unwrap(), 100);
    let counts = counted(&flags);
    assert_eq!((counts["t"], counts["f"]), (75, 25));
    let listed = numbers(ValueKind::Other, 2.0, &["(1,2)", "(3,4)"]);
    let texts = texts(&Values::new(&listed).unwrap(), 10);
    assert_eq!(counted(&texts), BTreeMap::from([("(1,2)", 5), ("(3,4)", 5)]));
    let unknown = Values::new(&numbers(ValueKind::Other, 2.0, &[]));
    assert_eq!(unknown.unwrap_err(), "its values are not known");
}

#[test]
fn impossible_shares_are_refused() {
    for (wrong, expected) in [
        (Distribution { null_fraction: 1.5, ..Distribution::default() }, "null_fraction"),
        (Distribution { distinct: -1.0, ..Distribution::default() }, "distinct"),
        (Distribution { hot: hot(&[("a", f64::NAN)]), ..Distribution::default() }, "common"),
    ] {
        let error = Values::new(&wrong).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
