//! Handshakes and replies from byte arrays, as a server would send them.

use pgdyno_wire::{
    Advance, BytesMut, ChannelBinding, Handshake, HandshakeError, Login, ProtocolError, Reply,
    ReplyScanner, RequireAuth, SaltedPasswords, Session, TransactionStatus, cancel_request,
    columns, messages, values,
};
use proptest::prelude::*;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn login(password: Option<&str>) -> Login {
    Login {
        user: "ann".into(),
        password: password.map(Into::into),
        parameters: vec![("database".into(), "bank".into())],
        channel_binding: ChannelBinding::Prefer,
        require_auth: None,
    }
}

/// Feed `server` to a new handshake; what it sent after the start-up message, and how it ended.
fn handshake(server: &[u8], login: &Login) -> (Vec<u8>, Result<Advance, HandshakeError>) {
    let mut out = BytesMut::new();
    let mut handshake = Handshake::start(login, &mut out).expect("no zero byte");
    assert_eq!(&out[..], b"\0\0\0\x20\0\x03\0\0user\0ann\0database\0bank\0\0");
    out.clear();
    let mut input = server;
    let end = handshake.advance(login, &mut SaltedPasswords::default(), &mut input, &mut out);
    (out.to_vec(), end)
}

fn welcome() -> Vec<u8> {
    [
        message(b'R', &[0, 0, 0, 0]),
        message(b'S', b"server_version\x0015.7\0"),
        message(b'K', &[0, 0, 1, 0, 0, 0, 0, 7]),
        message(b'Z', b"I"),
    ]
    .concat()
}

#[test]
fn trust_needs_no_answer_and_the_session_is_known() {
    let (sent, end) = handshake(&welcome(), &login(None));
    assert!(sent.is_empty());
    let Ok(Advance::Ready(session)) = end else { panic!("{end:?}") };
    assert_eq!((session.process_id, session.secret_key), (256, 7));
    assert_eq!(session.parameters["server_version"], "15.7");
}

#[test]
fn an_older_minor_version_of_the_protocol_is_tolerated() {
    let bytes = [message(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]), welcome()].concat();
    assert!(matches!(handshake(&bytes, &login(None)).1, Ok(Advance::Ready(_))));
}

#[test]
fn password_and_md5_are_answered() {
    let (sent, end) = handshake(&message(b'R', &[0, 0, 0, 3]), &login(Some("pass")));
    assert_eq!(end, Ok(Advance::Continue));
    assert_eq!(sent, message(b'p', b"pass\0"));

    // md5(md5("pass" + "ann") + salt), computed with md5sum.
    let (sent, _) = handshake(&message(b'R', b"\0\0\0\x05abcd"), &login(Some("pass")));
    assert_eq!(sent, message(b'p', b"md5647b6f024b41ec134763e331b2f54c31\0"));
}

#[test]
fn a_missing_password_and_an_unknown_method_are_named() {
    for request in [&b"\0\0\0\x03"[..], b"\0\0\0\x05abcd", b"\0\0\0\x0aSCRAM-SHA-256\0\0"] {
        let (_, end) = handshake(&message(b'R', request), &login(None));
        assert_eq!(end, Err(HandshakeError::PasswordMissing));
    }
    let (_, end) = handshake(&message(b'R', &[0, 0, 0, 7]), &login(None));
    assert_eq!(end, Err(HandshakeError::Unsupported("GSSAPI".into())));
    let (_, end) = handshake(&message(b'R', b"\0\0\0\x0aOTHER\0\0"), &login(Some("x")));
    assert_eq!(end, Err(HandshakeError::Unsupported("SASL OTHER".into())));
}

