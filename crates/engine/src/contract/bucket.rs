//! The formula that puts a duration into a bucket of a histogram: 3 digits, lowest unit 64 ns.
//!
//! `unit = value_ns >> 6`. Below 2048 units each bucket is one unit wide. Above, each doubling of
//! the value has 1024 buckets: `bucket = 1024 * e + (unit >> e)` with `e = floor(log2(unit)) - 10`.

const UNIT_BITS: u32 = 6;
const LINEAR: u64 = 2048;
const HALF: u64 = 1024;

/// Index of the bucket that holds `value_ns`.
#[inline]
pub fn bucket_of(value_ns: u64) -> u32 {
    let unit = value_ns >> UNIT_BITS;
    if unit < LINEAR {
        return unit as u32;
    }
    let exponent = 63 - unit.leading_zeros() - 10;
    (HALF as u32) * exponent + (unit >> exponent) as u32
}

/// Smallest value of `bucket` and the width of the bucket, both in nanoseconds.
pub fn bucket_range(bucket: u32) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < LINEAR {
        return (bucket << UNIT_BITS, 1 << UNIT_BITS);
    }
    let exponent = bucket / HALF - 1;
    ((bucket - HALF * exponent) << exponent << UNIT_BITS, 1 << (exponent + u64::from(UNIT_BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_last_one_ended() {
        let mut expected_low = 0;
        for bucket in 0..40_000 {
            let (low, width) = bucket_range(bucket);
            assert_eq!(low, expected_low, "bucket {bucket}");
            assert_eq!(bucket_of(low), bucket);
            assert_eq!(bucket_of(low + width - 1), bucket);
            expected_low = low + width;
        }
    }

    #[test]
    fn the_error_of_a_bucket_is_below_one_thousandth_of_its_value() {
        for value_ns in [200_000_u64, 1_000_003, 77_777_777, 3_600_000_000_000, u64::MAX / 2] {
            let (low, width) = bucket_range(bucket_of(value_ns));
            assert!(low <= value_ns && value_ns - low < width);
            assert!(width * 1000 <= low, "{value_ns}: {width} of {low}");
        }
    }
}
