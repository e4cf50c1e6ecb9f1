//! The parameters of a connection that are about TLS, and those that cannot be had.

use super::say::{Fault, fault};
use crate::contract::job::{ChannelBinding, SslMode, TlsSettings, TlsVersion};

pub(super) const KNOWN: [&str; 15] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslsni",
    "sslcompression",
    "sslpassword",
    "sslcrl",
    "sslcrldir",
    "sslcertmode",
    "sslnegotiation",
    "channel_binding",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "gssencmode",
];

/// Parameters whose other values are refused: name, variable, values that are served, next step.
const REFUSED: [(&str, &str, &[&str], &str); 6] = [
    (
        "sslpassword",
        "",
        &[],
        "give an sslkey that is not encrypted: openssl pkey -in KEY -out COPY",
    ),
    ("sslcrl", "PGSSLCRL", &[], "revocation lists are not read: leave it out to go on without"),
    (
        "sslcrldir",
        "PGSSLCRLDIR",
        &[],
        "revocation lists are not read: leave it out to go on without",
    ),
    (
        "sslcertmode",
        "PGSSLCERTMODE",
        &["allow"],
        "leave it out: a certificate is sent if there is one",
    ),
    ("sslnegotiation", "PGSSLNEGOTIATION", &["postgres"], "give sslnegotiation=postgres"),
    ("gssencmode", "PGGSSENCMODE", &["disable", "prefer"], "give gssencmode=disable"),
];

type Get<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// sslmode, and everything beside it.
pub(super) fn settings(get: Get<'_>) -> Result<(SslMode, TlsSettings), Fault> {
    for (name, variable, served, step) in REFUSED {
        if let Some(value) = get(name, variable).filter(|value| !served.contains(&&**value)) {
            let shown = if name == "sslpassword" { String::new() } else { format!(" \"{value}\"") };
            return Err(fault(format!("{name}{shown} is not supported")).hint(step));
        }
    }
    let tls = TlsSettings {
        sslrootcert: get("sslrootcert", "PGSSLROOTCERT"),
        sslcert: get("sslcert", "PGSSLCERT"),
        sslkey: get("sslkey", "PGSSLKEY"),
        sslsni: get("sslsni", "PGSSLSNI").map(|word| word != "0"),
        channel_binding: word(get, "channel_binding", "PGCHANNELBINDING", |text| {
            Some(match text {
                "disable" => ChannelBinding::Disable,
                "prefer" => ChannelBinding::Prefer,
                "require" => ChannelBinding::Require,
                _ => return None,
            })
        })?
        .unwrap_or_default(),
        ssl_min_protocol_version: word(
            get,
            "ssl_min_protocol_version",
            "PGSSLMINPROTOCOLVERSION",
            |text| match text {
                // The least that is spoken is above what is asked.
                "TLSv1" | "TLSv1.1" => Some(TlsVersion::V12),
                text => version(text),
            },
        )?,
        ssl_max_protocol_version: word(
            get,
            "ssl_max_protocol_version",
            "PGSSLMAXPROTOCOLVERSION",
            version,
        )?,
    };
    // The authorities of the whole world are trusted for names only.
    let usual = match tls.sslrootcert.as_deref() {
        Some("system") => SslMode::VerifyFull,
        _ => SslMode::default(),
    };
    Ok((word(get, "sslmode", "PGSSLMODE", mode)?.unwrap_or(usual), tls))
}

fn word<T>(
    get: Get<'_>,
    name: &str,
    variable: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let Some(text) = get(name, variable) else { return Ok(None) };
    let value = read(&text);
    value.map(Some).ok_or_else(|| fault(format!("invalid {name} value: \"{text}\"")))
}

fn mode(text: &str) -> Option<SslMode> {
    Some(match text {
        "disable" => SslMode::Disable,
        "allow" => SslMode::Allow,
        "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        _ => return None,
    })
}

fn version(text: &str) -> Option<TlsVersion> {
    match text {
        "TLSv1.2" => Some(TlsVersion::V12),
        "TLSv1.3" => Some(TlsVersion::V13),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<(SslMode, TlsSettings), Fault> {
        settings(&|name, _| {
            given.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn settings_have_libpqs_words_and_defaults() {
        let (mode, tls) = read(&[]).expect("nothing is wrong");
        assert_eq!((mode, tls), (SslMode::Prefer, TlsSettings::default()));
        let (mode, tls) = read(&[
            ("sslrootcert", "system"),
            ("channel_binding", "require"),
            ("ssl_min_protocol_version", "TLSv1.3"),
            ("sslsni", "0"),
        ])
        .expect("nothing is wrong");
        assert_eq!(mode, SslMode::VerifyFull);
        assert_eq!(tls.channel_binding, ChannelBinding::Require);
        assert_eq!(tls.ssl_min_protocol_version, Some(TlsVersion::V13));
        assert_eq!(tls.sslsni, Some(false));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (name, value) in [
            ("sslmode", "always"),
            ("sslcrl", "/x"),
            ("sslcrldir", "/x"),
            ("sslpassword", "secret"),
            ("sslcertmode", "require"),
            ("sslnegotiation", "direct"),
            ("gssencmode", "require"),
            ("ssl_max_protocol_version", "TLSv1.1"),
        ] {
            let said = read(&[(name, value)]).expect_err("refused").text();
            assert!(said.contains(name) && !said.contains("secret"), "{said}");
        }
    }
}
