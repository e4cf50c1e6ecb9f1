//! The kinds of datasets: the core knows only how to find the one that a job names.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Dataset;
use crate::contract::job::DatasetOptions;
use crate::contract::record::ErrorKind;
use crate::refusal::Refusal;

/// The options of one kind of dataset, as a job has them.
pub trait Options: Dataset + Default + Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The word that names the kind in a job.
    const KIND: &'static str;

    /// Return these options as a part of a job.
    fn in_job(&self) -> DatasetOptions {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else {
            unreachable!("options have fields")
        };
        DatasetOptions { kind: Self::KIND.to_owned(), fields }
    }
}

/// Reads the options of a kind.
type Reader = fn(Map<String, Value>) -> serde_json::Result<Box<dyn Dataset>>;

/// One kind of dataset, as an entry of a table.
#[derive(Clone, Copy, Debug)]
pub struct DatasetKind {
    pub name: &'static str,
    read: Reader,
    default: fn() -> Box<dyn Dataset>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl DatasetKind {
    /// Return the entry for the kind with these options.
    pub const fn of<O: Options>() -> DatasetKind {
        DatasetKind {
            name: O::KIND,
            read: |fields| Ok(Box::new(serde_json::from_value::<O>(Value::Object(fields))?)),
            default: || Box::new(O::default()),
            schema: O::json_schema,
        }
    }

    /// Return the names of the tables with default options.
    pub fn tables(&self) -> Vec<String> {
        (self.default)().tables().into_iter().map(String::from).collect()
    }

    /// Return the schema of the options in a job: with `kind`, which serde writes before them.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = (self.schema)(generator);
        let parts = schema.ensure_object();
        let kind = json!({"type": "string", "const": self.name});
        let required = parts.get("required").and_then(Value::as_array).cloned();
        let required = [vec!["kind".into()], required.unwrap_or_default()].concat();
        parts["properties"]
            .as_object_mut()
            .expect("options have fields")
            .insert("kind".into(), kind);
        parts.insert("required".into(), required.into());
        schema
    }
}

/// Return the dataset that a job describes.
///
/// Errors: no kind has this name, or its options are not those of the kind.
pub fn read(options: &DatasetOptions, kinds: &[DatasetKind]) -> Result<Box<dyn Dataset>, Refusal> {
    let read = match kinds.iter().find(|kind| kind.name == options.kind) {
        Some(kind) => (kind.read)(options.fields.clone()).map_err(|error| error.to_string()),
        None => {
            let names: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.name)).collect();
            let names = names.join(", ");
            Err(format!("unknown variant `{}`, expected one of {names}", options.kind))
        }
    };
    read.map_err(|why| {
        Refusal::new(
            ErrorKind::Job,
            format!("this is not a job: {why}"),
            "see pgdyno-engine schema",
        )
    })
}

/// Put the options of all kinds into a schema, where the core has only the name of the kind.
pub fn describe(kinds: &[DatasetKind], generator: &mut SchemaGenerator) {
    let variants: Vec<Schema> = kinds.iter().map(|kind| kind.schema(generator)).collect();
    let mut described = DatasetOptions::json_schema(generator);
    let parts = described.ensure_object();
    parts.retain(|name, _| name == "description");
    parts.insert("oneOf".into(), json!(variants));
    generator.subschema_for::<DatasetOptions>();
    let name = DatasetOptions::schema_name().into_owned();
    generator.definitions_mut().insert(name, described.into());
}
