//! Sizes, last names and non-uniform random numbers that load and run of the TPC-C-like workload
//! must agree on.
//!
//! Source: TPC-C specification, revision 5.11, clauses 1.2.1, 2.1.6, 4.3.2 and 4.3.3.

use pgdyno_script::Prng;

pub const ITEMS: u32 = 100_000;
pub const DISTRICTS_PER_WAREHOUSE: u32 = 10;
pub const CUSTOMERS_PER_DISTRICT: u32 = 3000;
/// Loaded orders of a district; one for each customer.
pub const ORDERS_PER_DISTRICT: u32 = 3000;
/// The first order of a district that is not delivered yet.
pub const FIRST_OPEN_ORDER: u32 = 2101;
/// A district has this many different last names.
pub const LAST_NAMES: u32 = 1000;

/// NURand's A for last names (clause 2.1.6), customers and items.
pub const A_LAST_NAME: u32 = 255;
pub const A_CUSTOMER: u32 = 1023;
pub const A_ITEM: u32 = 8191;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name with this number, 0..=999: a syllable for each digit (clause 4.3.2.3).
pub fn push_last_name(out: &mut Vec<u8>, number: u32) {
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        out.extend_from_slice(SYLLABLES[digit as usize].as_bytes());
    }
}

/// True if a run may use `run` as NURand's C for last names after a load with `load`.
pub fn is_c_last_allowed(load: u32, run: u32) -> bool {
    let delta = run.abs_diff(load);
    run <= A_LAST_NAME && (65..=119).contains(&delta) && delta != 96 && delta != 112
}

/// The constants C of the non-uniform random numbers, the same for a whole run (2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    pub c_last: u32,
    pub c_id: u32,
    pub ol_i_id: u32,
}

impl Constants {
    /// Draw the constants of a run: that of the last names lies 65 to 119 from the load's, but
    /// neither 96 nor 112 (2.1.6.1).
    ///
    /// Args: `load_c_last`, the load's, at most 255.
    pub fn of_run(random: &mut Prng, load_c_last: u32) -> Constants {
        loop {
            let c_last = random.uniform(0, i64::from(A_LAST_NAME)) as u32;
            if is_c_last_allowed(load_c_last, c_last) {
                let c_id = random.uniform(0, i64::from(A_CUSTOMER)) as u32;
                let ol_i_id = random.uniform(0, i64::from(A_ITEM)) as u32;
                return Constants { c_last, c_id, ol_i_id };
            }
        }
    }

    /// Number of a last name, 0 to 999.
    pub fn last_name_number(&self, random: &mut Prng) -> u32 {
        nurand(random, A_LAST_NAME, self.c_last, (0, LAST_NAMES - 1))
    }

    /// Number of a customer in a district, from 1.
    pub fn customer(&self, random: &mut Prng) -> u32 {
        nurand(random, A_CUSTOMER, self.c_id, (1, CUSTOMERS_PER_DISTRICT))
    }

    /// Number of an item, from 1.
    pub fn item(&self, random: &mut Prng) -> u32 {
        nurand(random, A_ITEM, self.ol_i_id, (1, ITEMS))
    }
}

/// Draw a non-uniform random number from `min` to `max`, both included.
///
/// Source: clause 2.1.6. Draws twice, the factor `a` first.
pub fn nurand(random: &mut Prng, a: u32, c: u32, (min, max): (u32, u32)) -> u32 {
    let factor = random.uniform(0, i64::from(a)) as u32;
    let uniform = random.uniform(i64::from(min), i64::from(max)) as u32;
    ((factor | uniform) + c) % (max - min + 1) + min
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load's default.
    const LOAD_C_LAST: u32 = 157;

    #[test]
    fn last_names_are_three_syllables() {
        // Clause 4.3.2.3: 371 is PRI CALLY OUGHT, 40 is BAR PRES BAR.
        for (number, expected) in
            [(371, "PRICALLYOUGHT"), (40, "BARPRESBAR"), (999, "EINGEINGEING")]
        {
            let mut name = Vec::new();
            push_last_name(&mut name, number);
            assert_eq!(name, expected.as_bytes());
        }
    }

    #[test]
    fn the_constant_of_a_run_keeps_its_distance_from_that_of_the_load() {
        assert!(is_c_last_allowed(157, 223));
        assert!(is_c_last_allowed(157, 92));
        for run in [157, 157 - 64, 157 + 96, 45, 300] {
            assert!(!is_c_last_allowed(157, run), "{run}");
        }
    }

    #[test]
    fn constants_of_a_run_keep_the_rule_of_the_delta() {
        let mut random = Prng::from_seed(5);
        let drawn: Vec<u32> = (0..2_000)
            .map(|_| Constants::of_run(&mut random, LOAD_C_LAST).c_last.abs_diff(LOAD_C_LAST))
            .collect();
        assert!(drawn.iter().all(|delta| (65..=119).contains(delta)));
        assert!(!drawn.contains(&96) && !drawn.contains(&112));
        assert!(drawn.contains(&65) && drawn.contains(&97));
    }

    /// Chi-square of drawn numbers against the probabilities that follow from the definition.
    fn chi_square(a: u32, c: u32, (min, max): (u32, u32), bins: usize) -> f64 {
        let size = (max - min + 1) as usize;
        let bin = |number: u32| (number - min) as usize * bins / size;
        let mut expected = vec![0.0; bins];
        let pair_probability = 1.0 / (f64::from(a + 1) * size as f64);
        for factor in 0..=a {
            for uniform in min..=max {
                expected[bin(((factor | uniform) + c) % size as u32 + min)] += pair_probability;
            }
        }
        let count = 200_000;
        let mut seen = vec![0.0; bins];
        let mut random = Prng::from_seed(17);
        (0..count).for_each(|_| seen[bin(nurand(&mut random, a, c, (min, max)))] += 1.0);
        let of_bin = |(seen, expected): (&f64, &f64)| {
            let expected = expected * f64::from(count);
            (seen - expected) * (seen - expected) / expected.max(1e-9)
        };
        seen.iter().zip(&expected).map(of_bin).sum()
    }

    #[test]
    fn non_uniform_numbers_have_the_distribution_of_their_definition() {
        // 99 degrees of freedom: 0.1 % lie above 148.
        assert!(chi_square(255, 223, (0, 999), 100) < 148.0);
        assert!(chi_square(1_023, 259, (1, 3_000), 100) < 148.0);
        // And it is not a uniform one.
        let mut random = Prng::from_seed(23);
        let low = (0..10_000).filter(|_| nurand(&mut random, 1_023, 0, (1, 3_000)) & 1 == 1);
        assert!((2_000..3_000).contains(&low.count()), "odd numbers plus one are rare");
    }
}
