//! The options of pgbench 18, with its rules and its messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::getopt::{self, Code, LongOption};
use super::say::{Fault, fault};
use super::scripts::{Chosen, add_builtin, add_file, check_parameters};
use super::values::{
    bounded, init_steps, integer, leading_integer, partition_method, positive, protocol,
};
use crate::dataset::PartitionMethod;
use pgdyno_engine::contract::job::Protocol;

const SHORT: &str = "b:c:Cd:D:f:F:h:iI:j:lL:M:nNp:P:qrR:s:St:T:U:v";

const LONG: &[LongOption] = &[
    short("builtin", true, 'b'),
    short("client", true, 'c'),
    short("connect", false, 'C'),
    short("dbname", true, 'd'),
    short("define", true, 'D'),
    short("file", true, 'f'),
    short("fillfactor", true, 'F'),
    short("host", true, 'h'),
    short("initialize", false, 'i'),
    short("init-steps", true, 'I'),
    short("jobs", true, 'j'),
    short("log", false, 'l'),
    short("latency-limit", true, 'L'),
    short("no-vacuum", false, 'n'),
    short("port", true, 'p'),
    short("progress", true, 'P'),
    short("protocol", true, 'M'),
    short("quiet", false, 'q'),
    short("report-per-command", false, 'r'),
    short("rate", true, 'R'),
    short("scale", true, 's'),
    short("select-only", false, 'S'),
    short("skip-some-updates", false, 'N'),
    short("time", true, 'T'),
    short("transactions", true, 't'),
    short("username", true, 'U'),
    short("vacuum-all", false, 'v'),
    long("unlogged-tables", false),
    long("tablespace", true),
    long("index-tablespace", true),
    long("sampling-rate", true),
    long("aggregate-interval", true),
    long("progress-timestamp", false),
    long("log-prefix", true),
    long("foreign-keys", false),
    long("random-seed", true),
    long("show-script", true),
    long("partitions", true),
    long("partition-method", true),
    long("failures-detailed", false),
    long("max-tries", true),
    long("verbose-errors", false),
    long("exit-on-abort", false),
    long("debug", false),
    long("percentiles", false),
    long("continue-on-error", false),
];

const fn short(name: &'static str, takes_value: bool, letter: char) -> LongOption {
    LongOption { name, takes_value, code: Code::Short(letter) }
}

const fn long(name: &'static str, takes_value: bool) -> LongOption {
    LongOption { name, takes_value, code: Code::Long(name) }
}

/// All options of the command line and the environment.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub database: Option<String>,
    /// The file that has the password, if it comes from a file.
    pub password_file: Option<String>,
    pub host: Option<String>,
    pub port: Option<String>,
    pub user: Option<String>,
    pub debug: bool,
    pub is_init: bool,
    pub init_steps: String,
    pub fillfactor: u8,
    pub is_quiet: bool,
    pub foreign_keys: bool,
    pub unlogged: bool,
    pub tablespace: Option<String>,
    pub index_tablespace: Option<String>,
    pub partitions: u32,
    pub partition_method: Option<PartitionMethod>,
    pub no_vacuum: bool,
    pub vacuum_all: bool,
    pub scale: u32,
    pub is_scale_given: bool,
    pub scripts: Vec<Chosen>,
    pub clients: u32,
    pub threads: u32,
    pub connects_anew: bool,
    pub variables: BTreeMap<String, String>,
    pub protocol: Protocol,
    pub transactions: u32,
    pub duration_s: u32,
    pub rate_tps: f64,
    pub latency_limit_ms: f64,
    pub max_tries: u32,
    pub progress_s: u32,
    pub progress_timestamp: bool,
    pub per_command: bool,
    pub failures_detailed: bool,
    pub verbose_errors: bool,
    pub exit_on_abort: bool,
    pub continues_on_error: bool,
    pub log: bool,
    pub log_prefix: Option<PathBuf>,
    pub sampling_rate: f64,
    pub aggregate_s: u32,
    pub random_seed: Option<String>,
    pub percentiles: bool,
    /// An option was given that only this mode has: initialization here, benchmarking below.
    pub has_init_option: bool,
    pub has_benchmark_option: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            database: None,
            password_file: None,
            host: None,
            port: None,
            user: None,
            debug: false,
            is_init: false,
            init_steps: "dtgvp".into(),
            fillfactor: 100,
            is_quiet: false,
            foreign_keys: false,
            unlogged: false,
            tablespace: None,
            index_tablespace: None,
            partitions: 0,
            partition_method: None,
            no_vacuum: false,
            vacuum_all: false,
            scale: 1,
            is_scale_given: false,
            scripts: Vec::new(),
            clients: 1,
            threads: 1,
            connects_anew: false,
            variables: BTreeMap::new(),
            protocol: Protocol::Simple,
            transactions: 0,
            duration_s: 0,
            rate_tps: 0.0,
            latency_limit_ms: 0.0,
            max_tries: 1,
            progress_s: 0,
            progress_timestamp: false,
            per_command: false,
            failures_detailed: false,
            verbose_errors: false,
            exit_on_abort: false,
            continues_on_error: false,
            log: false,
            log_prefix: None,
            sampling_rate: 0.0,
            aggregate_s: 0,
            random_seed: None,
            percentiles: false,
            has_init_option: false,
            has_benchmark_option: false,
        }
    }
}

