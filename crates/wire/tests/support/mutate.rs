//! Changed copies of a corpus, from a fixed seed: a fuzz run that needs no special toolchain.

use std::path::Path;
use std::time::{Duration, Instant};

/// Seconds of one run, unless the variable says otherwise; `make prove` asks for more.
const SECONDS: u64 = 1;
const VARIABLE: &str = "PGDYNO_FUZZ_SECONDS";
/// Bytes that mean something to either language.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xffZETDCRSN;:\\'\"$()-*/ \n1";

/// The texts of a corpus, by name, so that every machine has them in one order.
pub(crate) fn corpus(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a corpus").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// Call `check` with the corpus and then with changed copies of it for the time of a run.
///
/// Returns: how many copies there were, at least a hundred.
pub(crate) fn run(corpus: &[Vec<u8>], seed: u64, mut check: impl FnMut(&[u8])) -> u64 {
    corpus.iter().for_each(|bytes| check(bytes));
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS));
    let mut random = Random(seed);
    let mut count = 0;
    while count < 100 || Instant::now() < until {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(4) {
            change(&mut bytes, corpus, &mut random);
        }
        bytes.truncate(1 << 16);
        check(&bytes);
        count += 1;
    }
    count
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let place = random.below(bytes.len() + 1);
    let length = random.below(16).min(bytes.len() - place);
    match random.below(7) {
        0 if place < bytes.len() => bytes[place] ^= 1 << random.below(8),
        1 if place < bytes.len() => bytes[place] = TELLING[random.below(TELLING.len())],
        2 => bytes.insert(place, TELLING[random.below(TELLING.len())]),
        3 => drop(bytes.drain(place..place + length)),
        4 => {
            let copy = bytes[place..place + length].to_vec();
            bytes.splice(place..place, copy);
        }
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            bytes.truncate(place);
            bytes.extend_from_slice(&other[from..]);
        }
        // Four bytes that may be a length.
        _ => {
            let number = [0, 3, 4, 5, 1 << 16, 1 << 30, (1 << 31) - 1, u32::MAX][random.below(8)];
            let end = (place + 4).min(bytes.len());
            bytes.splice(place..end, u32::to_be_bytes(number));
        }
    }
}

/// xorshift64*: enough to change bytes, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}
