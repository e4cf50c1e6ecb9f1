//! `pgdyno-null-server`: options, the ready line, the closing line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use pgdyno_null_server::behaviour::{Behaviour, Garbage};
use pgdyno_null_server::canned::Canned;
use pgdyno_null_server::server::Server;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

const USAGE: &str = "\
A PostgreSQL server without a database. It says on one line where it listens, serves until its
standard input ends, and says on a second line what it did.

  --socket FILE            listen on this socket file, such as /run/x/.s.PGSQL.5432
  --tcp ADDRESS:PORT       listen there; port 0 lets the system choose
  --service-us N           answer each statement N microseconds after it came
  --stall AT_MS:FOR_MS     from AT_MS after the first statement, answer nothing for FOR_MS
  --stamp                  rows are (received_ns, sent_ns) on CLOCK_MONOTONIC
  --stamp-log FILE         as --stamp, and a line `received_ns sent_ns connection` per statement
  --close-after N          close a connection instead of answering its statement N + 1
  --error-every N:STATE    every Nth statement fails with this SQLSTATE
  --canned FILE            the results that the file lists (canned.rs says how)
  --garbage HOW            spoil the answers: type, length or truncated
";

#[derive(Default)]
struct Options {
    socket: Option<PathBuf>,
    tcp: Option<SocketAddr>,
    stamp_log: Option<PathBuf>,
    behaviour: Behaviour,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1))
        .and_then(|options| serve(options).map_err(|e| e.to_string()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "pgdyno-null-server: {message}\n\n{USAGE}");
            ExitCode::from(1)
        }
    }
}

fn serve(options: Options) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let log: Option<Box<dyn Write>> = match &options.stamp_log {
        Some(path) => Some(Box::new(BufWriter::with_capacity(1 << 20, File::create(path)?))),
        None => None,
    };
    let mut server = Server::new(options.socket.as_deref(), options.tcp, options.behaviour, log)?;
    let port = server.tcp_port().map_or("null".to_owned(), |port| port.to_string());
    let mut stdout = io::stdout();
    writeln!(stdout, "{{\"tcp_port\": {port}}}")?;
    stdout.flush()?;
    let tally = server.run()?;
    if let Some(path) = &options.socket {
        std::fs::remove_file(path)?;
    }
    writeln!(
        stdout,
        "{{\"connections\": {}, \"terminated\": {}, \"cancels\": {}, \"statements\": {}, \
         \"errors\": {}, \"commits\": {}}}",
        tally.connections,
        tally.terminated,
        tally.cancels,
        tally.statements,
        tally.errors,
        tally.commits
    )
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        let behaviour = &mut options.behaviour;
        if name == "--stamp" {
            behaviour.stamps = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{name}: unknown, or its value is missing"))?;
        let wrong = || format!("{name} {value}: cannot be read");
        match name.as_str() {
            "--socket" => options.socket = Some(PathBuf::from(&value)),
            "--tcp" => options.tcp = Some(value.parse().map_err(|_| wrong())?),
            "--service-us" => {
                behaviour.service_ns = 1000 * value.parse::<u64>().map_err(|_| wrong())?;
            }
            "--stall" => {
                let (at, length) = pair(&value).ok_or_else(wrong)?;
                let at_ms: u64 = at.parse().map_err(|_| wrong())?;
                let for_ms: u64 = length.parse().map_err(|_| wrong())?;
                behaviour.stall = Some((at_ms * 1_000_000, (at_ms + for_ms) * 1_000_000));
            }
            "--stamp-log" => {
                behaviour.stamps = true;
                options.stamp_log = Some(PathBuf::from(&value));
            }
            "--close-after" => behaviour.close_after = Some(value.parse().map_err(|_| wrong())?),
            "--error-every" => {
                let (every, state) = pair(&value).ok_or_else(wrong)?;
                let state = state.as_bytes().try_into().map_err(|_| wrong())?;
                let every = every.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
                behaviour.error_every = Some((every, state));
            }
            "--canned" => behaviour.canned = read_canned(&value).ok_or_else(wrong)?,
            "--garbage" => {
                behaviour.garbage = Some(match value.as_str() {
                    "type" => Garbage::Type,
                    "length" => Garbage::Length,
                    "truncated" => Garbage::Truncated,
                    _ => return Err(wrong()),
                });
            }
            _ => return Err(format!("{name}: unknown")),
        }
    }
    if options.socket.is_none() && options.tcp.is_none() {
        return Err("one of --socket and --tcp is needed".to_owned());
    }
    Ok(options)
}

fn read_canned(path: &str) -> Option<Vec<Rc<Canned>>> {
    let canned = Canned::read(&std::fs::read_to_string(path).ok()?).ok()?;
    Some(canned.into_iter().map(Rc::new).collect())
}

fn pair(value: &str) -> Option<(&str, &str)> {
    value.split_once(':')
}
