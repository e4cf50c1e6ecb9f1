//! The verifier against certificates that openssl makes as PostgreSQL's manual says, and the
//! adapter against a TLS server in memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ServerConfig, ServerConnection};

use super::TlsStream;
use super::verifier::{Roots, Verifier};

/// A folder of certificates, removed at the end.
struct Certificates(PathBuf);

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Certificates {
    /// None where openssl is missing, which CI must have: such tests are left out.
    fn new() -> Option<Certificates> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if Command::new("openssl").arg("version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "CI installs the Debian package openssl");
            eprintln!("skipped: no openssl here; Debian package openssl");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdyno-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a new folder");
        Some(Certificates(folder))
    }

    fn openssl(&self, line: &str) {
        let done = Command::new("openssl")
            .current_dir(&self.0)
            .args(line.split(' '))
            .output()
            .expect("openssl is installed");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A certificate that is its own root, as the manual's first example; v3, marked as authority.
    fn self_signed(&self, name: &str, host: &str) {
        self.openssl(&format!(
            "req -new -x509 -days 30 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
             -subj /CN={host} -keyout {name}.key -out {name}.crt"
        ));
    }

    /// `name`.crt signed by `authority`, with these lines of extensions; none = version 1.
    fn signed(&self, name: &str, host: &str, authority: &str, extensions: &str) {
        self.openssl(&format!(
            "req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN={host} \
             -keyout {name}.key -out {name}.csr"
        ));
        std::fs::write(self.path("extensions"), extensions).expect("a file");
        let extfile = if extensions.is_empty() { "" } else { " -extfile extensions" };
        self.openssl(&format!(
            "x509 -req -in {name}.csr -days 30 -CA {authority}.crt -CAkey {authority}.key \
             -CAcreateserial -out {name}.crt{extfile}"
        ));
    }

    fn read(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path(name)).expect("a certificate")
    }

    fn verifier(&self, roots: &[&str], host: Option<&str>) -> Verifier {
        let roots = Roots::new(roots.iter().map(|root| self.read(root)).collect());
        Verifier {
            algorithms: default_provider().signature_verification_algorithms,
            roots: Some(Arc::new(roots)),
            host: host.map(str::to_owned),
        }
    }
}

fn days_from_now(days: u64) -> UnixTime {
    UnixTime::since_unix_epoch(
        Duration::from_secs(UnixTime::now().as_secs()) + Duration::from_secs(days * 86_400),
    )
}

#[test]
fn a_self_signed_certificate_is_trusted_when_it_is_the_root_and_for_as_long_as_it_is_valid() {
    let Some(made) = Certificates::new() else { return };
    made.self_signed("own", "db.example");
    made.self_signed("other", "db.example");
    let own = made.read("own.crt");
    let verifier = made.verifier(&["own.crt"], Some("db.example"));
    assert_eq!(verifier.judge(&own, &[], days_from_now(0)), Ok(()));
    let late = verifier.judge(&own, &[], days_from_now(31)).expect_err("expired");
    assert!(late.message.contains("expired"), "{late}");
    let early = UnixTime::since_unix_epoch(Duration::from_secs(1_000_000_000));
    let early = verifier.judge(&own, &[], early).expect_err("not yet");
    assert!(early.message.contains("not valid yet"), "{early}");
    // The same name and another key.
    let other = verifier.judge(&made.read("other.crt"), &[], days_from_now(0));
    assert!(other.expect_err("another").message.contains("no root certificate signed"));
}

