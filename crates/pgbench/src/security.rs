//! Reads the parameters for secure connections: sslmode, certificates, channel binding.

use pgdyno_wire::RequireAuth;

use super::conninfo::parameters::Settings;
use super::say::{Fault, fault};
use pgdyno_engine::contract::job::{
    CertificateMode, ChannelBinding, SslMode, TlsSettings, TlsVersion,
};

/// Return sslmode and the other security parameters.
pub(super) fn settings(settings: &Settings) -> Result<(SslMode, TlsSettings), Fault> {
    let require_auth = settings.get("require_auth");
    RequireAuth::parse(require_auth.as_deref().unwrap_or_default()).map_err(fault)?;
    let tls = TlsSettings {
        sslrootcert: settings.get("sslrootcert"),
        sslcert: settings.get("sslcert"),
        sslkey: settings.get("sslkey"),
        sslsni: settings.get("sslsni").map(|word| word == "1"),
        channel_binding: word(settings, "channel_binding", |text| {
            Some(match text {
                "disable" => ChannelBinding::Disable,
                "prefer" => ChannelBinding::Prefer,
                "require" => ChannelBinding::Require,
                _ => return None,
            })
        })?
        .unwrap_or_default(),
        ssl_min_protocol_version: version(settings, "ssl_min_protocol_version", &OLD)?,
        ssl_max_protocol_version: version(settings, "ssl_max_protocol_version", &[])?,
        sslcertmode: match settings.get("sslcertmode").as_deref() {
            Some("disable") => CertificateMode::Disable,
            _ => CertificateMode::Allow,
        },
        require_auth,
    };
    // As libpq: with the system's authorities, the name must be checked, because anybody can get a
    // certificate from them.
    let usual = match tls.sslrootcert.as_deref() {
        Some("system") => SslMode::VerifyFull,
        _ => SslMode::default(),
    };
    Ok((word(settings, "sslmode", mode)?.unwrap_or(usual), tls))
}

fn word<T>(
    settings: &Settings,
    name: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let Some(text) = settings.word(name) else { return Ok(None) };
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

/// TLS versions that are not supported any more.
const OLD: [&str; 2] = ["TLSv1", "TLSv1.1"];

/// Read a TLS version.
///
/// Args: `below`, versions that mean no limit, because the oldest supported version is newer.
fn version(settings: &Settings, name: &str, below: &[&str]) -> Result<Option<TlsVersion>, Fault> {
    let Some(text) = settings.get(name) else { return Ok(None) };
    // As libpq: upper and lower case are equal.
    let is = |word: &&str| word.eq_ignore_ascii_case(&text);
    match text.as_str() {
        _ if below.iter().any(&is) => Ok(None),
        _ if is(&"TLSv1.2") => Ok(Some(TlsVersion::V12)),
        _ if is(&"TLSv1.3") => Ok(Some(TlsVersion::V13)),
        _ if OLD.iter().any(is) => {
            let step = "use TLSv1.2 or TLSv1.3";
            Err(fault(format!("{name} \"{text}\" is not supported")).hint(step))
        }
        _ => Err(fault(format!("invalid \"{name}\" value: \"{text}\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<(SslMode, TlsSettings), Fault> {
        settings(&Settings::of(given)?)
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
            ("sslpassword", "hunter2"),
            ("sslcertmode", "require"),
            ("require_auth", "kerberos"),
            ("requirepeer", "postgres"),
            ("min_protocol_version", "3.2"),
            ("oauth_client_secret", "hunter2"),
            ("sslnegotiation", "direct"),
            ("gssencmode", "require"),
            ("ssl_max_protocol_version", "TLSv1.1"),
        ] {
            let said = read(&[(name, value)]).expect_err("refused").text();
            assert!(said.contains(name) && !said.contains("hunter2"), "{said}");
        }
    }
}