/// Read the command line.
///
/// Errors: the first fault, in pgbench's order. An exit code of 0 means that the request is already
/// answered, such as `-b list`.
pub(super) fn read(arguments: &[String]) -> Result<Options, Fault> {
    let (parsed, error) = getopt::parse(arguments, SHORT, LONG);
    let mut options = Options::default();
    for (code, value) in parsed.options {
        // If an option has no value, this value is never used.
        options.take(code, value.as_deref().unwrap_or_default())?;
    }
    if let Some(message) = error {
        return Err(Fault::usage(format!("pgbench: {message}")));
    }
    if options.scripts.is_empty() && !options.is_init {
        add_builtin(&mut options.scripts, "tpcb-like")?;
    }
    let total_weight: u64 = options.scripts.iter().map(|s| u64::from(s.weight)).sum();
    if options.protocol != Protocol::Simple {
        options.scripts.iter().try_for_each(check_parameters)?;
    }
    if total_weight == 0 && !options.is_init {
        return Err(fault("total script weight must not be zero"));
    }
    options.threads = options.threads.min(options.clients);
    let mut operands = parsed.operands.into_iter();
    options.database = operands.next().or(options.database);
    if let Some(extra) = operands.next() {
        let message = format!("too many command-line arguments (first is \"{extra}\")");
        return Err(Fault::usage(format!("pgbench: error: {message}")));
    }
    match options.is_init {
        true => options.check_init()?,
        false => options.check_benchmark()?,
    }
    Ok(options)
}

impl Options {
    fn take(&mut self, code: Code, value: &str) -> Result<(), Fault> {
        match code {
            Code::Short(letter) => self.take_short(letter, value),
            Code::Long(name) => self.take_long(name, value),
        }
    }

