//! A password that a command prints: for vaults and clouds whose passwords last minutes.
//!
//! The command runs in a separate thread, so that no load thread waits for it. What it printed
//! serves every connection of the process until it is old or was refused.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::clock::now_ns;
use crate::poller::Waker;

/// A password of this age is asked for again; those of clouds last a quarter of an hour.
const MAX_AGE_NS: u64 = 300_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(30);
/// What is read of the command's output at most.
const MAX_BYTES: u64 = 64 << 10;

/// A password, and which of those that were printed it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    pub text: String,
    pub number: u32,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password never reaches a log.
        f.debug_struct("Password").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What there is to connect with.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    Ready(Password),
    /// The command runs; the waker will be woken.
    Pending,
    /// The command failed; the next call runs it again.
    Failed(String),
}

/// Passwords of one command.
#[derive(Debug)]
pub struct Passwords {
    command: String,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last one, and when it was printed.
    current: Option<(Password, u64)>,
    /// It was refused.
    is_stale: bool,
    is_running: bool,
    failure: Option<String>,
    count: u32,
    wakers: Vec<Waker>,
}

impl Passwords {
    /// The passwords of a command: the same ones for everybody who asks in this process.
    ///
    /// Args: `first`, one that the command printed just now.
    pub fn of(command: &str, first: Option<&str>) -> Arc<Passwords> {
        static ALL: OnceLock<Mutex<HashMap<String, Arc<Passwords>>>> = OnceLock::new();
        let mut all = lock(ALL.get_or_init(Mutex::default));
        let make = || {
            let mut state = State::default();
            if let Some(text) = first {
                state.keep(text.to_owned());
            }
            let (state, ended) = (Mutex::new(state), Condvar::new());
            Arc::new(Passwords { command: command.to_owned(), state, ended })
        };
        Arc::clone(all.entry(command.to_owned()).or_insert_with(make))
    }

    /// The present password. Without one the command is started, unless it already runs.
    pub fn offer(self: &Arc<Self>, waker: &Waker) -> Offer {
        let mut state = lock(&self.state);
        if let Some(password) = state.fresh() {
            return Offer::Ready(password);
        }
        if let Some(failure) = state.failure.take() {
            return Offer::Failed(failure);
        }
        state.wakers.push(waker.clone());
        self.start(state);
        Offer::Pending
    }

    /// As `offer`, and wait for the command.
    pub fn wait(self: &Arc<Self>) -> Result<Password, String> {
        loop {
            let mut state = lock(&self.state);
            if let Some(password) = state.fresh() {
                return Ok(password);
            }
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if !state.is_running {
                self.start(state);
                continue;
            }
            drop(self.ended.wait(state));
        }
    }

    /// The server refused the password of this number: it serves nobody any more.
    pub fn refuse(&self, number: u32) {
        let mut state = lock(&self.state);
        if state.current.as_ref().is_some_and(|(password, _)| password.number == number) {
            state.is_stale = true;
        }
    }

    fn start(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.is_running {
            return;
        }
        state.is_running = true;
        drop(state);
        let passwords = Arc::clone(self);
        let run = move || {
            let printed = run(&passwords.command);
            passwords.end(printed);
        };
        if let Err(error) = thread::Builder::new().name("password".into()).spawn(run) {
            self.end(Err(format!("could not be run: {error}")));
        }
    }

    fn end(&self, printed: Result<String, String>) {
        let mut state = lock(&self.state);
        state.is_running = false;
        match printed {
            Ok(text) => state.keep(text),
            Err(why) => state.failure = Some(format!("the password command {why}")),
        }
        state.wakers.drain(..).for_each(|waker| waker.wake());
        self.ended.notify_all();
    }
}

impl State {
    fn fresh(&self) -> Option<Password> {
        let (password, printed_ns) = self.current.as_ref()?;
        let is_young = now_ns().saturating_sub(*printed_ns) < MAX_AGE_NS;
        (is_young && !self.is_stale).then(|| password.clone())
    }

