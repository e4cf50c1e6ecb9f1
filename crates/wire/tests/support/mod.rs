//! What the fuzz target and the tests of its corpus do with the bytes of a server.

use pgdyno_wire::{
    BytesMut, ChannelBinding, Handshake, Login, ProtocolError, Reply, ReplyScanner,
    SaltedPasswords, columns, messages, values,
};

/// What was made of the bytes.
#[derive(Debug, PartialEq)]
struct Seen {
    is_done: bool,
    error: Option<ProtocolError>,
    reply: Reply,
    left: usize,
}

/// Take the bytes as replies and as an opening; the first byte says how they are cut.
///
/// What holds of all bytes: no panic; the same is made of them however they are cut; nothing is
/// kept beyond what came.
pub(crate) fn receive(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(first & 0x1f) + 1;
    let ready_wanted = u32::from(first >> 6);
    for captures in [false, true] {
        let whole = scan(bytes, bytes.len().max(1), ready_wanted, captures);
        let cut = scan(bytes, cut, ready_wanted, captures);
        assert_eq!(whole, cut, "captures: {captures}");
        assert!(whole.reply.captured.len() <= bytes.len());
        read_rows(&whole.reply);
    }
    open(bytes, cut);
}

fn scan(bytes: &[u8], cut: usize, ready_wanted: u32, captures: bool) -> Seen {
    let (mut scanner, mut reply) = (ReplyScanner::default(), Reply::default());
    reply.keeps_notices = true;
    reply.reset(captures);
    let mut taken = 0;
    let (mut is_done, mut error) = (false, None);
    for piece in bytes.chunks(cut) {
        let mut input = piece;
        match scanner.feed(&mut input, ready_wanted, &mut reply) {
            Ok(done) => is_done = done,
            Err(found) => error = Some(found),
        }
        if error.is_some() {
            // How much of a broken stream was taken depends on the cut, and nobody reads on.
            return Seen { is_done: false, error, reply: Reply::default(), left: 0 };
        }
        taken += piece.len() - input.len();
        if is_done {
            break;
        }
        assert!(input.is_empty(), "what is not needed for an answer is not left behind");
    }
    Seen { is_done, error, reply, left: bytes.len() - taken }
}

/// Rows for `\gset`: whatever a server calls a row.
fn read_rows(reply: &Reply) {
    for message in messages(&reply.captured) {
        match message.tag {
            b'T' => drop(columns(message.body)),
            b'D' => {
                let row = values(message.body).unwrap_or_default();
                assert!(row.iter().flatten().all(|value| value.len() < message.body.len()));
            }
            _ => {}
        }
    }
}

/// A session is opened, or refused with words.
fn open(bytes: &[u8], cut: usize) {
    let login = Login {
        user: "ann".into(),
        password: Some("secret".into()),
        parameters: Vec::new(),
        channel_binding: ChannelBinding::Prefer,
        require_auth: None,
    };
    let mut out = BytesMut::new();
    let mut handshake = Handshake::start(&login, &mut out).expect("no zero byte");
    let mut salted = SaltedPasswords::default();
    for mut piece in bytes.chunks(cut) {
        match handshake.advance(&login, &mut salted, &mut piece, &mut out) {
            Ok(pgdyno_wire::Advance::Continue) => {}
            Ok(_) => return,
            Err(error) => {
                let said = error.to_string();
                assert!(!said.is_empty() && !said.contains("secret"), "{said}");
                return;
            }
        }
    }
}
