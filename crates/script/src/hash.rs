//! The hash and permutation functions of the script language.

use crate::prng::Prng;

const FNV_PRIME: u64 = 0x100_0000_01b3;
const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const MURMUR_MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const MURMUR_ROTATION: u32 = 47;

/// Returns the FNV-1a hash of the eight bytes of `value`, lowest first.
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let start = FNV_OFFSET_BASIS ^ seed as u64;
    let hashed = value
        .to_le_bytes()
        .iter()
        .fold(start, |hash, &octet| (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME));
    hashed as i64
}

/// Returns the MurmurHash2 (64 bit) of the eight bytes of `value`.
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    let mut key = (value as u64).wrapping_mul(MURMUR_MULTIPLIER);
    key ^= key >> MURMUR_ROTATION;
    key = key.wrapping_mul(MURMUR_MULTIPLIER);

    // Eight is the length of what is hashed, in bytes.
    let mut hash = seed as u64 ^ MURMUR_MULTIPLIER.wrapping_mul(8);
    hash = (hash ^ key).wrapping_mul(MURMUR_MULTIPLIER);
    hash ^= hash >> MURMUR_ROTATION;
    hash = hash.wrapping_mul(MURMUR_MULTIPLIER);
    hash ^= hash >> MURMUR_ROTATION;
    hash as i64
}

/// Returns where `value` modulo `size` goes in the permutation of `0..size` chosen by `seed`.
///
/// Args: `size >= 1`.
/// Source: pgbench's `permute`: six rounds, each a multiplication, an exclusive or and a rotation
/// of the lower and of the upper 2^n values, then an offset; every step is a bijection.
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    assert!(size >= 1, "permute needs a size of at least 1, got {size}");
    if size == 1 {
        return 0;
    }
    let mut prng = Prng::from_seed(seed as u64);
    let size = size as u64;
    // A negative value counts as its two's complement, as in pgbench.
    let mut place = value as u64 % size;
    let mask_bits = size.ilog2();
    let mask = (1u64 << mask_bits) - 1;
    for _ in 0..6 {
        let lower = RoundKey::draw(&mut prng, mask);
        if place <= mask {
            place = lower.mix(place, mask, mask_bits);
        }
        let upper = RoundKey::draw(&mut prng, mask);
        let mirrored = size - 1 - place;
        if mirrored <= mask {
            place = size - 1 - upper.mix(mirrored, mask, mask_bits);
        }
        let offset = prng.offset(size - 1);
        // Subtle: both are below 2^63, so the sum cannot wrap.
        place = (place + offset) % size;
    }
    place as i64
}

/// The two random words of one half of a round.
struct RoundKey {
    multiplier: u64,
    flips: u64,
}

impl RoundKey {
    fn draw(prng: &mut Prng, mask: u64) -> Self {
        let multiplier = (prng.next_u64() & mask) | 1;
        Self { multiplier, flips: prng.next_u64() & mask }
    }

    fn mix(&self, place: u64, mask: u64, mask_bits: u32) -> u64 {
        let mixed = (place.wrapping_mul(self.multiplier) ^ self.flips) & mask;
        ((mixed << 1) & mask) | (mixed >> (mask_bits - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_values_in_pgbenchs_own_tests() {
        assert_eq!(hash_murmur2(10, 5432), -5_817_877_081_768_721_676);
        assert_eq!(hash_fnv1a(10, 5432), -7_793_829_335_365_542_153);
    }

    #[test]
    fn permute_is_a_bijection_for_every_small_size() {
        for size in 1..=70 {
            for seed in [0, 1, -1, i64::MIN, 5432] {
                let mut seen: Vec<i64> =
                    (0..size).map(|value| permute(value, size, seed)).collect();
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..size), "size {size}, seed {seed}");
            }
        }
    }

    #[test]
    fn permute_stays_inside_the_largest_size() {
        for value in [0, 1, i64::MAX - 1, -1, i64::MIN] {
            assert!((0..i64::MAX).contains(&permute(value, i64::MAX, 7)));
        }
    }
}
