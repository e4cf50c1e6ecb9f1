//! `pgdyno-bystander BYTES SECONDS`: what others on its cores cost a program beyond their own time.
//!
//! On each core a thread reads its memory over and over, in units of a tenth of a millisecond or
//! so, and logs the CPU time of each and whether the core was given to somebody else meanwhile.
//! Whoever ran then has filled caches with memory of its own, so this unit and the next cost more
//! than their neighbours do. Neighbours lie within milliseconds of it: a machine whose speed
//! changes from second to second changes nothing here.
//!
//! The memory is in huge pages where there are any: a backend of a busy server finds no address of
//! its own translated whenever its turn comes, with telemetry or without, so what is lost of that
//! does not count. It prints the totals of all cores as one JSON line.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

use pgdyno_null_server::clock::now_ns;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

const SECOND_NS: u64 = 1_000_000_000;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const LINE_WORDS: usize = 8;
/// One unit reads so many cache lines: those of a memory of a few megabytes once or twice.
const UNIT_LINES: usize = 150_000;
/// The unit in which somebody else ran, and those after it that may still find caches filled.
const TOUCHED_UNITS: usize = 3;
/// As many on each side are what a unit costs now.
const NEIGHBOURS: usize = 20;
/// Each so-manieth place without an interruption shows what the estimate gives for nothing.
const PLACEBO_STEP: usize = 37;

/// What some units cost more than their neighbours, ns.
#[derive(Clone, Copy, Default)]
struct Lost {
    units: usize,
    sum_ns: f64,
}

impl Lost {
    fn add(&mut self, costs_ns: &[f32], usual_ns: f64) {
        self.units += costs_ns.len();
        self.sum_ns += costs_ns.iter().map(|cost_ns| f64::from(*cost_ns) - usual_ns).sum::<f64>();
    }

    /// The sum, less what so many units have without an interruption.
    fn beyond_ns(self, placebo: Lost) -> f64 {
        self.sum_ns - placebo.sum_ns / placebo.units.max(1) as f64 * self.units as f64
    }
}

#[derive(Default)]
struct Log {
    cost_ns: Vec<f32>,
    is_interrupted: Vec<bool>,
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let [bytes, seconds] = numbers[..] else {
        let _ = writeln!(io::stderr(), "usage: pgdyno-bystander BYTES SECONDS");
        return ExitCode::from(1);
    };
    match on_every_core(bytes as usize, seconds * SECOND_NS) {
        Ok(line) => {
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "pgdyno-bystander: {error}");
            ExitCode::from(2)
        }
    }
}

fn on_every_core(bytes: usize, length_ns: u64) -> io::Result<String> {
    let allowed = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let threads: Vec<_> =
        cores.map(|core| std::thread::spawn(move || run(core, bytes, length_ns))).collect();
    let (mut units, mut interruptions, mut lost_ns) = (0, 0, 0.0);
    for thread in threads {
        let log = thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
        let (interrupted, placebo) = log.lost();
        units += log.cost_ns.len();
        interruptions += log.is_interrupted.iter().filter(|is_so| **is_so).count();
        lost_ns += interrupted.beyond_ns(placebo);
    }
    Ok(format!(
        "{{\"units\": {units}, \"interruptions\": {interruptions}, \"lost_ns\": {lost_ns:.0}}}"
    ))
}

fn run(core: usize, bytes: usize, length_ns: u64) -> io::Result<Log> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)?;
    let memory = memory(bytes)?;
    let schedstat = File::open("/proc/thread-self/schedstat")?;
    let mut log = Log::default();
    let end_ns = now_ns() + length_ns;
    let (mut cpu_ns, mut turns) = (thread_cpu_ns(), turns_of(&schedstat)?);
    while now_ns() < end_ns {
        read(memory);
        let (cpu_now_ns, turns_now) = (thread_cpu_ns(), turns_of(&schedstat)?);
        log.cost_ns.push((cpu_now_ns - cpu_ns) as f32);
        log.is_interrupted.push(turns_now != turns);
        (cpu_ns, turns) = (cpu_now_ns, turns_now);
    }
    Ok(log)
}

/// Memory that is all there, in huge pages if the kernel gives them.
fn memory(bytes: usize) -> io::Result<&'static [u64]> {
    let length = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice, kept until the program ends.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, flags.0, flags.1)? };
    let skipped = mapped.align_offset(HUGE_PAGE_BYTES);
    // SAFETY: `length` has room for `skipped`, below one huge page, and for `bytes`.
    let aligned = unsafe { mapped.byte_add(skipped) };
    let whole = bytes.next_multiple_of(HUGE_PAGE_BYTES);
    // SAFETY: within the mapping. A kernel without huge pages refuses: then pages are small.
    let _ = unsafe { madvise(aligned, whole, Advice::LinuxHugepage) };
    // SAFETY: within the mapping, aligned to 2 MiB, zeroed by the kernel, and nobody else's.
    let words = unsafe { std::slice::from_raw_parts_mut(aligned.cast::<u64>(), bytes / 8) };
    words.fill(1);
    Ok(words)
}

