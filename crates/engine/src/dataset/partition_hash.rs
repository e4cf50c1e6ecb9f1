//! Computes the hash partition into which PostgreSQL puts an account.
//!
//! COPY into a partitioned parent cannot freeze rows, so each leaf has a separate COPY, and the
//! rows are divided before they are sent. A wrong result loses no row: COPY into a leaf checks the
//! partition constraint and fails.
//!
//! Source: `hash_bytes_uint32_extended`, `hashint8extended` (Jenkins' lookup3) and
//! `compute_partition_hash_value` of PostgreSQL 11 to 18.

const HASH_PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Return the remainder for key `aid`, with `modulus` leaves.
///
/// Args: `wide`, true if the column is a bigint, false if it is an integer.
#[inline]
pub fn partition_of(aid: u64, wide: bool, modulus: u32) -> u32 {
    // A positive bigint has the hash of an integer if its upper half is zero.
    let folded = if wide { (aid as u32) ^ (aid >> 32) as u32 } else { aid as u32 };
    // The result of `hash_combine64` for a row hash of zero, which is its first value.
    let row_hash = hash_u32(folded).wrapping_add(0x49a0_f4dd_15e5_a8e3);
    (row_hash % u64::from(modulus)) as u32
}

/// The state of lookup3 after mixing in the seed: the same for every key.
const SEEDED: [u32; 3] = {
    let start = 0x9e37_79b9_u32.wrapping_add(4).wrapping_add(3_923_095);
    let a = start.wrapping_add((HASH_PARTITION_SEED >> 32) as u32);
    let b = start.wrapping_add(HASH_PARTITION_SEED as u32);
    mix(a, b, start)
};

const fn mix(mut a: u32, mut b: u32, mut c: u32) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

#[inline]
fn hash_u32(key: u32) -> u64 {
    let [mut a, mut b, mut c] = SEEDED;
    a = a.wrapping_add(key);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (u64::from(b) << 32) | u64::from(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of PostgreSQL 18: the `r` for which `satisfies_hash_partition(table, 7, r, key)` is
    /// true, the table partitioned by hash of one integer or bigint column.
    #[test]
    fn accounts_go_where_postgresql_puts_them() {
        let integers = [1_u64, 2, 3, 99_999, 100_000, 2_147_483_647];
        assert_eq!(integers.map(|aid| partition_of(aid, false, 7)), [5, 6, 6, 1, 4, 0]);
        let wide = [1_u64, 4_294_967_296, 5_000_000_001, 1_142_400_000_000];
        assert_eq!(wide.map(|aid| partition_of(aid, true, 7)), [5, 5, 6, 1]);
    }
}
