//! libpq's `require_auth`: the authentication methods that a server may request.
//!
//! Source: manual, "Parameter Key Words" of libpq; the texts are libpq's.

/// The bits of `may_ask`.
const PASSWORD: u8 = 1;
const MD5: u8 = 1 << 1;
const GSS: u8 = 1 << 2;
const SSPI: u8 = 1 << 3;
const SCRAM: u8 = 1 << 4;
const OAUTH: u8 = 1 << 5;

/// The value of `require_auth`, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequireAuth {
    /// The text that the user gave.
    text: String,
    may_ask: u8,
    /// A server may accept the user without authentication.
    may_trust: bool,
}

impl RequireAuth {
    /// Read the value of `require_auth`: names separated by commas, or names after `!`.
    ///
    /// Returns: `None` if every method is allowed. Errors: in libpq's words.
    pub fn parse(text: &str) -> Result<Option<RequireAuth>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let is_negative = text.starts_with('!');
        let mut read = RequireAuth {
            text: text.to_owned(),
            may_ask: if is_negative { !0 } else { 0 },
            may_trust: is_negative,
        };
        for part in text.split(',') {
            let method = part.strip_prefix('!');
            match (is_negative, method) {
                (true, None) => {
                    return Err(format!(
                        "require_auth method \"{part}\" cannot be mixed with negative methods"
                    ));
                }
                (false, Some(_)) => {
                    return Err(format!(
                        "negative require_auth method \"{part}\" cannot be mixed with \
                         non-negative methods"
                    ));
                }
                _ => {}
            }
            if !read.change(method.unwrap_or(part), !is_negative)? {
                return Err(format!("require_auth method \"{part}\" is specified more than once"));
            }
        }
        Ok(Some(read))
    }

    /// Allow or forbid a method; return false if this was done before.
    fn change(&mut self, method: &str, allows: bool) -> Result<bool, String> {
        let bit = match method {
            "password" => PASSWORD,
            "md5" => MD5,
            "gss" => GSS,
            "sspi" => SSPI,
            "scram-sha-256" => SCRAM,
            "oauth" => OAUTH,
            "none" => {
                let is_new = self.may_trust != allows;
                self.may_trust = allows;
                return Ok(is_new);
            }
            other => return Err(format!("invalid require_auth value: \"{other}\"")),
        };
        let is_new = (self.may_ask & bit != 0) != allows;
        self.may_ask ^= if is_new { bit } else { 0 };
        Ok(is_new)
    }

    /// Check whether the server may send this authentication request.
    ///
    /// Args: `code`, the number of the request in the protocol; `is_answered`, true if the client
    /// has already sent its proof. Errors: in libpq's words.
    pub(crate) fn judge(&self, code: u32, is_answered: bool) -> Result<(), String> {
        let (bit, reason) = match code {
            0 if self.may_trust || is_answered => return Ok(()),
            0 => (0, "server did not complete authentication"),
            3 => (PASSWORD, "server requested a cleartext password"),
            5 => (MD5, "server requested a hashed password"),
            7 | 8 => (GSS, "server requested GSSAPI authentication"),
            9 => (SSPI, "server requested SSPI authentication"),
            // SCRAM is the only mechanism that is ever chosen.
            10..=12 => (SCRAM, "server requested SASL authentication"),
            _ => (0, "server requested an unknown authentication type"),
        };
        match self.may_ask & bit != 0 {
            true => Ok(()),
            false => {
                Err(format!("authentication method requirement \"{}\" failed: {reason}", self.text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: [u32; 6] = [0, 3, 5, 7, 9, 10];

    fn allowed(text: &str) -> Vec<u32> {
        let required = RequireAuth::parse(text).expect("valid").expect("not empty");
        REQUESTS.into_iter().filter(|&code| required.judge(code, false).is_ok()).collect()
    }

    #[test]
    fn methods_are_named_or_excluded() {
        for (text, expected) in [
            ("scram-sha-256", &[10][..]),
            ("md5,scram-sha-256", &[5, 10]),
            ("none", &[0]),
            ("none,password", &[0, 3]),
            ("gss,sspi,oauth", &[7, 9]),
            ("!password", &[0, 5, 7, 9, 10]),
            ("!none,!md5", &[3, 7, 9, 10]),
        ] {
            assert_eq!(allowed(text), expected, "{text}");
        }
        assert_eq!(RequireAuth::parse(""), Ok(None));
    }

    #[test]
    fn what_contradicts_itself_is_refused_in_libpqs_words() {
        for (text, said) in [
            ("sha", "invalid require_auth value: \"sha\""),
            ("md5,", "invalid require_auth value: \"\""),
            ("md5, none", "invalid require_auth value: \" none\""),
            ("md5,md5", "require_auth method \"md5\" is specified more than once"),
            ("!none,!none", "require_auth method \"!none\" is specified more than once"),
            (
                "md5,!none",
                "negative require_auth method \"!none\" cannot be mixed with non-negative methods",
            ),
            ("!md5,none", "require_auth method \"none\" cannot be mixed with negative methods"),
        ] {
            assert_eq!(RequireAuth::parse(text), Err(said.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_server_that_has_seen_the_proof_may_let_the_user_in() {
        let required = RequireAuth::parse("md5").expect("valid").expect("not empty");
        assert!(required.judge(0, true).is_ok());
        let said = required.judge(0, false).expect_err("nothing was asked for");
        assert_eq!(
            said,
            "authentication method requirement \"md5\" failed: server did not complete \
             authentication"
        );
    }
}