fn read(memory: &[u64]) {
    let mut lines_left = UNIT_LINES;
    while lines_left > 0 {
        let words = memory.len().min(lines_left * LINE_WORDS);
        let sum: u64 = memory[..words].iter().step_by(LINE_WORDS).sum();
        black_box(sum);
        lines_left -= words.div_ceil(LINE_WORDS);
    }
}

fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as u64 * SECOND_NS + spent.tv_nsec as u64
}

/// How often this thread was given a core: the last number of schedstat.
fn turns_of(schedstat: &File) -> io::Result<u64> {
    let mut text = [0; 128];
    let length = schedstat.read_at(&mut text, 0)?;
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let last = text.split_ascii_whitespace().next_back().and_then(|word| word.parse().ok());
    last.ok_or_else(|| io::Error::other("this kernel has no schedstat"))
}

impl Log {
    /// What interruptions made units cost, and what the same estimate gives where there was none.
    fn lost(&self) -> (Lost, Lost) {
        let (mut interrupted, mut placebo) = (Lost::default(), Lost::default());
        let mut place = NEIGHBOURS;
        while place + TOUCHED_UNITS + NEIGHBOURS <= self.cost_ns.len() {
            let end = self.touched_until(place);
            let around = place - NEIGHBOURS..(end + NEIGHBOURS).min(self.cost_ns.len());
            let is_calm = || !self.is_interrupted[around.clone()].contains(&true);
            let lost = if self.is_interrupted[place] {
                &mut interrupted
            } else if place.is_multiple_of(PLACEBO_STEP) && is_calm() {
                &mut placebo
            } else {
                place += 1;
                continue;
            };
            if let Some(usual_ns) = self.usual_ns(place, end) {
                lost.add(&self.cost_ns[place..end], usual_ns);
            }
            place = end;
        }
        (interrupted, placebo)
    }

    /// Where the units end that what happened at a place may have touched: others may have run
    /// again in one of them.
    fn touched_until(&self, place: usize) -> usize {
        let (mut end, mut at) = (place + TOUCHED_UNITS, place);
        while at < end {
            if at > place && self.is_interrupted[at] {
                end = (at + TOUCHED_UNITS).min(self.cost_ns.len());
            }
            at += 1;
        }
        end
    }

    /// The mean of the middle half of the neighbours; None where most were interrupted themselves.
    fn usual_ns(&self, place: usize, end: usize) -> Option<f64> {
        let after = end..(end + NEIGHBOURS).min(self.cost_ns.len());
        let mut costs: Vec<f32> = (place - NEIGHBOURS..place)
            .chain(after)
            .filter(|at| !self.is_interrupted[*at])
            .map(|at| self.cost_ns[at])
            .collect();
        if costs.len() < NEIGHBOURS {
            return None;
        }
        costs.sort_unstable_by(f32::total_cmp);
        let middle = &costs[costs.len() / 4..costs.len() - costs.len() / 4];
        Some(middle.iter().map(|cost_ns| f64::from(*cost_ns)).sum::<f64>() / middle.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(extra_ns: f32, every: usize) -> Log {
        // The machine halves its speed in the middle; interrupted units and the next cost more.
        let mut log = Log::default();
        for unit in 0..100_000 {
            let usual_ns = if unit < 50_000 { 100_000.0 } else { 200_000.0 };
            let jitter_ns = ((unit * 7919) % 101) as f32 * 10.0;
            let after = unit % every;
            let extra = if after == 0 {
                extra_ns
            } else if after == 1 {
                extra_ns / 2.0
            } else {
                0.0
            };
            log.cost_ns.push(usual_ns + jitter_ns + extra);
            log.is_interrupted.push(after == 0);
        }
        log
    }

    #[test]
    fn what_an_interruption_costs_is_found_beside_a_speed_that_changes() {
        let (interrupted, placebo) = log(60_000.0, 100).lost();
        assert!(interrupted.units > 990 * TOUCHED_UNITS, "{}", interrupted.units);
        let each_ns = interrupted.beyond_ns(placebo) / (interrupted.units / TOUCHED_UNITS) as f64;
        assert!((89_000.0..91_000.0).contains(&each_ns), "{each_ns}");
    }

    #[test]
    fn units_that_two_interruptions_touch_count_once() {
        let mut log = log(0.0, 100_000);
        for (place, extra_ns) in [(1000, 40_000.0), (1001, 40_000.0), (1003, 40_000.0)] {
            log.cost_ns[place] += extra_ns;
            log.is_interrupted[place] = true;
        }
        let (interrupted, placebo) = log.lost();
        assert_eq!(interrupted.units, 6);
        let lost_ns = interrupted.beyond_ns(placebo);
        // Six units, each with up to 1 us of jitter.
        assert!((117_000.0..123_000.0).contains(&lost_ns), "{lost_ns}");
    }

    #[test]
    fn what_costs_nothing_is_told_as_nothing() {
        let (interrupted, placebo) = log(0.0, 100).lost();
        let each_ns = interrupted.beyond_ns(placebo) / interrupted.units as f64;
        assert!(each_ns.abs() < 200.0, "{each_ns}");
    }

    #[test]
    fn nothing_is_told_of_a_log_too_short() {
        let (interrupted, placebo) = Log::default().lost();
        assert_eq!(interrupted.beyond_ns(placebo), 0.0);
    }
}