    fn take_short(&mut self, letter: char, value: &str) -> Result<(), Fault> {
        match letter {
            'q' | 'F' | 'I' => self.has_init_option = true,
            'd' | 'h' | 'p' | 'U' | 'i' | 'n' | 's' => {}
            _ => self.has_benchmark_option = true,
        }
        match letter {
            'b' if value == "list" => {
                return Err(Fault::answered(super::scripts::list()));
            }
            'b' => add_builtin(&mut self.scripts, value)?,
            'c' => self.clients = integer(value, "-c/--client", 1)?,
            'C' => self.connects_anew = true,
            'd' => self.database = Some(value.into()),
            'D' => match value.split_once('=') {
                Some((name, text)) if !name.is_empty() && !text.is_empty() => {
                    if !pgdyno_script::is_valid_name(name) {
                        return Err(fault(format!("option: invalid variable name: \"{name}\"")));
                    }
                    self.variables.insert(name.into(), text.into());
                }
                _ => return Err(fault(format!("invalid variable definition: \"{value}\""))),
            },
            'f' => add_file(&mut self.scripts, value)?,
            'F' => self.fillfactor = bounded(value, "-F/--fillfactor", 10, 100)? as u8,
            'h' => self.host = Some(value.into()),
            'i' => self.is_init = true,
            'I' => self.init_steps = init_steps(value)?,
            'j' => self.threads = integer(value, "-j/--jobs", 1)?,
            'l' => self.log = true,
            // pgbench keeps whole microseconds, so a smaller limit means no limit.
            'L' => {
                let limit_ms = positive(value, "invalid latency limit")?;
                self.latency_limit_ms = (limit_ms * 1e3).trunc() / 1e3;
            }
            'M' => self.protocol = protocol(value)?,
            'n' => self.no_vacuum = true,
            'N' => add_builtin(&mut self.scripts, "simple-update")?,
            'p' => self.port = Some(value.into()),
            'P' => self.progress_s = integer(value, "-P/--progress", 1)?,
            'q' => self.is_quiet = true,
            'r' => self.per_command = true,
            'R' => self.rate_tps = positive(value, "invalid rate limit")?,
            's' => {
                self.scale = integer(value, "-s/--scale", 1)?;
                self.is_scale_given = true;
            }
            'S' => add_builtin(&mut self.scripts, "select-only")?,
            't' => self.transactions = integer(value, "-t/--transactions", 1)?,
            'T' => self.duration_s = integer(value, "-T/--time", 1)?,
            'U' => self.user = Some(value.into()),
            'v' => self.vacuum_all = true,
            other => unreachable!("getopt knows no -{other}"),
        }
        Ok(())
    }

    fn take_long(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        match name {
            "debug" | "show-script" => {}
            "unlogged-tables" | "tablespace" | "index-tablespace" | "foreign-keys"
            | "partitions" | "partition-method" => self.has_init_option = true,
            _ => self.has_benchmark_option = true,
        }
        match name {
            "unlogged-tables" => self.unlogged = true,
            "tablespace" => self.tablespace = Some(value.into()),
            "index-tablespace" => self.index_tablespace = Some(value.into()),
            "foreign-keys" => self.foreign_keys = true,
            "partitions" => self.partitions = integer(value, "--partitions", 0)?,
            "partition-method" => self.partition_method = Some(partition_method(value)?),
            "sampling-rate" => {
                self.sampling_rate = positive(value, "invalid sampling rate")?;
                if self.sampling_rate > 1.0 {
                    return Err(fault(format!("invalid sampling rate: \"{value}\"")));
                }
            }
            "aggregate-interval" => {
                self.aggregate_s = integer(value, "--aggregate-interval", 1)?;
            }
            "progress-timestamp" => self.progress_timestamp = true,
            "log-prefix" => self.log_prefix = Some(value.into()),
            "random-seed" => {
                super::seed::check(value).map_err(|fault| {
                    fault.and("error while setting random seed from --random-seed option")
                })?;
                self.random_seed = Some(value.into());
            }
            "show-script" => return Err(Fault::answered(super::scripts::show(value)?)),
            "failures-detailed" => self.failures_detailed = true,
            "max-tries" => {
                self.max_tries = u32::try_from(leading_integer(value))
                    .map_err(|_| fault(format!("invalid number of maximum tries: \"{value}\"")))?;
            }
            "verbose-errors" => self.verbose_errors = true,
            "exit-on-abort" => self.exit_on_abort = true,
            "continue-on-error" => self.continues_on_error = true,
            "debug" => self.debug = true,
            "percentiles" => self.percentiles = true,
            other => unreachable!("getopt knows no --{other}"),
        }
        Ok(())
    }
}
