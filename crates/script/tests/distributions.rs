//! The random functions against the probabilities in the manual of pgbench, by chi-square tests.

use pgdyno_script::Prng;

const DRAW_COUNT: usize = 200_000;
const SEED: u64 = 20_240_229;

/// Draws from `1..=probabilities.len()` and compares the counts with the probabilities.
fn follows(probabilities: &[f64], mut draw: impl FnMut(&mut Prng, i64) -> i64) {
    let total: f64 = probabilities.iter().sum();
    assert!((total - 1.0).abs() < 1e-6, "the probabilities add up to {total}");
    let mut prng = Prng::from_seed(SEED);
    let mut counts = vec![0.0; probabilities.len()];
    for _ in 0..DRAW_COUNT {
        counts[draw(&mut prng, probabilities.len() as i64) as usize - 1] += 1.0;
    }
    let chi_square: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(count, probability): (&f64, _)| {
            let expected = probability * DRAW_COUNT as f64;
            assert!(expected > 5.0, "too few draws expected for a chi-square test: {expected}");
            (count - expected).powi(2) / expected
        })
        .sum();
    // Wilson and Hilferty, 1931: 3.72 standard deviations are exceeded once in 10,000 runs.
    let freedom = probabilities.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.72 * spread.sqrt()).powi(3);
    assert!(chi_square < limit, "chi-square {chi_square} of at most {limit}, seed {SEED}");
}

/// Returns the probability that a standard normal variable is below `x`, by Simpson's rule.
fn normal_below(x: f64) -> f64 {
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let steps = 2_000;
    let width = x / f64::from(steps);
    let sum: f64 = (0..=steps)
        .map(|step| {
            let weight = match step {
                0 => 1.0,
                _ if step == steps => 1.0,
                _ if step % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(f64::from(step) * width)
        })
        .sum();
    0.5 + sum * width / 3.0
}

#[test]
fn random_is_uniform() {
    for count in [2, 7, 64, 100] {
        follows(&vec![1.0 / f64::from(count); count as usize], |prng, max| prng.uniform(1, max));
    }
}

#[test]
fn random_gaussian_follows_its_definition() {
    for parameter in [2.0, 2.5, 3.5] {
        let count = 20.0;
        let middle = (count + 1.0) / 2.0;
        let below = |edge: f64| normal_below(2.0 * parameter * (edge - middle) / count);
        let inside = 2.0 * normal_below(parameter) - 1.0;
        let probabilities: Vec<_> = (1..=20)
            .map(|value| (below(f64::from(value) + 0.5) - below(f64::from(value) - 0.5)) / inside)
            .collect();
        follows(&probabilities, |prng, max| prng.gaussian(1, max, parameter));
    }
}

#[test]
fn random_exponential_follows_its_definition() {
    for parameter in [0.5_f64, 2.5, 5.0] {
        let above =
            |value: f64| (-parameter * (value - 1.0) / 20.0).exp() / (1.0 - (-parameter).exp());
        let probabilities: Vec<_> =
            (1..=20).map(|value| above(f64::from(value)) - above(f64::from(value) + 1.0)).collect();
        follows(&probabilities, |prng, max| prng.exponential(1, max, parameter));
    }
}

#[test]
fn random_zipfian_follows_its_definition() {
    for parameter in [1.05, 1.5, 2.5] {
        let weights: Vec<_> = (1..=20).map(|rank| f64::from(rank).powf(-parameter)).collect();
        let sum: f64 = weights.iter().sum();
        let probabilities: Vec<_> = weights.iter().map(|weight| weight / sum).collect();
        follows(&probabilities, |prng, max| prng.zipfian(1, max, parameter));
    }
}