    fn keep(&mut self, text: String) {
        self.count += 1;
        self.current = Some((Password { text, number: self.count }, now_ns()));
        (self.is_stale, self.failure) = (false, None);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Run the command, and return the one line that it printed.
///
/// Errors: the end of a sentence that begins with "the password command", with the last line that
/// it wrote to standard error. Our own is kept with the results, so the rest is not shown there.
fn run(command: &str) -> Result<String, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A separate process group, so that its child processes end with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("could not be run: {error}"))?;
    let group = Pid::from_child(&child);
    let (sender, receiver) = channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let reader = move || {
        let said = thread::spawn(move || read(err));
        let printed = read(out);
        let said = said.join().unwrap_or_default();
        // Nobody listens any more when the time was over.
        let _ = sender.send((printed, said));
    };
    let _ = thread::Builder::new().name("password-reader".into()).spawn(reader);
    let read = receiver.recv_timeout(TIMEOUT);
    if read == Err(RecvTimeoutError::Timeout) {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
        return Err(format!("took more than {} s and was stopped", TIMEOUT.as_secs()));
    }
    let (printed, said) = read.unwrap_or_default();
    let status = child.wait().map_err(|error| format!("was lost: {error}"))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let words = last.map_or(String::new(), |line| format!(": {}", line.trim()));
        return Err(format!("failed with {status}{words}"));
    }
    one_line(&printed)
}

fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What came before an error is all there is.
        let _ = pipe.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// The password: one line without a zero byte, whose text is not told.
fn one_line(printed: &[u8]) -> Result<String, String> {
    let text =
        std::str::from_utf8(printed).map_err(|_| "printed bytes that are not UTF-8".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line.lines().count() {
        0 => Err("printed nothing: it must print the password as one line".into()),
        1 if line.contains('\0') => Err("printed a zero byte".into()),
        1 => Ok(line.to_owned()),
        count => Err(format!("printed {count} lines: it must print the password as one line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_prints_serves_until_it_is_refused() {
        let file = std::env::temp_dir().join(format!("pgdyno-password-{}", std::process::id()));
        std::fs::write(&file, "first\n").expect("a file");
        let passwords = Passwords::of(&format!("cat {}", file.display()), None);
        let first = passwords.wait().expect("printed");
        std::fs::write(&file, "second").expect("a file");
        assert_eq!((passwords.wait(), first.text.as_str()), (Ok(first.clone()), "first"));
        passwords.refuse(first.number);
        let second = passwords.wait().expect("printed again");
        assert_eq!(second.text, "second");
        // A connection that was begun with the first is no reason to ask for a third.
        passwords.refuse(first.number);
        assert_eq!(passwords.wait(), Ok(second));
        std::fs::remove_file(file).expect("it was there");
    }

    #[test]
    fn one_that_was_printed_before_is_not_asked_for() {
        let passwords = Passwords::of("echo never-run; exit 7", Some("given"));
        assert_eq!(passwords.wait().expect("given").text, "given");
        passwords.refuse(1);
        let failure = passwords.wait().expect_err("exit 7");
        assert_eq!(failure, "the password command failed with exit status: 7");
    }

    #[test]
    fn whoever_asks_meanwhile_is_woken() {
        let passwords = Passwords::of("echo soon", None);
        let waker = Waker::new().expect("an eventfd");
        let mut offer = passwords.offer(&waker);
        let mut poller = crate::poller::Poller::new(crate::poller::Kind::Epoll, waker.clone());
        let poller = poller.as_mut().expect("a poller");
        while offer == Offer::Pending {
            poller.wait(u64::MAX, &mut |_| {}).expect("a wait");
            offer = passwords.offer(&waker);
        }
        assert!(matches!(offer, Offer::Ready(password) if password.text == "soon"));
    }

    #[test]
    fn the_output_must_be_one_line() {
        assert_eq!(one_line(b"p w\r\n"), Ok("p w".to_owned()));
        assert_eq!(one_line(b" \n"), Ok(" ".to_owned()));
        for (printed, why) in [(&b""[..], "nothing"), (b"\n", "nothing"), (b"a\nb\n", "2 lines")] {
            assert!(one_line(printed).is_err_and(|error| error.contains(why)), "{printed:?}");
        }
        let why = run("echo no key >&2; false").expect_err("it fails");
        assert_eq!(why, "failed with exit status: 1: no key");
    }
}
