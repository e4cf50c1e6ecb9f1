//! Asks the user for a missing password, once, as libpq's programs do.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;

use pgdyno_wire::HandshakeError;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::say::{Fault, connect_error, fault};
use pgdyno_engine::contract::job::Target;
use pgdyno_engine::session::{Session, SessionError, StopFlag};

/// Connect. If the server needs a password and none is known, ask the user and keep it in `target`.
///
/// Args: `file`, the file that has the known password, if it comes from a file.
pub(super) fn connect(
    target: &mut Target,
    file: Option<&str>,
    stop: &StopFlag,
) -> Result<Session, Fault> {
    let mut connected = Session::connect(target, stop);
    if connected.as_ref().is_err_and(wants_password) {
        target.password = Some(ask().unwrap_or_default()).filter(|password| !password.is_empty());
        connected = Session::connect(target, stop);
    }
    connected.map_err(|error| {
        let mut said = connect_error(&error, &target.hosts[target.hosts.len() - 1]);
        let is_wrong = error.refusal().is_some_and(|refusal| refusal.sqlstate.as_str() == "28P01");
        if let Some(file) = file.filter(|_| is_wrong) {
            said.push_str(&format!("\npassword retrieved from file \"{file}\""));
        }
        let said = fault(said);
        match wants_password(&error) {
            true => said.hint("Give the password in PGPASSWORD or a password file."),
            false => said,
        }
    })
}

fn wants_password(error: &SessionError) -> bool {
    let SessionError::Handshake(error) = error else { return false };
    matches!(**error, HandshakeError::PasswordMissing)
}

/// Read a line from the terminal without showing it. Without a terminal, read standard input.
fn ask() -> io::Result<String> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    match terminal {
        Ok(terminal) => {
            let out = terminal.try_clone()?;
            ask_at(&terminal, out, terminal.try_clone()?)
        }
        Err(_) => {
            ask_at(io::stdin(), io::stderr(), File::from(io::stdin().as_fd().try_clone_to_owned()?))
        }
    }
}

fn ask_at(terminal: impl AsFd, mut out: impl Write, input: File) -> io::Result<String> {
    // Only a terminal has modes; a file or pipe shows nothing.
    let modes = tcgetattr(&terminal).ok();
    if let Some(modes) = &modes {
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    }
    let asked = out.write_all(b"Password: ").and_then(|()| out.flush());
    let mut line = String::new();
    let read = asked.and_then(|()| BufReader::new(input).read_line(&mut line));
    if let Some(modes) = &modes {
        tcsetattr(&terminal, OptionalActions::Flush, modes)?;
    }
    out.write_all(b"\n")?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