#[test]
fn a_server_may_not_skip_its_own_proof_in_scram() {
    let bytes =
        [message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"), message(b'R', &[0, 0, 0, 0])].concat();
    let (_, end) = handshake(&bytes, &login(Some("x")));
    assert_eq!(end, Err(HandshakeError::Protocol(ProtocolError::Unexpected(b'R'))));
}

#[test]
fn a_server_is_refused_that_asks_for_what_require_auth_does_not_allow() {
    let of = |text| Login {
        require_auth: RequireAuth::parse(text).expect("valid"),
        ..login(Some("pass"))
    };
    let (sent, end) = handshake(&message(b'R', &[0, 0, 0, 3]), &of("scram-sha-256"));
    assert!(sent.is_empty(), "the password stays here");
    let Err(HandshakeError::NotAllowed(said)) = end else { panic!("{end:?}") };
    assert!(said.ends_with("failed: server requested a cleartext password"), "{said}");
    let (_, end) = handshake(&welcome(), &of("!none"));
    assert!(matches!(end, Err(HandshakeError::NotAllowed(_))), "{end:?}");
    // A password was asked for and given: then the server may let the user in.
    let asked = [message(b'R', &[0, 0, 0, 3]), welcome()].concat();
    assert!(matches!(handshake(&asked, &of("password")).1, Ok(Advance::Ready(_))));
}

#[test]
fn a_refusal_by_the_server_keeps_its_words() {
    let body = b"SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0";
    let (_, end) = handshake(&message(b'E', body), &login(None));
    let Err(HandshakeError::Server(error)) = end else { panic!("{end:?}") };
    assert_eq!(error.sqlstate.as_str(), "53300");
    assert_eq!(error.message, "sorry, too many clients already");
}

#[test]
fn a_cancel_request_has_the_key_of_the_backend() {
    let mut out = BytesMut::new();
    let session = Session { process_id: 256, secret_key: 7, ..Session::default() };
    cancel_request(&session, &mut out);
    assert_eq!(&out[..], &[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 1, 0, 0, 0, 0, 7]);
}

fn row(fields: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        match field {
            Some(text) => {
                body.extend((text.len() as i32).to_be_bytes());
                body.extend(*text);
            }
            None => body.extend((-1_i32).to_be_bytes()),
        }
    }
    message(b'D', &body)
}

fn select_reply() -> Vec<u8> {
    let mut description = vec![0, 1];
    description.extend(b"abalance\0");
    description.extend([0; 18]);
    [
        message(b'2', b""),
        message(b'T', &description),
        row(&[Some(b"42")]),
        row(&[None]),
        message(b'C', b"SELECT 2\0"),
        message(b'Z', b"T"),
    ]
    .concat()
}

#[test]
fn a_reply_is_counted_without_its_rows() {
    let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
    let bytes = select_reply();
    let mut input = bytes.as_slice();
    assert_eq!(scanner.feed(&mut input, 1, &mut reply), Ok(true));
    assert!(input.is_empty());
    assert_eq!((reply.row_count, reply.command_count, reply.ready_count), (2, 1, 1));
    assert_eq!(reply.status, TransactionStatus::InBlock);
    assert!(reply.captured.is_empty() && reply.error.is_none() && !reply.committed);
}

#[test]
fn rows_are_kept_when_asked_for() {
    let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
    reply.reset(true);
    for byte in select_reply() {
        scanner.feed(&mut [byte].as_slice(), 1, &mut reply).expect("valid");
    }
    let kept: Vec<_> = messages(&reply.captured).collect();
    assert_eq!(kept.iter().map(|m| m.tag).collect::<Vec<_>>(), b"TDDC");
    assert_eq!(columns(kept[0].body), Ok(vec!["abalance".into()]));
    assert_eq!(values(kept[1].body), Ok(vec![Some(b"42".as_slice())]));
    assert_eq!(values(kept[2].body), Ok(vec![None]));
}

