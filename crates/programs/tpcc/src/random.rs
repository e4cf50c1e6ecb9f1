//! Random numbers and text of TPC-C from a seed that names a place: the same place has the same
//! data, at any time and from any caller.

/// SplitMix64: quick, and as good as data for a load need.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Letters and digits, two of them twice so that six bits choose one.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyzaZ";

impl Random {
    /// The stream of a place: a table, a warehouse and a district, say.
    pub fn of(seed: u64, place: [u32; 4]) -> Random {
        let mut random = Random(seed);
        for part in place {
            random.0 = random.bits().wrapping_add(u64::from(part));
        }
        random
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `low..=high`.
    #[inline]
    pub fn within(&mut self, low: u32, high: u32) -> u32 {
        let range = u64::from(high - low) + 1;
        low + (((self.bits() >> 32) * range) >> 32) as u32
    }

    /// Not uniform in `low..=high` (clause 2.1.6).
    #[inline]
    pub fn nurand(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let mixed = self.within(0, a) | self.within(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// Append `least..=most` random letters and digits.
    #[inline]
    pub fn push_text(&mut self, out: &mut Vec<u8>, least: u32, most: u32) {
        let length = if least == most { least } else { self.within(least, most) };
        let mut left = length as usize;
        while left > 0 {
            let bits = self.bits();
            let count = left.min(10);
            let letters: [u8; 10] =
                std::array::from_fn(|index| ALPHABET[(bits >> (6 * index)) as usize & 63]);
            out.extend_from_slice(&letters[..count]);
            left -= count;
        }
    }

    /// Append `length` random digits.
    pub fn push_digits(&mut self, out: &mut Vec<u8>, length: u32) {
        for _ in 0..length {
            out.push(b'0' + self.within(0, 9) as u8);
        }
    }

    /// Numbers `1..=count` in random order.
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=count).collect();
        for last in (1..count).rev() {
            numbers.swap(last as usize, self.within(0, last) as usize);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_their_range_and_a_permutation_has_each_once() {
        let mut random = Random::of(1, [1, 2, 3, 4]);
        let mut seen = [false; 11];
        for _ in 0..1000 {
            seen[random.within(5, 15) as usize - 5] = true;
            assert!((1..=3000).contains(&random.nurand(1023, 77, 1, 3000)));
        }
        assert_eq!(seen, [true; 11]);
        let mut numbers = random.permutation(3000);
        assert_ne!(numbers[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3000));
    }

    #[test]
    fn places_have_streams_of_their_own() {
        let first = |place| Random::of(7, place).bits();
        assert_ne!(first([1, 1, 2, 0]), first([1, 2, 1, 0]));
        assert_eq!(first([1, 1, 2, 0]), first([1, 1, 2, 0]));
    }
}
