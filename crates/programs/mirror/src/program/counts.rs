//! How often something happens: a whole number, drawn for each transaction.

use pgdyno_script::Prng;

use crate::distribution::Spread;

/// Return whether a spread is possible.
pub(super) fn is_spread(spread: Spread) -> bool {
    0.0 <= spread.least
        && spread.least <= spread.mean
        && spread.mean <= spread.most
        && spread.most <= 1e6
}

/// Whole numbers between the ends of a spread, with its mean: a truncated geometric distribution.
/// If the mean is in the middle, it is uniform; if the mean is near an end, far numbers are rare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    least: u64,
    places: f64,
    /// Each number is this much rarer than the one before it; 1 = uniform.
    ratio: f64,
    /// Each number is rarer than the one after it.
    is_mirrored: bool,
}

impl Counts {
    /// Args: a spread that `is_spread`.
    pub(super) fn new(spread: Spread) -> Counts {
        let (least, most) = (spread.least.round(), spread.most.round());
        let places = (most - least + 1.0).max(1.0);
        let wanted = (spread.mean - least).clamp(0.0, places - 1.0);
        let is_mirrored = wanted > (places - 1.0) / 2.0;
        let wanted = if is_mirrored { places - 1.0 - wanted } else { wanted };
        let mean = |ratio: f64| {
            let last = ratio.powf(places);
            ratio / (1.0 - ratio) - places * last / (1.0 - last)
        };
        // The mean grows with the ratio, up to the middle.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let ratio = 0.5 * (low + high);
            if mean(ratio) < wanted { low = ratio } else { high = ratio }
        }
        let is_uniform = wanted >= (places - 1.0) / 2.0 * (1.0 - 1e-6);
        Counts {
            least: least as u64,
            places,
            ratio: if is_uniform { 1.0 } else { low },
            is_mirrored,
        }
    }

    pub(super) fn draw(&self, random: &mut Prng) -> u64 {
        if self.places <= 1.0 {
            return self.least;
        }
        let unit = random.unit();
        let place = match self.ratio {
            1.0 => unit * self.places,
            ratio if ratio < 1e-9 => 0.0,
            ratio => (1.0 - unit * (1.0 - ratio.powf(self.places))).ln() / ratio.ln(),
        };
        let place = place.floor().clamp(0.0, self.places - 1.0);
        let place = if self.is_mirrored { self.places - 1.0 - place } else { place };
        self.least + place as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_mean_and_the_ends_of_their_spread() {
        let mut random = Prng::from_seed(5);
        let spreads = [
            (5.0, 10.0, 15.0),
            (1.0, 2.0, 40.0),
            (0.0, 8.5, 10.0),
            (3.0, 3.0, 9.0),
            (2.0, 2.0, 2.0),
        ];
        for (least, mean, most) in spreads {
            let counts = Counts::new(Spread { least, mean, most });
            let drawn: Vec<_> = (0..100_000).map(|_| counts.draw(&mut random)).collect();
            let seen = drawn.iter().sum::<u64>() as f64 / 1e5;
            assert!((seen - mean).abs() < 0.02 * mean, "{counts:?}: {seen}");
            assert!(drawn.iter().all(|&count| (least..=most).contains(&(count as f64))));
        }
    }
}
