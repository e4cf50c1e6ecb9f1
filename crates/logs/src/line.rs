//! One line of JSON, written by hand: a log has millions of them.

/// One line of JSON.
pub(crate) struct Line<'a> {
    pub(crate) out: &'a mut Vec<u8>,
}

impl Line<'_> {
    pub(crate) fn first_number(&mut self, key: &str, number: u64) {
        self.out.extend_from_slice(b"{\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.digits(number);
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub(crate) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.digits(number);
    }

    pub(crate) fn digits(&mut self, number: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Write a string; bytes that are not UTF-8 become the characters of Latin-1 with their
    /// numbers, so equal texts stay equal. Returns 1 if there were any, else 0.
    pub(crate) fn string(&mut self, text: &[u8]) -> u64 {
        self.out.push(b'"');
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let mut start = 0;
        for (at, &byte) in text.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' && (byte < 0x80 || is_utf8) {
                continue;
            }
            self.out.extend_from_slice(&text[start..at]);
            start = at + 1;
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0..0x20 => {
                    let hex = b"0123456789abcdef";
                    let digits = [hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]];
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend_from_slice(&digits);
                }
                _ => {
                    let character = char::from(byte);
                    self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        self.out.extend_from_slice(&text[start..]);
        self.out.push(b'"');
        u64::from(!is_utf8)
    }

    pub(crate) fn end(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }
}