#[test]
fn a_certificate_of_version_1_or_3_that_a_root_signed_is_trusted() {
    let Some(made) = Certificates::new() else { return };
    made.self_signed("root", "authority");
    made.self_signed("stranger", "authority");
    made.signed("one", "db.example", "root", "");
    made.signed("three", "db.example", "root", "subjectAltName=DNS:db.example,IP:10.0.0.1,IP:::1");
    made.signed("authority", "db.example", "root", "basicConstraints=CA:TRUE");
    made.signed("client_only", "db.example", "root", "extendedKeyUsage=clientAuth");
    made.signed("strange", "db.example", "root", "1.2.3.4=critical,ASN1:NULL");
    let now = days_from_now(0);
    for name in ["one.crt", "three.crt", "authority.crt"] {
        let server = made.read(name);
        let judge = |root| made.verifier(&[root], Some("db.example")).judge(&server, &[], now);
        assert_eq!(judge("root.crt"), Ok(()), "{name}");
        assert!(judge("stranger.crt").is_err(), "{name}: the name of the root alone is not proof");
    }
    for name in ["client_only.crt", "strange.crt"] {
        let verifier = made.verifier(&["root.crt"], None);
        assert!(verifier.judge(&made.read(name), &[], now).is_err(), "{name}");
    }
    for (host, expected) in [
        ("10.0.0.1", true),
        ("::1", true),
        ("10.0.0.2", false),
        ("DB.example", true),
        ("db", false),
    ] {
        let verifier = made.verifier(&["root.crt"], Some(host));
        assert_eq!(verifier.judge(&made.read("three.crt"), &[], now).is_ok(), expected, "{host}");
    }
    let verifier = made.verifier(&["root.crt"], Some("db"));
    let wrong = verifier.judge(&made.read("three.crt"), &[], now).expect_err("another name");
    assert!(wrong.message.contains("\"db.example\", 10.0.0.1, ::1, not for \"db\""), "{wrong}");
}

#[test]
fn a_chain_is_followed_through_what_the_server_sends_or_the_root_file_has() {
    let Some(made) = Certificates::new() else { return };
    made.self_signed("root", "authority");
    made.signed("link", "link", "root", "basicConstraints=critical,CA:TRUE");
    made.signed("server", "db.example", "link", "subjectAltName=DNS:db.example");
    let (server, link, now) = (made.read("server.crt"), made.read("link.crt"), days_from_now(0));
    let by_root = made.verifier(&["root.crt"], Some("db.example"));
    assert_eq!(by_root.judge(&server, std::slice::from_ref(&link), now), Ok(()));
    assert!(by_root.judge(&server, &[], now).is_err());
    let with_link = made.verifier(&["root.crt", "link.crt"], Some("db.example"));
    assert_eq!(with_link.judge(&server, &[], now), Ok(()));
    // What is not self-signed is not a root.
    assert!(made.verifier(&["link.crt"], None).judge(&server, &[], now).is_err());
}

#[test]
fn a_certificate_that_was_changed_or_cut_is_refused_and_nothing_panics() {
    let Some(made) = Certificates::new() else { return };
    made.self_signed("root", "authority");
    made.signed("server", "db.example", "root", "subjectAltName=DNS:db.example");
    let verifier = made.verifier(&["root.crt"], None);
    let (bytes, now) = (made.read("server.crt").to_vec(), days_from_now(0));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let judged = verifier.judge(&changed.into(), &[], now);
        assert!(judged.is_err(), "byte {at} of {}", bytes.len());
        assert!(verifier.judge(&bytes[..at].to_vec().into(), &[], now).is_err());
    }
}

/// Both ends of a TLS connection in memory.
struct Pair {
    client: TlsStream,
    server: ServerConnection,
}

impl Pair {
    fn new(made: &Certificates) -> Pair {
        made.self_signed("own", "db.example");
        let provider = Arc::new(default_provider());
        let verifier = made.verifier(&["own.crt"], Some("db.example"));
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let key = PrivateKeyDer::from_pem_file(made.path("own.key")).expect("a key");
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.read("own.crt")], key)
            .expect("a pair");
        let name = ServerName::try_from("db.example").expect("a name");
        let client = TlsStream::new(&Arc::new(config), &name).expect("a session");
        let mut pair =
            Pair { client, server: ServerConnection::new(Arc::new(server)).expect("a session") };
        while pair.client.is_handshaking() || pair.server.is_handshaking() {
            let bytes = pair.client.to_send().to_vec();
            pair.server_reads(&bytes);
            let bytes = pair.server_sends();
            // One byte at a time: no record comes whole.
            for byte in bytes {
                let mut plain = Vec::new();
                pair.client.receive(&[byte], &mut plain).expect("valid");
                assert!(plain.is_empty());
            }
        }
        pair
    }

    /// What the server reads out of `bytes`.
    fn server_reads(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        use std::io::Read;
        let mut plain = Vec::new();
        while !bytes.is_empty() && self.server.read_tls(&mut bytes).expect("memory") > 0 {
            let state = self.server.process_new_packets().expect("valid");
            let mut part = vec![0; state.plaintext_bytes_to_read()];
            self.server.reader().read_exact(&mut part).expect("as many as it said");
            plain.extend(part);
        }
        plain
    }

    fn server_sends(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    /// `plain` as the server sends it, one record a piece.
    fn sealed(&mut self, pieces: &[&[u8]]) -> Vec<u8> {
        use std::io::Write;
        for piece in pieces {
            self.server.writer().write_all(piece).expect("room");
        }
        self.server_sends()
    }
}

