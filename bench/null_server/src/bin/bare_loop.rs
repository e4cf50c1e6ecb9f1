//! `pgdyno-bare-loop SOCKET CLIENTS SECONDS [RATE]`: what a client of prepared select-only cannot
//! omit; with RATE, that many Poisson arrivals a second go to the clients in turn.
//!
//! One thread: epoll_wait, recv, send of the bytes an engine sends (Bind, Describe, Execute, Sync
//! with a random account), until ReadyForQuery. No histogram, no clock per transaction, no script.
//! It prints its transactions, CPU and time as one JSON line; the engine's CPU is held against it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use pgdyno_null_server::clock::now_ns;
use pgdyno_null_server::reply::message;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

const SQL: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;";
const STATEMENT: &[u8] = b"P0_0\0";
const SECOND_NS: u64 = 1_000_000_000;
const TIMER: u64 = u64::MAX;
const ACCOUNTS: u64 = 1_000_000;
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (clients, seconds, rate) = match numbers[..] {
        [clients, seconds] => (clients as usize, seconds, None),
        [clients, seconds, rate] => (clients as usize, seconds, Some(rate)),
        _ => {
            let usage = "usage: pgdyno-bare-loop SOCKET CLIENTS SECONDS [RATE]";
            let _ = writeln!(io::stderr(), "{usage}");
            return ExitCode::from(1);
        }
    };
    let length_ns = seconds * SECOND_NS;
    let done = Loop::connect(&arguments[0], clients).and_then(|ready| match rate {
        None => ready.run(length_ns),
        Some(rate) => ready.run_at(rate as f64, length_ns),
    });
    match done {
        Ok(line) => {
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "pgdyno-bare-loop: {error}");
            ExitCode::from(2)
        }
    }
}

struct Loop {
    epoll: OwnedFd,
    streams: Vec<UnixStream>,
    random: u64,
    out: Vec<u8>,
    input: [u8; 4096],
}

impl Loop {
    fn connect(socket: &str, clients: usize) -> io::Result<Loop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut streams = Vec::with_capacity(clients);
        for index in 0..clients {
            let stream = connect(socket)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, stream.as_fd(), EventData::new_u64(index as u64), EventFlags::IN)?;
            streams.push(stream);
        }
        Ok(Loop {
            epoll,
            streams,
            random: 88_172_645_463_325_252,
            out: Vec::new(),
            input: [0; 4096],
        })
    }

    /// Every client sends as soon as it is answered.
    fn run(mut self, length_ns: u64) -> io::Result<String> {
        let (begun_ns, cpu_before_ns) = (now_ns(), cpu_ns());
        for index in 0..self.streams.len() {
            self.send(index)?;
        }
        let mut events = Vec::with_capacity(1024);
        let (mut transactions, mut in_flight, mut is_over) = (0_u64, self.streams.len(), false);
        while in_flight > 0 {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            is_over |= now_ns() - begun_ns >= length_ns;
            for event in &events {
                let index = event.data.u64() as usize;
                if !self.is_answered(index)? {
                    continue;
                }
                transactions += 1;
                if is_over {
                    in_flight -= 1;
                } else {
                    self.send(index)?;
                }
            }
        }
        Ok(sums(transactions, cpu_ns() - cpu_before_ns, now_ns() - begun_ns))
    }

    /// The client free for the longest sends at each arrival; one timer wakes for the next.
    fn run_at(mut self, rate: f64, length_ns: u64) -> io::Result<String> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        epoll::add(&self.epoll, timer.as_fd(), EventData::new_u64(TIMER), EventFlags::IN)?;
        let (begun_ns, cpu_before_ns) = (now_ns(), cpu_ns());
        let mut free: VecDeque<usize> = (0..self.streams.len()).collect();
        let mut events = Vec::with_capacity(1024);
        let (mut transactions, mut due_ns, mut armed_ns) = (0_u64, begun_ns, 0);
        while due_ns < begun_ns + length_ns || free.len() < self.streams.len() {
            let now_ns = now_ns();
            while due_ns <= now_ns && due_ns < begun_ns + length_ns && !free.is_empty() {
                let index = free.pop_front().expect("looked at");
                self.send(index)?;
                let uniform = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
                due_ns += (-(1.0 - uniform).ln() / rate * SECOND_NS as f64) as u64;
            }
            if armed_ns != due_ns && due_ns < begun_ns + length_ns {
                armed_ns = due_ns;
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                let it_value = Timespec {
                    tv_sec: (due_ns / SECOND_NS) as i64,
                    tv_nsec: (due_ns % SECOND_NS) as i64,
                };
                let spec = Itimerspec { it_interval: zero, it_value };
                timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
            }
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            for event in &events {
                match event.data.u64() {
                    // Read, or it would wake for ever once the last arrival is out.
                    TIMER => drop(rustix::io::read(&timer, &mut [0_u8; 8])),
                    index => {
                        if self.is_answered(index as usize)? {
                            transactions += 1;
                            free.push_back(index as usize);
                        }
                    }
                }
            }
        }
        Ok(sums(transactions, cpu_ns() - cpu_before_ns, now_ns() - begun_ns))
    }

    fn send(&mut self, index: usize) -> io::Result<()> {
        self.streams[index].write_all(request(&mut self.out, &mut self.random))
    }

    fn is_answered(&mut self, index: usize) -> io::Result<bool> {
        match self.streams[index].read(&mut self.input)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(self.input[..read].ends_with(&READY)),
        }
    }
}

fn sums(transactions: u64, cpu: u64, wall: u64) -> String {
    format!("{{\"transactions\": {transactions}, \"cpu_ns\": {cpu}, \"wall_ns\": {wall}}}")
}

/// Start up and prepare the statement.
fn connect(socket: &str) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let parameters = b"user\0pgdyno\0database\0pgdyno\0\0";
    let mut out = ((8 + parameters.len()) as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&196_608_u32.to_be_bytes());
    out.extend_from_slice(parameters);
    stream.write_all(&out)?;
    await_ready(&mut stream)?;
    out.clear();
    message(&mut out, b'P', |out| {
        out.extend_from_slice(STATEMENT);
        out.extend_from_slice(SQL.as_bytes());
        out.extend_from_slice(&[0; 3]);
    });
    message(&mut out, b'S', |_| {});
    stream.write_all(&out)?;
    await_ready(&mut stream)?;
    Ok(stream)
}

fn await_ready(stream: &mut UnixStream) -> io::Result<()> {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !seen.ends_with(&READY) {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => seen.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(())
}

/// Bind a random account as text, Describe, Execute, Sync.
fn request<'a>(out: &'a mut Vec<u8>, random: &mut u64) -> &'a [u8] {
    // xorshift64: as cheap as a generator can be.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let mut digits = [0; 20];
    let mut free = &mut digits[..];
    let _ = write!(free, "{}", *random % ACCOUNTS + 1);
    let length = 20 - free.len();
    out.clear();
    message(out, b'B', |out| {
        out.push(0);
        out.extend_from_slice(STATEMENT);
        out.extend_from_slice(&[0, 0, 0, 1]);
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&digits[..length]);
        out.extend_from_slice(&[0, 0]);
    });
    message(out, b'D', |out| out.extend_from_slice(b"P\0"));
    message(out, b'E', |out| out.extend_from_slice(&[0; 5]));
    message(out, b'S', |_| {});
    out
}

/// CPU time of this process, user and system.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
