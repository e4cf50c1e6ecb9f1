//! Numbers that look random and follow from a number alone.

use crate::distribution::Spread;

/// Mix all bits of a number: SplitMix64's last step.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number from 0 (included) to 1 (excluded) that depends on `number` alone.
#[inline]
pub(super) fn unit_of(number: u64) -> f64 {
    (mixed(number) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A length for the value with this number: between `least` and `most`, `mean` on average.
#[inline]
pub(super) fn length_of(spread: &Spread, number: u64) -> f64 {
    let Spread { least, mean, most } = *spread;
    // Two uniform halves, below and above the mean, with weights that give the mean.
    let (below, above) = ((mean - least).max(0.0), (most - mean).max(0.0));
    if below + above == 0.0 {
        return mean;
    }
    let unit = unit_of(number);
    // The mean of the lower half lies `below / 2` under the mean, of the upper `above / 2` over it.
    let share_below = above / (below + above);
    match unit < share_below {
        true => least + below * unit / share_below,
        false => mean + above * (unit - share_below) / (1.0 - share_below),
    }
}
