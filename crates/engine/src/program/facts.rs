//! Describes the built-in scripts and programs for the lab (`pgdyno-engine facts`).

use std::collections::BTreeMap;

use pgdyno_script::{BUILTINS, Builtin, META_COMMANDS, VariableTable, parse};

use super::{Asked, Native, Takes, TransactionType};
use crate::contract::facts::{BuiltinFacts, DatasetFacts, Facts, OptionFacts, TypeFacts};
use crate::dataset::DatasetKind;

/// Everything that the lab learns from the engine, except the records.
pub fn facts(programs: &[&dyn Native], datasets: &[DatasetKind]) -> Facts {
    let scripts = BUILTINS.iter().map(of_script);
    let natives = programs.iter().map(|native| of_native(*native));
    Facts {
        format: "pgdyno.facts/1".to_owned(),
        builtins: scripts.chain(natives).collect(),
        meta_commands: META_COMMANDS.iter().map(|&name| name.to_owned()).collect(),
        datasets: datasets.iter().map(of_dataset).collect(),
    }
}

fn of_dataset(kind: &DatasetKind) -> (String, DatasetFacts) {
    (kind.name.to_owned(), DatasetFacts { tables: kind.tables() })
}

fn of_script(builtin: &Builtin) -> BuiltinFacts {
    let mut variables = VariableTable::new();
    let script = parse(builtin.name, builtin.text, &mut variables).expect("a built-in is right");
    let reads_only = script.reads_only();
    BuiltinFacts {
        name: builtin.name.to_owned(),
        description: plain(builtin.description),
        dataset: builtin.dataset.to_owned(),
        reads_only,
        reads_scale: variables.find("scale").is_some(),
        is_native: false,
        is_of_pgbench: builtin.is_of_pgbench,
        types: vec![TypeFacts {
            name: builtin.name.to_owned(),
            weight: 1,
            reads_only,
            keying_ns: 0,
            think_ns_mean: 0,
        }],
        options: Vec::new(),
    }
}

/// Return a description without pgbench's "<builtin: ...>", which only pgbench's report shows.
fn plain(description: &str) -> String {
    let inner = description.strip_prefix("<builtin: ").and_then(|text| text.strip_suffix('>'));
    inner.unwrap_or(description).to_owned()
}

fn of_native(native: &dyn Native) -> BuiltinFacts {
    let none = BTreeMap::new();
    let types = match native.takes_templates() {
        true => Vec::new(),
        false => {
            let asked = Asked::new(native, &none, None, (0, 1));
            let planned = asked.and_then(|asked| native.plan(&asked));
            planned.expect("the defaults of a program are right").types
        }
    };
    let of_type = |kind: &TransactionType| TypeFacts {
        name: kind.name.clone(),
        weight: kind.weight,
        reads_only: kind.reads_only,
        keying_ns: kind.pauses.keying_ns,
        think_ns_mean: kind.pauses.think_ns_mean,
    };
    BuiltinFacts {
        name: native.name().to_owned(),
        description: native.description().to_owned(),
        dataset: native.dataset().to_owned(),
        reads_only: !types.is_empty() && types.iter().all(|kind| kind.reads_only),
        reads_scale: false,
        is_native: true,
        is_of_pgbench: false,
        types: types.iter().filter(|kind| !kind.is_background).map(of_type).collect(),
        options: native
            .options()
            .iter()
            .map(|option| OptionFacts {
                name: option.name.to_owned(),
                description: option.description.to_owned(),
                values: match option.takes {
                    Takes::Words(words) => words.iter().map(|&word| word.to_owned()).collect(),
                    Takes::Number { .. } => Vec::new(),
                },
                range: match option.takes {
                    Takes::Words(_) => None,
                    Takes::Number { least, most } => Some((least, most)),
                },
            })
            .collect(),
    }
}
