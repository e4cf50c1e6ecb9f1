//! Times as PostgreSQL writes them into a log.

const SECOND_NS: i64 = 1_000_000_000;
/// Zones whose names say the distance from UTC in hours. Winter and summer of one place matter,
/// because a log does not stop when the clocks change. Other names count as UTC: then all times of
/// a log are wrong by the same distance.
const ZONES: &[(&[u8], i64)] = &[
    (b"WET", 0),
    (b"WEST", 1),
    (b"BST", 1),
    (b"CET", 1),
    (b"CEST", 2),
    (b"EET", 2),
    (b"EEST", 3),
    (b"MSK", 3),
    (b"EST", -5),
    (b"EDT", -4),
    (b"CST", -6),
    (b"CDT", -5),
    (b"MST", -7),
    (b"MDT", -6),
    (b"PST", -8),
    (b"PDT", -7),
    (b"AEST", 10),
    (b"AEDT", 11),
];

/// Returns the time at the beginning of `text` (Unix nanoseconds) and its length:
/// `2026-11-24 17:53:19.123 UTC`, with or without a fraction, with or without a zone.
pub(crate) fn read(text: &[u8]) -> Option<(i64, usize)> {
    let year = number(text, 0, 4)?;
    let month = number(text, 5, 2)?;
    let day = number(text, 8, 2)?;
    let (hour, minute) = (number(text, 11, 2)?, number(text, 14, 2)?);
    let second = number(text, 17, 2)?;
    let separators = [text[4], text[7], text[10], text[13], text[16]];
    let is_time = separators == *b"-- ::" && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_since_1970(year, month, day);
    let mut time_ns = ((days * 24 + hour) * 60 + minute) * 60 * SECOND_NS + second * SECOND_NS;
    let mut end = 19;
    if text.get(end) == Some(&b'.') {
        end += 1;
        let mut unit_ns = SECOND_NS / 10;
        while let Some(digit) = text.get(end).filter(|byte| byte.is_ascii_digit()) {
            time_ns += i64::from(digit - b'0') * unit_ns;
            unit_ns /= 10;
            end += 1;
        }
    }
    if text.get(end) == Some(&b' ') {
        let zone = zone_at(text, end + 1);
        time_ns -= seconds_east(zone) * SECOND_NS;
        end += if zone.is_empty() { 0 } else { 1 + zone.len() };
    }
    Some((time_ns, end))
}

/// Returns the time in `1763999999.123`, as `%n` writes it, and its length.
pub(crate) fn read_unix(text: &[u8]) -> Option<(i64, usize)> {
    let whole = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(9..=11).contains(&whole) || text.get(whole) != Some(&b'.') {
        return None;
    }
    let seconds = number(text, 0, whole)?;
    let digits = text[whole + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = number(text, whole + 1, digits.min(9))?;
    let unit_ns = 10_i64.pow(9 - u32::try_from(digits.min(9)).ok()?);
    Some((seconds * SECOND_NS + fraction * unit_ns, whole + 1 + digits))
}

/// A zone is a name, or a sign and digits. Another `-` belongs to the prefix, as in `%t-%c-`.
fn zone_at(text: &[u8], start: usize) -> &[u8] {
    let text = &text[start..];
    let count =
        |is: fn(&u8) -> bool, from: usize| text[from..].iter().take_while(|byte| is(byte)).count();
    let length = match text.first() {
        Some(b'+' | b'-') => 1 + count(u8::is_ascii_digit, 1),
        _ => count(u8::is_ascii_alphabetic, 0),
    };
    &text[..if length == 1 && !text[0].is_ascii_alphabetic() { 0 } else { length }]
}

fn seconds_east(zone: &[u8]) -> i64 {
    if let Some((&sign @ (b'+' | b'-'), digits)) = zone.split_first() {
        let hours = number(digits, 0, 2).unwrap_or(0);
        let minutes = number(digits, 2, 2).unwrap_or(0);
        let seconds = (hours * 60 + minutes) * 60;
        return if sign == b'-' { -seconds } else { seconds };
    }
    ZONES.iter().find(|(name, _)| *name == zone).map_or(0, |(_, hours)| hours * 3600)
}

fn number(text: &[u8], start: usize, length: usize) -> Option<i64> {
    let digits = text.get(start..start + length)?;
    digits.iter().try_fold(0, |sum: i64, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

/// Days from 1970-01-01. Source: H. Hinnant, `days_from_civil`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::{read, read_unix};

    #[test]
    fn times_of_a_log_become_unix_time() {
        // date -u -d '2026-11-24 17:53:19' +%s = 1795542799
        let utc = 1_795_542_799_123_000_000;
        assert_eq!(read(b"2026-11-24 17:53:19.123 UTC [1]"), Some((utc, 27)));
        assert_eq!(read(b"2026-11-24 18:53:19.123 CET|x"), Some((utc, 27)));
        assert_eq!(read(b"2026-11-24 23:23:19.123 +0530"), Some((utc, 29)));
        assert_eq!(read(b"2026-11-24 17:53:19 [1]"), Some((utc - 123_000_000, 19)));
        assert_eq!(read(b"2026-11-24 17:53:19.123 UTC-655b.1a2b-LOG"), Some((utc, 27)));
        assert_eq!(read(b"2026-11-24 14:53:19.123 -03-655b.1a2b-LOG"), Some((utc, 27)));
        assert_eq!(read_unix(b"1795542799.123: x"), Some((utc, 14)));
    }

    #[test]
    fn other_texts_are_not_times() {
        for text in ["", "2026-11-24", "2026-13-24 17:53:19", "2026-11-24T17:53:19 UTC", "SELECT"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_change_to_winter_time_moves_no_distance() {
        let (summer, _) = read(b"2026-10-25 02:59:59 CEST").expect("a time");
        let (winter, _) = read(b"2026-10-25 02:00:00 CET").expect("a time");
        assert_eq!(winter - summer, 1_000_000_000);
    }
}
