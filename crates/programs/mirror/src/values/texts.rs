//! Texts between the bounds of a histogram.
//!
//! The texts of a bin begin with what its two bounds have in common. A few letters follow, which
//! make the texts different and ascending, then a filler gives each its length.

use std::collections::BTreeSet;

use pgdyno_script::Prng;

use super::filler::{Filler, Look};
use super::mixing::mixed;
use super::numbered::Values;
use super::segments::{Part, Segments};
use crate::distribution::Distribution;

const DIGITS: &[u8] = b"0123456789";
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const SMALL: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
/// Letters that can count: more would not fit into a position.
const LETTERS_MAX: usize = 10;

#[derive(Debug)]
pub(super) struct Texts {
    bins: Vec<Bin>,
    alphabet: Vec<u8>,
    filler: Filler,
    /// Words of a vocabulary, as frequent as they are in the texts of the source.
    words: Option<Values>,
    length_max: usize,
}

#[derive(Debug)]
struct Bin {
    prefix: Vec<u8>,
    letters: usize,
}

impl Texts {
    /// The texts of a distribution, and their segments.
    pub(super) fn of(distribution: &Distribution, words: Option<Values>) -> (Segments, Texts) {
        let alphabet = alphabet_of(distribution);
        let mut bounds: Vec<&[u8]> =
            distribution.bounds.iter().map(|bound| bound.as_bytes()).collect();
        bounds.sort_unstable();
        let last = [*alphabet.last().expect("an alphabet has letters"); LETTERS_MAX];
        if bounds.len() < 2 {
            // The few other values are between the common ones.
            let common = || distribution.hot.iter().map(|hot| hot.value.as_bytes());
            bounds.extend(common().min().into_iter().chain(common().max()));
            bounds.sort_unstable();
            bounds.dedup();
        }
        if bounds.len() < 2 {
            bounds = vec![b"", &last];
        }
        let mut hots: Vec<(&[u8], u32)> =
            (0..).zip(&distribution.hot).map(|(i, hot)| (hot.value.as_bytes(), i)).collect();
        hots.sort_unstable();
        let hot_share: f64 = distribution.hot.iter().map(|hot| hot.fraction).sum();
        let is_all_hot = !hots.is_empty() && hots.len() as f64 >= distribution.distinct.round();
        let rest =
            if is_all_hot { 0.0 } else { (1.0 - distribution.null_fraction - hot_share).max(0.0) };
        let bin_count = bounds.len() - 1;
        let wanted = (distribution.distinct / bin_count as f64).max(1.0);
        let (mut bins, mut parts, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut hots = hots.into_iter().peekable();
        for pair in bounds.windows(2) {
            while let Some((_, hot)) = hots.next_if(|&(text, _)| text <= pair[0]) {
                places.push((parts.len(), hot));
            }
            let (bin, low, high) = bin_between(pair[0], pair[1], wanted, &alphabet);
            // Common values within the bin cut it into parts.
            let mut cuts = vec![low];
            let first_part = parts.len();
            while let Some((text, hot)) = hots.next_if(|&(text, _)| text < pair[1]) {
                cuts.push(bin.number(text, &alphabet).clamp(*cuts.last().unwrap_or(&low), high));
                places.push((first_part + cuts.len() - 1, hot));
            }
            cuts.push(high);
            let width = (high - low).max(1) as f64;
            for cut in cuts.windows(2) {
                let share = (cut[1] - cut[0]) as f64 / width;
                let mass = rest / bin_count as f64 * if high > low { share } else { 1.0 };
                let span = (cut[1] - cut[0]).max(1) as u64;
                parts.push(Part {
                    bin: bins.len() as u32,
                    low: cut[0],
                    span,
                    mass,
                    is_last: false,
                });
            }
            bins.push(bin);
        }
        places.extend(hots.map(|(_, hot)| (parts.len(), hot)));
        let filler = Filler::of(distribution, look_of(distribution, &alphabet));
        let most = distribution.length.map_or(f64::INFINITY, |length| length.most);
        let length_max = if most.is_finite() { most as usize } else { usize::MAX };
        let segments = Segments::of_parts(distribution, parts, places);
        (segments, Texts { bins, alphabet, filler, words, length_max })
    }

    /// Append the text with this number, at this position of its bin.
    #[inline]
    pub(super) fn write(&self, bin: u32, position: i64, number: u64, out: &mut Vec<u8>) {
        let bin = &self.bins[bin as usize];
        let start = out.len();
        out.extend_from_slice(&bin.prefix);
        let base = self.alphabet.len() as u64;
        let mut rest = position.max(0) as u64;
        let mut letters = [0_u8; LETTERS_MAX];
        for letter in letters[..bin.letters].iter_mut().rev() {
            *letter = self.alphabet[(rest % base) as usize];
            rest /= base;
        }
        out.extend_from_slice(&letters[..bin.letters]);
        let length = self.filler.length(number).min(self.length_max);
        let written = out.len() - start;
        if length > written {
            match &self.words {
                Some(words) => self.write_words(words, length - written, number, out),
                None => self.filler.write(length - written, number, out),
            }
            // A space at the end would vanish in some types.
            if out.last() == Some(&b' ') {
                *out.last_mut().expect("not empty") = self.alphabet[0];
            }
        } else if written > self.length_max {
            out.truncate(start + self.length_max);
        }
    }
}

impl Texts {
    /// Append about `length` characters: words after spaces.
    fn write_words(&self, words: &Values, length: usize, number: u64, out: &mut Vec<u8>) {
        let mut random = Prng::from_seed(mixed(number ^ 0x77_6f72_6473));
        let end = out.len() + length;
        while out.len() + 1 < end {
            let start = out.len();
            if start > 0 {
                out.push(b' ');
            }
            words.draw(&mut random, out);
            if out.len() > end {
                // A part of a word would be a word that no text has.
                out.truncate(start);
                break;
            }
        }
    }
}

impl Bin {
    /// The letters of `text` after the prefix, as a number.
    fn number(&self, text: &[u8], alphabet: &[u8]) -> i64 {
        number_of(text.get(self.prefix.len()..).unwrap_or(b""), self.letters, alphabet)
    }
}

fn bin_between(low: &[u8], high: &[u8], wanted: f64, alphabet: &[u8]) -> (Bin, i64, i64) {
    let shared = low.iter().zip(high).take_while(|(left, right)| left == right).count();
    // A prefix ends between characters.
    let shared =
        (0..=shared).rev().find(|&end| std::str::from_utf8(&low[..end]).is_ok()).unwrap_or(0);
    let prefix = low[..shared].to_vec();
    for letters in 1..=LETTERS_MAX {
        let bin = Bin { prefix: prefix.clone(), letters };
        let (from, to) = (bin.number(low, alphabet), bin.number(high, alphabet));
        if (to - from) as f64 >= wanted * 4.0 || letters == LETTERS_MAX {
            return (bin, from, to.max(from));
        }
    }
    unreachable!("the loop returns at its last turn")
}

/// The first `letters` bytes of `text` as digits in the alphabet. A byte that is not in the
/// alphabet counts as the next smaller letter.
fn number_of(text: &[u8], letters: usize, alphabet: &[u8]) -> i64 {
    let digit = |byte: &u8| alphabet.partition_point(|letter| letter <= byte).saturating_sub(1);
    (0..letters).fold(0, |number, index| {
        let digit = text.get(index).map_or(0, digit);
        number * alphabet.len() as i64 + digit as i64
    })
}

/// The letters and digits that the known values use, by class.
fn alphabet_of(distribution: &Distribution) -> Vec<u8> {
    let used = used_bytes(distribution);
    let classes = [DIGITS, CAPITALS, SMALL];
    let is_used = |class: &&&[u8]| class.iter().any(|byte| used.contains(byte));
    let alphabet = classes.iter().filter(is_used).flat_map(|class| class.iter().copied());
    let alphabet: Vec<u8> = alphabet.collect();
    if alphabet.is_empty() { SMALL.to_vec() } else { alphabet }
}

fn used_bytes(distribution: &Distribution) -> BTreeSet<u8> {
    let known = distribution.bounds.iter().chain(distribution.hot.iter().map(|hot| &hot.value));
    known.flat_map(|text| text.bytes()).collect()
}

fn look_of(distribution: &Distribution, alphabet: &[u8]) -> Look {
    let used = used_bytes(distribution);
    match alphabet {
        DIGITS => Look::Digits,
        CAPITALS => Look::Capitals,
        _ if used.contains(&b' ') || used.is_empty() => Look::Prose,
        _ if alphabet.contains(&b'0') => Look::Code,
        _ => Look::Word,
    }
}
