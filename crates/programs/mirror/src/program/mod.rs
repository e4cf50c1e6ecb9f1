//! The mirror: the transaction templates of a capture, with values that fit the database.
//!
//! The job has the templates. Before the load `keys` reads which keys exist. Then a transaction is
//! the `walk` through the steps of its template, whose values come from `drawing`.

mod catalog;
mod copied;
mod counts;
mod drawing;
mod existing;
mod keys;
mod needs;
mod number;
mod recording;
mod replay;
mod slots;
mod sources;
mod step;
mod template;
mod walk;

use std::sync::{Arc, OnceLock};

use self::drawing::Stock;
use self::sources::KeysOfJob;
use self::walk::Run;
use pgdyno_engine::program::{Asked, Mix, Native, Planned, ProgramOption, Takes};
use serde_json::Value;

use crate::load::MirrorLoad;

/// The program as `-b` knows it.
#[derive(Debug)]
pub struct Mirror;

impl Native for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn description(&self) -> &'static str {
        "mirror: the load of a capture, given as -b FILE"
    }

    fn dataset(&self) -> &'static str {
        "capture"
    }

    fn takes_templates(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [ProgramOption] {
        const OPTIONS: [ProgramOption; 1] = [ProgramOption {
            name: replay::SPEED,
            takes: Takes::Number { least: 1, most: 100_000 },
            description: "of a recording: begin transactions at their recorded times; 100 = as \
                          fast as they were",
        }];
        &OPTIONS
    }

    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String> {
        let templates = asked.templates.expect("a job without templates was refused");
        let load: MirrorLoad = serde_json::from_value(Value::Object(templates.clone()))
            .map_err(|why| format!("does not understand its templates: {why}"))?;
        let load = &load;
        if load.templates.is_empty() {
            return Err("needs at least one template".to_owned());
        }
        if let Some(recording) = &load.recording {
            return replay::plan(recording, load, asked);
        }
        let mut wanted = KeysOfJob::of_queues(&load.templates);
        let (mut templates, mut types) = (Vec::new(), Vec::new());
        for given in &load.templates {
            let (template, kind) = template::plan(given, load, &mut wanted)?;
            templates.push(template);
            types.push(kind);
        }
        let run = Run {
            templates,
            stock: Stock::new(&wanted, asked.terminal_count, load.data_age_s),
            wanted,
            tables: load.tables.clone(),
            is_probe: load.is_probe,
            missing_roles: OnceLock::new(),
        };
        let settings = load.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
        let settings = settings.collect();
        Ok(Planned { types, mix: Mix::Even, transactions: Arc::new(run), settings })
    }
}
