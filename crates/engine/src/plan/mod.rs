//! A load job becomes a `Plan`: checked, its scripts read, its statements encoded.
//!
//! A plan does not change while the load runs, so all threads share it. `check` has the rules for
//! the numbers of a job, `script` reads an entry of its scripts, `statement` encodes a statement.

mod check;
mod script;
mod statement;

use std::fmt;
use std::sync::Arc;

use pgdyno_script::{Script, Value, VariableTable};
use pgdyno_wire::Login;

pub use self::check::init as check_init;
use self::script::Naming;
pub use self::script::{PlannedProgram, PlannedScript};
pub use self::statement::{Statement, StatementKind, is_copy_in};
use crate::contract::job::{Arrivals, Job, LoadWork, ScriptSource, ScriptText, Target};
use crate::contract::record::{ErrorKind, ScriptShape, StatementShape};
use crate::histogram_set::Layout;
use crate::observer::PgbenchMode;
use crate::program::{Mix, Native};
use crate::refusal::Refusal;
use crate::session::security;

/// A checked load job, and what follows from it for the whole load.
pub struct Plan {
    pub work: LoadWork,
    pub target: Target,
    pub login: Login,
    pub scripts: Vec<PlannedScript>,
    /// Entries of the job, in order. A text script is one of `scripts`, a native program is
    /// several.
    pub programs: Vec<PlannedProgram>,
    /// Weight of each of `programs`.
    pub weights: Vec<u32>,
    pub variables: Arc<VariableTable>,
    pub layout: Layout,
    /// Sentences for the author of the scripts, each with the script's name and the line.
    pub notices: Vec<String>,
    pub pgbench: PgbenchMode,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Plan {
    /// Check a job and read its scripts.
    ///
    /// Args: `natives`, the native programs that the job may name.
    ///
    /// Errors: every rule that the job breaks, and the first fault of each script.
    pub fn new(job: &Job, work: &LoadWork, natives: &[&dyn Native]) -> Result<Plan, Vec<Refusal>> {
        Plan::read(job, work, natives, None)
    }

    /// As `new`, for the drop-in. Like pgbench, it refuses a pipeline that the protocol does not
    /// have only when the pipeline runs.
    ///
    /// Args: `are_bytes`, for each script, whether each of its characters stands for one byte.
    pub fn of_pgbench(
        job: &Job,
        work: &LoadWork,
        are_bytes: &[bool],
    ) -> Result<Plan, Vec<Refusal>> {
        Plan::read(job, work, &[], Some(are_bytes))
    }

    fn read(
        job: &Job,
        work: &LoadWork,
        natives: &[&dyn Native],
        by_pgbench: Option<&[bool]>,
    ) -> Result<Plan, Vec<Refusal>> {
        let mut refusals = check::job(job);
        refusals.extend(check::load(work));
        let mut variables = VariableTable::new();
        // These four get a slot first, so they exist even if no script reads them.
        for name in ["scale", "client_id", "random_seed", "default_seed"] {
            variables.intern(name);
        }
        let (mut programs, mut scripts) = (Vec::new(), Vec::<PlannedScript>::new());
        let (mut statement_count, mut settings) = (0, Vec::<(String, String)>::new());
        for (number, source) in work.scripts.iter().enumerate() {
            let first_script = scripts.len();
            let names = match by_pgbench {
                Some(are_bytes) => {
                    Naming::AsPgbench { first: statement_count, are_bytes: are_bytes[number] }
                }
                None => Naming::ByScript(first_script),
            };
            let read = match native_of(source, natives) {
                Some(native) => {
                    script::of_native(source, native, work, first_script, &mut settings)
                }
                None => script::read(source, work, names, (&mut variables, natives))
                    .map(|script| (vec![script], Mix::Chance)),
            };
            match read {
                Ok((read, mix)) => {
                    let chosen = read.iter().filter(|script| !script.is_background);
                    let type_weights = chosen.map(|script| script.weight).collect();
                    programs.push(PlannedProgram { first_script, type_weights, mix });
                    statement_count +=
                        read.iter().map(|script| script.statements.len()).sum::<usize>();
                    scripts.extend(read);
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        refusals.extend(refuse_background(work, &scripts));
        refusals.extend(refuse_journal(work, natives));
        if !refusals.is_empty() {
            return Err(refusals);
        }
        let statement_counts: Vec<_> =
            scripts.iter().map(|script| script.statements.len()).collect();
        let notices = scripts.iter().flat_map(|script| {
            let show = |notice: &pgdyno_script::Notice| {
                format!("{}, line {}: {}", script.name, notice.line, notice.message)
            };
            let text = script.program.as_script();
            text.map_or(Vec::new(), |text| text.notices.iter().map(show).collect())
        });
        Ok(Plan {
            login: login(&job.target, work.read_only, settings),
            target: job.target.clone(),
            weights: work.scripts.iter().map(|script| script.weight).collect(),
            layout: Layout::new(&statement_counts, matches!(work.arrivals, Arrivals::Open(_)))
                .with_background(scripts.iter().map(|script| script.is_background).collect()),
            notices: notices.collect(),
            pgbench: PgbenchMode::default(),
            work: work.clone(),
            variables: Arc::new(variables),
            programs,
            scripts,
        })
    }

    pub fn client_count(&self) -> u32 {
        self.work.client_count()
    }

    /// True if clients take turns on the connections.
    pub fn shares_connections(&self) -> bool {
        self.work.connect.active_connections.is_some() || self.has_background()
    }

    /// True if some transactions defer work to background terminals.
    fn has_background(&self) -> bool {
        has_background(&self.scripts)
    }

    /// Number of background terminals, which do the deferred work.
    pub fn background_count(&self) -> u32 {
        if self.has_background() { self.work.connect.background_terminals } else { 0 }
    }

    /// True if terminals pause between transactions (keying time, think time).
    pub fn has_pauses(&self) -> bool {
        self.work.think_ratio > 0.0 && self.scripts.iter().any(|script| !script.pauses.is_none())
    }

    /// The scripts that are text, without native programs.
    pub fn texts(&self) -> impl Iterator<Item = &Script> {
        self.scripts.iter().filter_map(|script| script.program.as_script())
    }

    /// Number of connections for transactions. If the job does not give the number, each background
    /// terminal adds one to those of the clients.
    pub fn connection_count(&self) -> u32 {
        let is_given = self.work.connect.active_connections.is_some();
        self.work.asked_connection_count() + if is_given { 0 } else { self.background_count() }
    }

    /// Number of connections that only stay open, in addition to `connection_count`.
    pub fn idle_count(&self) -> u32 {
        self.work.connect.idle_connections
    }

    /// Number of threads of the whole load: each has at least one connection for transactions.
    pub fn thread_count(&self) -> u32 {
        self.work.thread_count()
    }

    /// The threads that this engine runs. Their numbers are those of the whole load.
    pub fn own_threads(&self) -> std::ops::Range<u32> {
        self.work.own_threads()
    }

    pub fn own_thread_count(&self) -> u32 {
        self.own_threads().len() as u32
    }

    /// Highest rate that the schedule offers to each thread, in transactions per second; None in a
    /// closed loop.
    pub fn thread_rate_tps(&self) -> Option<f64> {
        let Arrivals::Open(open) = &self.work.arrivals else { return None };
        let highest = open.steps.iter().map(|step| step.from_tps.max(step.to_tps));
        Some(highest.fold(0.0, f64::max) / f64::from(self.thread_count().max(1)))
    }

    /// True if every transaction opens a new connection.
    pub fn connects_each_time(&self) -> bool {
        self.pgbench.connects_late() || self.work.connect.each_transaction
    }

    /// True if connections may be opened again in the load, without an error. Transactions then
    /// parse the statements that they need.
    pub fn renews_connections(&self) -> bool {
        self.connects_each_time() || self.programs.iter().any(|own| own.mix == Mix::Program)
    }

    /// The scripts as the `hello` record describes them.
    pub fn shapes(&self) -> Vec<ScriptShape> {
        let statement = |statement: &Statement| StatementShape {
            line: statement.line,
            text: statement.text.clone(),
        };
        self.scripts
            .iter()
            .map(|script| ScriptShape {
                name: script.name.clone(),
                program: script.program_name.clone(),
                weight: if script.is_background { 0 } else { script.weight },
                reads_only: script.reads_only,
                is_background: script.is_background,
                statements: script.statements.iter().map(statement).collect(),
            })
            .collect()
    }

    /// True if a built-in text script is in the job, and the job does not give `:scale`.
    pub fn needs_scale(&self) -> bool {
        let is_text = |program: &PlannedProgram| {
            self.scripts[program.first_script].program.as_script().is_some()
        };
        let mut sources = self.work.scripts.iter().zip(&self.programs);
        !self.work.variables.contains_key("scale")
            && sources.any(|(source, program)| {
                matches!(source.source, ScriptText::Builtin(_)) && is_text(program)
            })
    }

    /// Values of `:client_id`, `:random_seed` and `:default_seed`.
    pub fn presets(&self, client_id: u32, default_seed: i64) -> [(&'static str, Value); 3] {
        [
            ("client_id", Value::Int(i64::from(client_id))),
            ("random_seed", Value::Int(self.work.seed as i64)),
            ("default_seed", Value::Int(default_seed)),
        ]
    }
}

/// Refuse a job whose transactions defer work, if a thread has no terminal for that work, or if no
/// connection stays open for it.
fn refuse_background(work: &LoadWork, scripts: &[PlannedScript]) -> Option<Refusal> {
    if !has_background(scripts) {
        return None;
    }
    let hint = "leave -C out, or give --builtin-option delivery=inline";
    if work.connect.each_transaction {
        let message = "deferred work needs connections that stay open: connect.each_transaction \
                       must be false";
        return Some(Refusal::new(ErrorKind::Job, message, hint));
    }
    let (terminals, threads) = (work.connect.background_terminals, work.thread_count());
    (terminals < threads).then(|| {
        let message = format!(
            "connect.background_terminals must be at least the number of threads, {threads}, \
             because transactions defer work; got {terminals}"
        );
        Refusal::new(ErrorKind::Job, message, "give at least one for each thread")
    })
}

fn has_background(scripts: &[PlannedScript]) -> bool {
    scripts.iter().any(|script| script.is_background && script.weight > 0)
}

/// Refuse a journal unless exactly one entry of the job records its commits: the numbers of a
/// client's commits belong to one program.
fn refuse_journal(work: &LoadWork, natives: &[&dyn Native]) -> Option<Refusal> {
    let records = |source: &&ScriptSource| {
        source.weight > 0
            && native_of(source, natives).is_some_and(|native| native.records_commits())
    };
    let count = work.scripts.iter().filter(records).count();
    (work.journal.is_some() && count != 1).then(|| {
        let message =
            format!("a journal needs one program that records its commits, got {count} of them");
        let recorders = natives.iter().filter(|native| native.records_commits());
        let names: Vec<_> = recorders.map(|native| native.name()).collect();
        let hint = format!("use -b {} once, or leave the journal out", names.join(" or -b "));
        Refusal::new(ErrorKind::Job, message, hint)
    })
}

/// The native program that an entry names. The name must be complete; a prefix does not match.
fn native_of<'n>(source: &ScriptSource, natives: &[&'n dyn Native]) -> Option<&'n dyn Native> {
    let ScriptText::Builtin(name) = &source.source else { return None };
    natives.iter().copied().find(|native| native.name() == name)
}

fn login(target: &Target, read_only: bool, settings: Vec<(String, String)>) -> Login {
    let mut parameters = vec![
        ("database".to_owned(), target.database.clone()),
        ("application_name".to_owned(), target.application_name.clone()),
    ];
    parameters.extend(target.options.iter().map(|(name, value)| (name.clone(), value.clone())));
    parameters.extend(settings);
    if read_only {
        // Of a parameter that is sent twice, the server takes the last value.
        let needed = pgdyno_wire::READ_ONLY_SETTINGS.iter();
        parameters.extend(needed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    let (channel_binding, require_auth) = security(target).expect("the job was checked");
    Login {
        user: target.user.clone(),
        password: target.password.clone(),
        parameters,
        channel_binding,
        require_auth,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::job::{Protocol, Work};
    use crate::contract::record::ErrorKind;

    /// A job for tests that need any valid job; it has no TLS.
    pub(crate) fn any_job() -> Job {
        serde_json::from_str(include_str!("../../tests/job.json")).expect("a job")
    }

    fn job(change: impl FnOnce(&mut LoadWork)) -> Job {
        let mut job = any_job();
        let Work::Load(work) = &mut job.work else { panic!("this job loads") };
        change(work);
        job
    }

    fn planned(change: impl FnOnce(&mut LoadWork)) -> Result<Plan, Vec<Refusal>> {
        let job = job(change);
        let Work::Load(work) = &job.work else { unreachable!() };
        Plan::new(&job, work, &[])
    }

    /// A plan for tests that need any valid plan.
    pub(crate) fn plan() -> Plan {
        planned(|_| {}).expect("the job is valid")
    }

    fn text(work: &mut LoadWork, text: &str) {
        work.scripts[0].source = ScriptText::Text(text.to_owned());
        work.scripts[0].name = "orders.sql".to_owned();
    }

    #[test]
    fn a_fault_in_a_script_has_its_place() {
        let refusals = planned(|work| text(work, "SELECT 1;\n\\set x 1 +\n")).unwrap_err();
        let [refusal] = refusals.as_slice() else { panic!("{refusals:?}") };
        assert_eq!(refusal.kind, ErrorKind::Script);
        assert_eq!((refusal.script.as_deref(), refusal.line), (Some("orders.sql"), Some(2)));
        assert!(refusal.column.is_some() && refusal.message.contains('^'), "{refusal:?}");
    }

    #[test]
    fn everything_wrong_with_a_job_is_said_at_once() {
        let refusals = planned(|work| {
            work.threads = 0;
            work.max_tries = 0;
            work.count_interval_ns = 7;
            text(work, "\\nonsense\n");
        })
        .unwrap_err();
        let said: Vec<_> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
        for part in ["threads", "max_tries", "count_interval_ns", "nonsense"] {
            assert!(said.iter().any(|message| message.contains(part)), "{part}: {said:?}");
        }
    }

    #[test]
    fn shell_commands_and_pipelines_are_refused_where_they_may_not_be() {
        let shell = planned(|work| {
            work.allow_shell = false;
            text(work, "\\shell true\n");
        });
        assert!(shell.unwrap_err()[0].message.contains("shell"));
        let pipeline = planned(|work| {
            work.protocol = Protocol::Simple;
            text(work, "\\startpipeline\nSELECT 1;\n\\endpipeline\n");
        });
        assert!(pipeline.unwrap_err()[0].message.contains("pipeline"));
    }

    #[test]
    fn a_read_only_load_says_so_when_it_logs_in() {
        let plan = planned(|work| work.read_only = true).expect("valid");
        for (name, value) in pgdyno_wire::READ_ONLY_SETTINGS {
            let last = plan.login.parameters.iter().rfind(|(sent, _)| sent == name);
            assert_eq!(last.map(|(_, sent)| sent.as_str()), Some(value), "{name}");
        }
    }
}
