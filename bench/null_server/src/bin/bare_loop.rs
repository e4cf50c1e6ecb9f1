//! `pgdyno-bare-loop SOCKET CLIENTS SECONDS`: what a client of prepared select-only cannot omit.
//!
//! One thread: epoll_wait, recv, send of the bytes an engine sends (Bind, Describe, Execute, Sync
//! with a random account), until ReadyForQuery. No histogram, no clock per transaction, no script.
//! It prints its transactions, CPU and time as one JSON line; the engine's CPU is held against it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use pgdyno_null_server::clock::now_ns;
use pgdyno_null_server::reply::message;
use rustix::event::epoll::{self, EventData, EventFlags};

const SQL: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;";
const STATEMENT: &[u8] = b"P0_0\0";
const ACCOUNTS: u64 = 1_000_000;
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (Some(socket), &[clients, seconds]) = (arguments.first(), &numbers[..]) else {
        let _ = writeln!(io::stderr(), "usage: pgdyno-bare-loop SOCKET CLIENTS SECONDS");
        return ExitCode::from(1);
    };
    match run(socket, clients as usize, seconds * 1_000_000_000) {
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

fn run(socket: &str, clients: usize, length_ns: u64) -> io::Result<String> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut streams = Vec::with_capacity(clients);
    for index in 0..clients {
        let stream = connect(socket)?;
        stream.set_nonblocking(true)?;
        epoll::add(&epoll, stream.as_fd(), EventData::new_u64(index as u64), EventFlags::IN)?;
        streams.push(stream);
    }
    let (mut random, mut out, mut input) = (88_172_645_463_325_252_u64, Vec::new(), [0; 4096]);
    let (begun_ns, cpu_before_ns) = (now_ns(), cpu_ns());
    for stream in &mut streams {
        stream.write_all(request(&mut out, &mut random))?;
    }
    let mut events = Vec::with_capacity(1024);
    let (mut transactions, mut in_flight, mut is_over) = (0_u64, clients, false);
    while in_flight > 0 {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        is_over |= now_ns() - begun_ns >= length_ns;
        for event in &events {
            let stream = &mut streams[event.data.u64() as usize];
            let read = stream.read(&mut input)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !input[..read].ends_with(&READY) {
                continue;
            }
            transactions += 1;
            if is_over {
                in_flight -= 1;
            } else {
                stream.write_all(request(&mut out, &mut random))?;
            }
        }
    }
    let (cpu, wall) = (cpu_ns() - cpu_before_ns, now_ns() - begun_ns);
    Ok(format!("{{\"transactions\": {transactions}, \"cpu_ns\": {cpu}, \"wall_ns\": {wall}}}"))
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
