//! Guesses `log_line_prefix` from a line, for prefixes that nobody has listed.
//!
//! Limits: a word that is neither after its name (`user=app`) nor `user@database` is skipped, and
//! so is a second number. How many lines a guess reads is for the caller to count.

use crate::message::{Label, label};
use crate::time;

/// Names that prefixes give to what follows their `=`.
const NAMES: &[(&[&str], char)] = &[
    (&["user", "usr", "u", "role"], 'u'),
    (&["db", "database", "dbname", "d", "datname"], 'd'),
    (&["app", "application", "application_name", "appname", "a"], 'a'),
];
/// How far into a line its label may be.
const HEAD_BYTES_MAX: usize = 400;

/// Returns the settings that may have made this line: one in which processes without a session
/// write as much as others, and one in which they write less.
pub(crate) fn guessed(line: &[u8]) -> Vec<String> {
    let Some(end) = label_start(line) else { return Vec::new() };
    let mut guess = Guess { head: &line[..end], at: 0, setting: String::new(), place: None };
    while guess.at < end {
        guess.next();
    }
    let whole = guess.setting;
    let before_names = guess.place.and_then(|place| {
        let space = whole[place..].find(' ')? + place + 1;
        (space < whole.len()).then(|| format!("{}%q{}", &whole[..space], &whole[space..]))
    });
    std::iter::once(whole).chain(before_names).collect()
}

/// The place of the first word of a severity.
fn label_start(line: &[u8]) -> Option<usize> {
    let head = &line[..line.len().min(HEAD_BYTES_MAX)];
    memchr::memmem::find_iter(head, b":  ").find_map(|end| {
        let starts = end.saturating_sub(40)..end;
        starts.into_iter().find(|&at| matches!(label(&head[at..end]), Some(Label::Begins(_))))
    })
}

struct Guess<'a> {
    head: &'a [u8],
    at: usize,
    setting: String,
    /// The end of time and process in the setting.
    place: Option<usize>,
}

impl Guess<'_> {
    fn has(&self, letter: char) -> bool {
        self.setting.contains(&format!("%{letter}"))
    }

    fn add(&mut self, letter: char, length: usize) {
        self.setting.push('%');
        self.setting.push(letter);
        self.at += length;
        if matches!(letter, 'm' | 't' | 'n' | 'p' | 'c') {
            self.place = Some(self.setting.len());
        }
    }

    /// Take the next escape or the next byte of the prefix.
    fn next(&mut self) {
        let rest = &self.head[self.at..];
        let has_time = ['m', 't', 'n'].iter().any(|&letter| self.has(letter));
        if let Some((_, length)) = time::read(rest) {
            let letter = if rest.get(19) == Some(&b'.') { 'm' } else { 't' };
            return self.add(if has_time { 's' } else { letter }, length);
        }
        if let Some((_, length)) = time::read_unix(rest).filter(|_| !has_time) {
            return self.add('n', length);
        }
        if rest.starts_with(b"[local]") {
            return self.add('r', 7);
        }
        let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
        let word = &rest[..length];
        let digits =
            |from: usize| rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        match rest.get(length) {
            _ if length == 0 => self.literal(rest[0]),
            Some(b'=') => self.named(word),
            Some(b'@') if !self.has('u') && !self.has('d') => {
                self.add('u', length);
                self.literal(b'@');
                let after = &self.head[self.at..];
                let name = after.iter().take_while(|byte| is_of_word(**byte)).count();
                self.add('d', name);
            }
            // An address has its port in parentheses.
            Some(b'(') => self.add('r', length + 2 + digits(length + 1)),
            Some(b'/') if digits(0) == length && digits(length + 1) > 0 => {
                self.add('v', length + 1 + digits(length + 1));
            }
            Some(b'-') if digits(0) == length && rest[length + 1..].starts_with(b"1]") => {
                self.add('l', length);
                self.literal(b'-');
                self.literal(b'1');
            }
            _ => self.add(self.letter(word), length),
        }
    }

    fn literal(&mut self, byte: u8) {
        match byte {
            b'%' => self.setting.push_str("%%"),
            byte if byte.is_ascii() => self.setting.push(char::from(byte)),
            _ => self.setting.push_str("%i"),
        }
        self.at += 1;
    }

    /// Take `name=value`; the value may be empty. The value of another name is taken as if it had
    /// none.
    fn named(&mut self, name: &[u8]) {
        for &byte in name {
            self.literal(byte);
        }
        self.literal(b'=');
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let known = NAMES.iter().find(|(names, _)| names.contains(&lower.as_str()));
        let Some(&(_, letter)) = known.filter(|(_, letter)| !self.has(*letter)) else { return };
        while let Some(&open @ (b'[' | b'(' | b'"' | b'\'' | b'<')) = self.head.get(self.at) {
            self.literal(open);
        }
        let value = &self.head[self.at..];
        let ends = |byte: &u8| b",;| )]>\"'\t".contains(byte);
        self.add(letter, value.iter().position(ends).unwrap_or(value.len()));
    }

    fn letter(&self, word: &[u8]) -> char {
        if word.iter().all(u8::is_ascii_digit) {
            let is_sqlstate = word == b"00000";
            return if is_sqlstate {
                'e'
            } else if self.has('p') {
                'x'
            } else {
                'p'
            };
        }
        let mut parts = word.splitn(2, |byte| *byte == b'.');
        let hex = |part: Option<&[u8]>| {
            part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_hexdigit))
        };
        let is_session = word.len() >= 8 && hex(parts.next()) && hex(parts.next());
        if is_session && !self.has('c') { 'c' } else { 'i' }
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.".contains(&byte) || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::guessed;

    #[test]
    fn a_prefix_is_guessed_from_the_forms_of_its_parts() {
        let time = "2026-11-20 10:00:00.123 UTC";
        let cases = [
            ("[42]: [7-1] db=shop,user=app", "[%p]: [%l-1] db=%d,user=%u"),
            ("[42][3/17] : [1] [app=my] u@d", "[%p][%v] : [%x] [app=%a] %u@%d"),
            ("42 [local] 655b1f00.1a2b", "%p %r %c"),
            ("42 10.0.0.7(51234) a@b/c", "%p %r %u@%d/%i"),
            (
                "u=[app] db=[shop] c=[[local]] s=[655b1f00.1a2b:1]",
                "u=[%u] db=[%d] c=[%r] s=[%c:%p]",
            ),
            ("00000 42 100%", "%e %p %x%%"),
        ];
        for (text, expected) in cases {
            let line = format!("{time} {text} LOG:  duration: 0.1 ms  statement: x LOG:  y");
            assert_eq!(guessed(line.as_bytes())[0], format!("%m {expected} "), "{text}");
        }
        let line = "pid=42 time=2026-11-20 10:00:00 UTC LOG:  x";
        assert_eq!(guessed(line.as_bytes())[0], "pid=%p time=%t ");
        assert_eq!(guessed(b"no label at all"), Vec::<String>::new());
    }

    #[test]
    fn processes_without_a_session_may_write_less() {
        let line = "2026-11-20 10:00:00 UTC [42] app@shop LOG:  x";
        assert_eq!(guessed(line.as_bytes())[1], "%t [%p] %q%u@%d ");
    }
}
