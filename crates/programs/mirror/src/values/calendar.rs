//! Dates and times in PostgreSQL's ISO format, from and to numbers.
//!
//! Days count from 1970-01-01, microseconds from its midnight. Years before 1 are not read.
//! Source of the day arithmetic: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".

pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Return the days of `2024-02-29`; None for anything else, infinity included.
pub(crate) fn read_date(text: &str) -> Option<i64> {
    if text.ends_with("BC") {
        return None;
    }
    let mut parts = text.trim().splitn(3, '-');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (number()?, number()?, number()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Return the microseconds of `12:34:56.789`, with or without an offset such as `+05:30`.
pub(super) fn read_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits_end = text.find(['+', '-']).filter(|&at| at > 0).unwrap_or(text.len());
    let (time, zone) = text.split_at(digits_end);
    let zone_us = if zone.is_empty() { 0 } else { read_zone(zone)? };
    let mut parts = time.splitn(3, ':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let second: f64 = parts.next().unwrap_or("0").parse().ok()?;
    Some((hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64 - zone_us)
}

fn read_zone(zone: &str) -> Option<i64> {
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let mut us = 0;
    for (part, unit) in zone[1..].split(':').zip([3600, 60, 1]) {
        us += part.parse::<i64>().ok()? * unit * 1_000_000;
    }
    Some(sign * us)
}

/// Return the microseconds of `2024-02-29 12:34:56+00`.
pub(crate) fn read_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once([' ', 'T']).unwrap_or((text, "00:00"));
    if time.ends_with("BC") {
        return None;
    }
    read_date(date)?.checked_mul(DAY_US)?.checked_add(read_time(time)?)
}

/// Return the microseconds of `1 year 2 mons -3 days 04:05:06`, with months of 30 days.
pub(super) fn read_interval(text: &str) -> Option<i64> {
    let mut us = 0_i64;
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (sign, time) = match word.strip_prefix('-') {
                Some(time) => (-1, time),
                None => (1, word.trim_start_matches('+')),
            };
            us = us.checked_add(sign * read_time(time)?)?;
            continue;
        }
        let count: i64 = word.parse().ok()?;
        let days = match words.next()?.trim_end_matches('s') {
            "year" => 360,
            "mon" => 30,
            "day" => 1,
            _ => return None,
        };
        us = us.checked_add(count.checked_mul(days)?.checked_mul(DAY_US)?)?;
    }
    Some(us)
}

/// Append `2024-02-29`.
pub(crate) fn write_date(days: i64, out: &mut Vec<u8>) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    write_padded(year.max(1), 4, out);
    out.push(b'-');
    write_padded(month, 2, out);
    out.push(b'-');
    write_padded(day, 2, out);
}

/// Append `12:34:56.789`; more than 24 hours are possible.
pub(super) fn write_time(us: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    write_padded(seconds / 3600, 2, out);
    out.push(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_padded(seconds % 60, 2, out);
    if fraction != 0 {
        out.push(b'.');
        write_padded(fraction, 6, out);
    }
}

/// Append `2024-02-29 12:34:56`.
pub(crate) fn write_timestamp(us: i64, out: &mut Vec<u8>) {
    write_date(us.div_euclid(DAY_US), out);
    out.push(b' ');
    write_time(us.rem_euclid(DAY_US), out);
}

/// Append `-100:30:00`.
pub(super) fn write_interval(us: i64, out: &mut Vec<u8>) {
    if us < 0 {
        out.push(b'-');
    }
    write_time(us.saturating_abs(), out);
}

/// Append a number that is not negative, with at least `width` digits.
pub(super) fn write_padded(number: i64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    out.resize(out.len() + width.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits.as_bytes());
}
