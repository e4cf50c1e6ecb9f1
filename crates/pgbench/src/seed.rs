//! `--random-seed` and `PGBENCH_RANDOM_SEED`.

use std::fs::File;
use std::io::Read;

use super::say::{self, Fault, fault};
use pgdyno_engine::contract::job::ClockPair;

const VARIABLE: &str = "PGBENCH_RANDOM_SEED";

/// Refuse a seed that is neither `time`, `rand` nor a number.
pub(super) fn check(word: &str) -> Result<(), Fault> {
    seed_of(word).map(|_| ())
}

/// Return the seed of this run. As pgbench, it prints a given seed on standard error, and the seed
/// of the variable even if the option replaces it.
pub(super) fn choose(option: Option<&str>) -> Result<u64, Fault> {
    let variable = std::env::var(VARIABLE).ok();
    let from_variable = variable.as_deref().map(seed_of).transpose().map_err(|fault| {
        fault.and(format!("error while setting random seed from {VARIABLE} environment variable"))
    })?;
    let from_option = option.map(seed_of).transpose()?;
    for seed in [from_variable, from_option].into_iter().flatten() {
        say::info(format!("setting random seed to {seed}"));
    }
    Ok(from_option.or(from_variable).unwrap_or_else(time_seed))
}

fn seed_of(word: &str) -> Result<u64, Fault> {
    match word {
        "time" => Ok(time_seed()),
        "rand" => {
            let mut bytes = [0; 8];
            let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
            read.map_err(|_| fault("could not generate random seed"))?;
            Ok(u64::from_ne_bytes(bytes))
        }
        number => unsigned(number).ok_or_else(|| {
            fault(format!("unrecognized random seed option \"{word}\""))
                .detail("Expecting an unsigned integer, \"time\" or \"rand\".")
        }),
    }
}

/// Read a number as C's `strtoul`: spaces and a sign may come first, and a minus wraps around.
fn unsigned(text: &str) -> Option<u64> {
    let text = text.trim_start();
    match text.strip_prefix('-') {
        Some(digits) => digits.parse::<u64>().ok().map(u64::wrapping_neg),
        None => text.strip_prefix('+').unwrap_or(text).parse().ok(),
    }
}

/// Return a seed from the clock, in microseconds.
fn time_seed() -> u64 {
    ClockPair::now().unix_ns / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_seed_wraps_around() {
        assert_eq!(unsigned("-1"), Some(u64::MAX));
        assert_eq!(unsigned(" 5432"), Some(5432));
        assert_eq!(unsigned("5x"), None);
    }
}
