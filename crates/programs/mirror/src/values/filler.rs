//! Text and bytes that give a value its length.

use std::sync::OnceLock;

use super::mixing::{length_of, mixed};
use crate::distribution::{Distribution, Spread};

const POOL_SIZE: usize = 1 << 16;
/// The number of words is that of a small vocabulary, so that text compresses as prose does.
const WORDS: usize = 1200;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// What the values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Words with spaces between them.
    Prose,
    /// Words without spaces.
    Word,
    Digits,
    /// Letters and digits in random order, as in codes and hashes.
    Code,
    Capitals,
}

/// Gives values their lengths, and fills them.
#[derive(Debug)]
pub(super) struct Filler {
    lengths: Lengths,
    look: Look,
}

#[derive(Debug)]
enum Lengths {
    /// Lengths of known values times a factor: each with the same frequency.
    Known {
        lengths: Vec<u32>,
        factor: f64,
    },
    Spread(Spread),
}

impl Filler {
    pub(super) fn of(distribution: &Distribution, look: Look) -> Filler {
        Filler { lengths: lengths_of(distribution, |text| text.len()), look }
    }

    pub(super) fn of_bytes(distribution: &Distribution) -> Filler {
        // `\x` and two digits a byte.
        let lengths = lengths_of(distribution, |text| text.len().saturating_sub(2) / 2);
        Filler { lengths, look: Look::Code }
    }

    /// The length of the value with this number.
    #[inline]
    pub(super) fn length(&self, number: u64) -> usize {
        match &self.lengths {
            Lengths::Known { lengths, factor } => {
                let random = mixed(number ^ 0x5bd1_e995);
                let index = ((random >> 32) * lengths.len() as u64) >> 32;
                (f64::from(lengths[index as usize]) * factor + 0.5) as usize
            }
            Lengths::Spread(spread) => (length_of(spread, number) + 0.5) as usize,
        }
    }

    /// Append `length` characters that depend on `number`.
    #[inline]
    pub(super) fn write(&self, mut length: usize, number: u64, out: &mut Vec<u8>) {
        let pool = pool(self.look);
        let mut at = (mixed(number) >> 40) as usize % POOL_SIZE;
        while length > 0 {
            let piece = length.min(POOL_SIZE - at);
            out.extend_from_slice(&pool[at..at + piece]);
            length -= piece;
            at = 0;
        }
    }

    /// Append `\x` and the digits of bytes that begin with those of `first`.
    pub(super) fn write_bytes(&self, first: u64, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\\x");
        let (mut word, mut random) = (first, mixed(number));
        for index in 0..self.length(number) {
            if index > 0 && index % 8 == 0 {
                word = random;
                random = mixed(random);
            }
            let byte = (word >> (56 - 8 * (index % 8))) as usize & 255;
            out.extend_from_slice(&[HEX[byte >> 4], HEX[byte & 15]]);
        }
    }
}

/// Lengths of the values that are not common: as those of the bounds, with the mean that `width`
/// demands.
fn lengths_of(distribution: &Distribution, length: impl Fn(&str) -> usize) -> Lengths {
    let (mut hot_bytes, mut hot_share) = (0.0, 0.0);
    for hot in &distribution.hot {
        hot_bytes += hot.fraction * length(&hot.value) as f64;
        hot_share += hot.fraction;
    }
    let rest = 1.0 - distribution.null_fraction - hot_share;
    let lengths: Vec<u32> = distribution.bounds.iter().map(|text| length(text) as u32).collect();
    let known_mean =
        lengths.iter().map(|l| f64::from(*l)).sum::<f64>() / lengths.len().max(1) as f64;
    let not_null = 1.0 - distribution.null_fraction;
    let mean = match distribution.width > 0.0 && rest > 1e-6 {
        true => ((distribution.width * not_null - hot_bytes) / rest).max(1.0),
        false if known_mean > 0.0 => known_mean,
        false => 8.0,
    };
    if let Some(spread) = distribution.length
        && spread.least == spread.most
    {
        return Lengths::Spread(spread);
    }
    if known_mean > 0.0 && lengths.len() >= 8 {
        return Lengths::Known { lengths, factor: mean / known_mean };
    }
    Lengths::Spread(Spread { least: mean * 0.5, mean, most: mean * 1.5 })
}

fn pool(look: Look) -> &'static [u8] {
    static POOLS: [OnceLock<Vec<u8>>; 5] = [const { OnceLock::new() }; 5];
    POOLS[look as usize].get_or_init(|| made(look))
}

/// A pool of text, the same in every process.
fn made(look: Look) -> Vec<u8> {
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = mixed(random);
        ((random >> 32) as usize * below) >> 32
    };
    let letters: &[u8] = match look {
        Look::Digits => b"0123456789",
        Look::Code => b"abcdefghijklmnopqrstuvwxyz0123456789",
        Look::Capitals => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        Look::Prose | Look::Word => b"aaaaabcddeeeeeeefghiiiilmnnnnoooopqrrrsssttttuuvwxyz",
    };
    if !matches!(look, Look::Prose | Look::Word) {
        return (0..POOL_SIZE).map(|_| letters[next(letters.len())]).collect();
    }
    let words: Vec<Vec<u8>> = (0..WORDS)
        .map(|_| (0..2 + next(4) + next(5)).map(|_| letters[next(letters.len())]).collect())
        .collect();
    let mut text = Vec::with_capacity(POOL_SIZE + 16);
    while text.len() < POOL_SIZE {
        // Few words are frequent: the product of two draws prefers small indices.
        let word = &words[next(WORDS) * next(WORDS) / WORDS];
        text.extend_from_slice(word);
        if look == Look::Prose {
            text.push(b' ');
        }
    }
    text.truncate(POOL_SIZE);
    text
}
