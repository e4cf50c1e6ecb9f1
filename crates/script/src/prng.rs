//! The random generator of pgbench 15 and later, and the distributions its scripts draw from.
//!
//! Every function draws in the order and number pgbench draws, so that one seed gives one stream
//! in both programs. `tests/golden.rs` holds them against the real pgbench.

use std::f64::consts::PI;

/// Smallest parameter of `random_gaussian`.
pub const GAUSSIAN_PARAMETER_MIN: f64 = 2.0;
/// Smallest parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MIN: f64 = 1.001;
/// Largest parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MAX: f64 = 1000.0;

/// xoroshiro128** 1.0 with its state of two words.
///
/// Copying it saves the state: a retried transaction starts again from the copy.
///
/// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prng {
    s0: u64,
    s1: u64,
}

impl Prng {
    /// Returns the generator whose state is the first two outputs of splitmix64 from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        let s0 = splitmix64(&mut state);
        let s1 = splitmix64(&mut state);
        if s0 == 0 && s1 == 0 {
            // All zeros is a fixed point of the generator; these are the words PostgreSQL takes.
            return Self { s0: 0x5851_F42D_4C95_7F2D, s1: 0x1405_7B7E_F767_814F };
        }
        Self { s0, s1 }
    }

    /// Draws 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s0 = self.s0;
        let mixed = self.s1 ^ s0;
        let value = s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.s0 = s0.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.s1 = mixed.rotate_left(37);
        value
    }

    /// Draws uniformly from 0 to `range`, both included; draws nothing when `range` is 0.
    ///
    /// Bits above the highest bit of `range` are cut off and values beyond it drawn again.
    #[inline]
    pub fn offset(&mut self, range: u64) -> u64 {
        if range == 0 {
            return 0;
        }
        let shift = range.leading_zeros();
        loop {
            let value = self.next_u64() >> shift;
            if value <= range {
                return value;
            }
        }
    }

    /// Draws uniformly from 0 (included) to 1 (excluded), in steps of 2^-52.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        // 52 bits convert to a double exactly, and scaling by a power of two is exact too.
        (self.next_u64() >> 12) as f64 * (1.0 / (1u64 << 52) as f64)
    }

    /// Draws uniformly from `min` to `max`, both included. `max - min` must not overflow.
    #[inline]
    pub fn uniform(&mut self, min: i64, max: i64) -> i64 {
        min.wrapping_add(self.offset(max.wrapping_sub(min) as u64) as i64)
    }

    /// Draws from a normal distribution cut off `parameter` standard deviations from the middle.
    ///
    /// Args: `min <= max`, whose distance plus one fits; `parameter >= GAUSSIAN_PARAMETER_MIN`.
    pub fn gaussian(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let deviation = loop {
            let deviation = self.normal();
            if !(deviation < -parameter || deviation >= parameter) {
                break deviation;
            }
        };
        scale(min, max, (deviation + parameter) / (parameter * 2.0))
    }

    /// Draws from an exponential distribution cut off where its density is exp(-`parameter`).
    ///
    /// Args: `min <= max`, whose distance plus one fits; `parameter > 0`.
    pub fn exponential(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.unit();
        scale(min, max, -(cut + (1.0 - cut) * uniform).ln() / parameter)
    }

    /// Draws from a Zipfian distribution: `min` most often, then `min + 1`, and so on.
    ///
    /// Args: `min <= max`, whose distance plus one fits; `parameter` within the two constants.
    /// Source: rejection method of Devroye, "Non-Uniform Random Variate Generation", 1986, p. 551.
    /// Limits: slow when `parameter` is close to 1.
    pub fn zipfian(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let count = max.wrapping_sub(min).wrapping_add(1);
        if count <= 1 {
            return min;
        }
        let exponent = parameter - 1.0;
        let b = 2.0_f64.powf(exponent);
        loop {
            let u = self.unit();
            let v = self.unit();
            let x = u.powf(-1.0 / exponent).floor();
            let t = (1.0 + 1.0 / x).powf(exponent);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count as f64 {
                return min.wrapping_sub(1).wrapping_add(x as i64);
            }
        }
    }

    /// Draws from the standard normal distribution (Box-Muller, one of its two values).
    fn normal(&mut self) -> f64 {
        let u1 = 1.0 - self.unit();
        let u2 = 1.0 - self.unit();
        (-2.0 * u1.ln()).sqrt() * (2.0 * PI * u2).sin()
    }
}

/// Returns the place of `fraction` (0 included to 1 excluded) in `min..=max`.
fn scale(min: i64, max: i64, fraction: f64) -> i64 {
    let count = max.wrapping_sub(min).wrapping_add(1);
    min.wrapping_add((count as f64 * fraction) as i64)
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_first_outputs_of_splitmix64() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn an_empty_range_draws_nothing() {
        let mut prng = Prng::from_seed(1);
        let before = prng;
        assert_eq!(prng.uniform(7, 7), 7);
        assert_eq!(prng, before);
    }

    #[test]
    fn draws_stay_inside_their_range() {
        let mut prng = Prng::from_seed(42);
        for _ in 0..10_000 {
            assert!((-5..=5).contains(&prng.uniform(-5, 5)));
            assert!((1..=10).contains(&prng.gaussian(1, 10, 2.0)));
            assert!((1..=10).contains(&prng.exponential(1, 10, 0.5)));
            assert!((1..=10).contains(&prng.zipfian(1, 10, 1.5)));
            assert!((0.0..1.0).contains(&prng.unit()));
        }
    }

    #[test]
    fn the_widest_range_does_not_overflow() {
        let mut prng = Prng::from_seed(3);
        for _ in 0..100 {
            assert!(prng.uniform(0, i64::MAX - 1) >= 0);
            assert!(prng.uniform(i64::MIN, -2) <= -2);
        }
    }
}