#[test]
fn the_first_error_of_a_pipeline_is_kept_and_the_syncs_are_counted() {
    let bytes = [
        message(b'E', b"SERROR\0C40001\0Mfirst\0\0"),
        message(b'Z', b"E"),
        message(b'E', b"SERROR\0C25P02\0Msecond\0\0"),
        message(b'Z', b"E"),
    ]
    .concat();
    let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
    let mut input = bytes.as_slice();
    assert_eq!(scanner.feed(&mut input, 2, &mut reply), Ok(true));
    assert_eq!(reply.error.expect("an error").sqlstate.as_str(), "40001");
    assert_eq!(reply.status, TransactionStatus::FailedBlock);
}

#[test]
fn a_commit_is_told_from_a_rollback_by_its_tag() {
    for (tag, committed) in [(b"COMMIT\0".as_slice(), true), (b"ROLLBACK\0", false)] {
        let bytes = [message(b'C', tag), message(b'Z', b"I")].concat();
        let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
        assert_eq!(scanner.feed(&mut bytes.as_slice(), 1, &mut reply), Ok(true));
        assert_eq!(reply.committed, committed);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_scanner_or_the_row_readers_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        tags in prop::collection::vec(prop::sample::select(b"ZCDTEGS".to_vec()), 0..20),
    ) {
        let _ = columns(&bytes);
        let _ = values(&bytes);
        let _ = messages(&bytes).count();
        let mut reply = Reply::default();
        reply.reset(true);
        let _ = ReplyScanner::default().feed(&mut bytes.as_slice(), 1, &mut reply);
        let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
        for (tag, body) in tags.iter().zip(bytes.chunks(7)) {
            let framed = message(*tag, body);
            if scanner.feed(&mut framed.as_slice(), 3, &mut reply).is_err() { break; }
        }
        let login = login(Some("x"));
        let mut out = BytesMut::new();
        let mut handshake = Handshake::start(&login, &mut out).expect("no zero byte");
        let framed = message(b'R', &bytes);
        let _ = handshake.advance(
            &login, &mut SaltedPasswords::default(), &mut framed.as_slice(), &mut out,
        );
    }
}

/// Feed `server` to a handshake under TLS with `channel_binding`.
fn bound(
    server: &[u8],
    channel_binding: ChannelBinding,
) -> (Vec<u8>, Result<Advance, HandshakeError>) {
    let login = Login { channel_binding, ..login(Some("pass")) };
    let mut out = BytesMut::new();
    let mut handshake = Handshake::start(&login, &mut out).expect("no zero byte");
    handshake.bind_to(vec![1, 2, 3]);
    out.clear();
    let mut input = server;
    let end = handshake.advance(&login, &mut SaltedPasswords::default(), &mut input, &mut out);
    (out.to_vec(), end)
}

#[test]
fn the_mechanism_follows_channel_binding_and_what_the_server_offers() {
    let both = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let plain = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let contains = |sent: &[u8], text: &[u8]| sent.windows(text.len()).any(|part| part == text);
    for (server, binding, begins) in [
        (&both, ChannelBinding::Prefer, &b"SCRAM-SHA-256-PLUS\0"[..]),
        (&both, ChannelBinding::Prefer, b"p=tls-server-end-point,,n=,r="),
        (&both, ChannelBinding::Require, b"p=tls-server-end-point,,n=,r="),
        (&both, ChannelBinding::Disable, b"n,,n=,r="),
        // "y": could have bound; a server that did offer it knows that somebody took it away.
        (&plain, ChannelBinding::Prefer, b"y,,n=,r="),
    ] {
        let (sent, end) = bound(server, binding);
        assert_eq!(end, Ok(Advance::Continue));
        assert!(contains(&sent, begins), "{}", sent.escape_ascii());
    }
}

#[test]
fn required_channel_binding_refuses_everything_that_is_not_bound() {
    for request in
        [&b"\0\0\0\0"[..], b"\0\0\0\x03", b"\0\0\0\x05abcd", b"\0\0\0\x0aSCRAM-SHA-256\0\0"]
    {
        let (sent, end) = bound(&message(b'R', request), ChannelBinding::Require);
        assert_eq!((sent.as_slice(), end), (&b""[..], Err(HandshakeError::NotBound)));
    }
}
