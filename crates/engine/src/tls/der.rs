//! DER, as far as a certificate needs it: one value after another, no further than the bytes go.

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Reads values off the front of its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// One value: its tag, its contents, and both with the header between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) contents: &'a [u8],
    pub(super) whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn any(&mut self) -> Result<Element<'a>, Malformed> {
        let [tag, first, ..] = *self.0 else { return Err(Malformed) };
        // Tags of more than one byte do not occur in certificates.
        if tag & 0x1f == 0x1f {
            return Err(Malformed);
        }
        let (header, length) = match first {
            0..=0x7f => (2, usize::from(first)),
            0x81..=0x83 => {
                let count = usize::from(first & 0x7f);
                let digits = self.0.get(2..2 + count).ok_or(Malformed)?;
                let length = digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit));
                (2 + count, length)
            }
            _ => return Err(Malformed),
        };
        let whole = self.0.get(..header + length).ok_or(Malformed)?;
        self.0 = &self.0[header + length..];
        Ok(Element { tag, contents: &whole[header..], whole })
    }

    pub(super) fn expect(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        self.optional(tag)?.ok_or(Malformed)
    }

    /// The next value if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        match self.0.first() {
            Some(&first) if first == tag => self.any().map(Some),
            _ => Ok(None),
        }
    }

    /// The values inside the next one.
    pub(super) fn enter(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        self.expect(tag).map(|element| Reader(element.contents))
    }
}

/// Seconds since 1970 of a UTCTime or GeneralizedTime in the only form RFC 5280 allows.
pub(super) fn time(element: Element<'_>) -> Result<i64, Malformed> {
    let text = element.contents.strip_suffix(b"Z").ok_or(Malformed)?;
    let (year_length, is_valid) = match element.tag {
        UTC_TIME => (2, text.len() == 12),
        GENERALIZED_TIME => (4, text.len() == 14),
        _ => (0, false),
    };
    if !is_valid || !text.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0'));
    let (year, rest) = text.split_at(year_length);
    let year = match (year_length, number(year)) {
        (2, year @ 50..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let part = |index: usize| number(&rest[2 * index..2 * index + 2]);
    let (month, day) = (part(0), part(1));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(Malformed);
    }
    Ok(days(year, month, day) * 86_400 + part(2) * 3600 + part(3) * 60 + part(4))
}

/// Days from 1970-01-01 to a date. Years begin in March here, so that a leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 153 days are every five months that begin with March or August; 719,468 is 1970-01-01.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let read =
            |tag, text: &'static str| time(Element { tag, contents: text.as_bytes(), whole: &[] });
        // Computed with date -u -d ... +%s.
        assert_eq!(read(UTC_TIME, "700101000000Z"), Ok(0));
        assert_eq!(read(UTC_TIME, "240229123456Z"), Ok(1_709_210_096));
        assert_eq!(read(GENERALIZED_TIME, "20500301000000Z"), Ok(2_529_705_600));
        assert_eq!(read(UTC_TIME, "491231235959Z"), Ok(2_524_607_999));
        for text in ["2402291234Z", "240229123456", "241329123456Z", "24022912345xZ"] {
            assert_eq!(read(UTC_TIME, text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_malformed() {
        for bytes in
            [&b""[..], b"\x30", b"\x30\x02\x01", b"\x30\x81", b"\x30\x84\0\0\0\0", b"\x1f\0"]
        {
            assert!(Reader(bytes).any().is_err());
        }
    }
}
