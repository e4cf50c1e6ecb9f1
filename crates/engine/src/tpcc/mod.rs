//! What load and run of the TPC-C-like workload must agree on: cardinalities, non-uniform random
//! numbers with their constants, and last names.
//!
//! Source: TPC-C specification 5.11, clauses 1.2, 2.1.6, 4.3.2 and 4.3.3. Numbers of clauses stand
//! at what they ask for.

use pgdyno_script::Prng;

/// Rows of table item, and of stock in each warehouse.
pub const ITEMS: i32 = 100_000;
pub const DISTRICTS_PER_WAREHOUSE: i32 = 10;
pub const CUSTOMERS_PER_DISTRICT: i32 = 3_000;
/// Orders of each district after the load; one for each customer.
pub const ORDERS_PER_DISTRICT: i32 = 3_000;
/// The first order of a district that is not delivered after the load: 900 of them.
pub const FIRST_NEW_ORDER: i32 = 2_101;
pub const ORDER_LINES_MIN: i32 = 5;
pub const ORDER_LINES_MAX: i32 = 15;

/// The constant C of the last names that the load draws (4.3.2.3). The run's differs from it by a
/// delta that the specification allows.
pub const LOAD_C_LAST: i32 = 157;

/// The constants C of the non-uniform random numbers, the same for a whole run (2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    pub c_last: i32,
    pub c_id: i32,
    pub ol_i_id: i32,
}

impl Constants {
    /// Draw the constants of a run: that of the last names lies 65 to 119 from the load's, but
    /// neither 96 nor 112 (2.1.6.1).
    pub fn of_run(random: &mut Prng) -> Constants {
        loop {
            let c_last = random.uniform(0, 255) as i32;
            let delta = (c_last - LOAD_C_LAST).abs();
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                let c_id = random.uniform(0, 1_023) as i32;
                let ol_i_id = random.uniform(0, 8_191) as i32;
                return Constants { c_last, c_id, ol_i_id };
            }
        }
    }

    /// Number of a last name, 0 to 999.
    pub fn last_name_number(&self, random: &mut Prng) -> i32 {
        nurand(random, 255, self.c_last, (0, 999))
    }

    /// Number of a customer in a district, from 1.
    pub fn customer(&self, random: &mut Prng) -> i32 {
        nurand(random, 1_023, self.c_id, (1, CUSTOMERS_PER_DISTRICT))
    }

    /// Number of an item, from 1.
    pub fn item(&self, random: &mut Prng) -> i32 {
        nurand(random, 8_191, self.ol_i_id, (1, ITEMS))
    }
}

/// Draw a non-uniform random number from `min` to `max`, both included.
///
/// Source: clause 2.1.6. Draws twice, the factor `a` first.
pub fn nurand(random: &mut Prng, a: i32, c: i32, (min, max): (i32, i32)) -> i32 {
    let factor = random.uniform(0, i64::from(a)) as i32;
    let uniform = random.uniform(i64::from(min), i64::from(max)) as i32;
    ((factor | uniform) + c) % (max - min + 1) + min
}

/// The last name with this number, 0 to 999 (4.3.2.3): one syllable for each digit.
pub fn last_name(number: i32) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    assert!((0..1_000).contains(&number), "last name {number}");
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_name_has_a_syllable_for_each_digit() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn constants_of_a_run_keep_the_rule_of_the_delta() {
        let mut random = Prng::from_seed(5);
        let drawn: Vec<i32> = (0..2_000)
            .map(|_| (Constants::of_run(&mut random).c_last - LOAD_C_LAST).abs())
            .collect();
        assert!(drawn.iter().all(|delta| (65..=119).contains(delta)));
        assert!(!drawn.contains(&96) && !drawn.contains(&112));
        assert!(drawn.contains(&65) && drawn.contains(&97));
    }

    /// Chi-square of drawn numbers against the probabilities that follow from the definition.
    fn chi_square(a: i32, c: i32, (min, max): (i32, i32), bins: usize) -> f64 {
        let size = (max - min + 1) as usize;
        let bin = |number: i32| (number - min) as usize * bins / size;
        let mut expected = vec![0.0; bins];
        let each = 1.0 / (f64::from(a + 1) * size as f64);
        for factor in 0..=a {
            for uniform in min..=max {
                expected[bin(((factor | uniform) + c) % size as i32 + min)] += each;
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
        // And it is no uniform one.
        let mut random = Prng::from_seed(23);
        let low = (0..10_000).filter(|_| nurand(&mut random, 1_023, 0, (1, 3_000)) & 1 == 1);
        assert!((2_000..3_000).contains(&low.count()), "odd numbers plus one are rare");
    }
}