#[test]
fn what_many_records_hold_comes_out_at_once_and_nothing_stays_in_the_session() {
    let Some(made) = Certificates::new() else { return };
    let mut pair = Pair::new(&made);
    let long = vec![7; 40_000];
    let sealed = pair.sealed(&[b"one", b"two", &long, b"three"]);
    let mut plain = Vec::new();
    pair.client.receive(&sealed, &mut plain).expect("valid");
    assert_eq!(plain, [&b"onetwo"[..], &long, b"three"].concat());
}

#[test]
fn a_record_that_is_cut_anywhere_comes_out_when_its_last_byte_is_there() {
    let Some(made) = Certificates::new() else { return };
    let mut pair = Pair::new(&made);
    let sealed = pair.sealed(&[b"whole"]);
    for byte in &sealed[..sealed.len() - 1] {
        let mut plain = Vec::new();
        pair.client.receive(&[*byte], &mut plain).expect("valid");
        assert!(plain.is_empty());
    }
    let mut plain = Vec::new();
    pair.client.receive(&sealed[sealed.len() - 1..], &mut plain).expect("valid");
    assert_eq!(plain, b"whole");
}

#[test]
fn what_is_sent_arrives_whole_however_long_it_is_and_goodbye_comes_last() {
    let Some(made) = Certificates::new() else { return };
    let mut pair = Pair::new(&made);
    let long: Vec<u8> = (0..200_000_u32).map(|index| index as u8).collect();
    let sealed = pair.client.encrypt(&long).to_vec();
    assert_eq!(pair.server_reads(&sealed), long);
    let sealed = pair.client.close(b"X").to_vec();
    assert_eq!(pair.server_reads(&sealed), b"X");
    assert!(pair.server.process_new_packets().expect("valid").peer_has_closed());
}

#[test]
fn the_servers_goodbye_ends_the_session_without_an_error() {
    let Some(made) = Certificates::new() else { return };
    let mut pair = Pair::new(&made);
    let mut sealed = pair.sealed(&[b"last words"]);
    pair.server.send_close_notify();
    sealed.extend(pair.server_sends());
    let mut plain = Vec::new();
    pair.client.receive(&sealed, &mut plain).expect("valid");
    assert_eq!(plain, b"last words");
    pair.client.receive(b"what follows counts no more", &mut plain).expect("ignored");
    assert_eq!(plain, b"last words");
}

#[test]
fn garbage_and_changed_bytes_are_errors_with_words_and_an_alert() {
    let Some(made) = Certificates::new() else { return };
    let mut pair = Pair::new(&made);
    let mut sealed = pair.sealed(&[b"money"]);
    *sealed.last_mut().expect("not empty") ^= 1;
    let mut plain = Vec::new();
    let error = pair.client.receive(&sealed, &mut plain).expect_err("changed");
    assert!(plain.is_empty() && error.message.contains("TLS"), "{error}");
    assert!(!pair.client.to_send().is_empty());

    let mut pair = Pair::new(&made);
    let error = pair.client.receive(b"HTTP/1.1 200 OK\r\n\r\n", &mut plain).expect_err("not TLS");
    assert!(error.message.contains("TLS") && !error.hint.is_empty(), "{error}");
}

#[test]
fn the_end_point_is_the_hash_that_openssl_computes() {
    let Some(made) = Certificates::new() else { return };
    let pair = Pair::new(&made);
    made.openssl("x509 -in own.crt -outform DER -out own.der");
    made.openssl("dgst -sha256 -binary -out own.hash own.der");
    let expected = std::fs::read(made.path("own.hash") as PathBuf).expect("a file");
    assert_eq!(pair.client.end_point(), Some(expected));
    assert!(Path::new(&made.0).exists());
}
