//! Cuts the byte stream of a server into messages, and stores only incomplete messages.

use crate::error::ProtocolError;

const HEADER: usize = 5;

/// Maximum length of any server message, in bytes: the server builds a message in one allocation
/// of at most 1 GiB (MaxAllocSize).
const MAX_LENGTH: u32 = 1 << 30;

/// Maximum length, in bytes, of a message that is stored because it arrived in parts (16 MiB).
const MAX_KEPT: u32 = 16 << 20;

/// Pass this as `skip` to receive every body.
pub const NEVER_SKIP: fn(u8) -> bool = |_| false;

/// One server message with a borrowed body. A skipped message has an empty body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

/// Cuts received bytes into messages, whatever the sizes of the network's packets.
///
/// The bytes of a message that arrived whole are borrowed from the caller's buffer. Therefore a
/// connection without an incomplete message uses no memory here.
#[derive(Debug, Default)]
pub struct Framer {
    /// The part that has arrived of an incomplete message: header and body.
    partial: Vec<u8>,
    /// `partial` was returned to the caller and must be cleared before the next message.
    partial_done: bool,
    /// Number of bytes of a skipped message that have not arrived yet.
    skipping: usize,
}

impl Framer {
    /// Return the next whole message of `input`, and shorten `input` by the bytes that were used.
    ///
    /// If `skip(tag)` is true, the message is returned without its body as soon as its header has
    /// arrived, and its body is never stored.
    ///
    /// Returns: `None` if more bytes are needed; all of `input` was then used. Errors: an unknown
    /// tag, or a length that no server sends.
    #[inline(always)]
    pub fn next<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
        skip: impl Fn(u8) -> bool,
    ) -> Result<Option<Message<'f>>, ProtocolError> {
        if self.skipping > 0 {
            let step = self.skipping.min(input.len());
            *input = &input[step..];
            self.skipping -= step;
            if self.skipping > 0 {
                return Ok(None);
            }
        }
        if !self.partial.is_empty() || input.len() < HEADER {
            return self.next_split(input, skip);
        }
        let (tag, body_length) = header(input)?;
        if skip(tag) {
            let step = input.len().min(HEADER + body_length);
            self.skipping = HEADER + body_length - step;
            *input = &input[step..];
            return Ok(Some(Message { tag, body: &[] }));
        }
        let end = HEADER + body_length;
        if input.len() < end {
            return self.next_split(input, skip);
        }
        let body = &input[HEADER..end];
        *input = &input[end..];
        Ok(Some(Message { tag, body }))
    }

    /// Return true if no message is incomplete.
    pub fn is_idle(&self) -> bool {
        self.skipping == 0 && (self.partial.is_empty() || self.partial_done)
    }

    /// `next` for a message that arrived in parts.
    #[cold]
    fn next_split<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
        skip: impl Fn(u8) -> bool,
    ) -> Result<Option<Message<'f>>, ProtocolError> {
        if self.partial_done {
            // An idle connection must not keep the memory of a long message.
            self.partial = Vec::new();
            self.partial_done = false;
            if input.len() >= HEADER {
                return self.next(input, skip);
            }
        }
        self.keep(input, HEADER);
        if self.partial.len() < HEADER {
            return Ok(None);
        }
        let (tag, body_length) = header(&self.partial)?;
        if skip(tag) {
            self.partial.clear();
            let step = body_length.min(input.len());
            *input = &input[step..];
            self.skipping = body_length - step;
            return Ok(Some(Message { tag, body: &[] }));
        }
        if body_length > MAX_KEPT as usize {
            return Err(ProtocolError::Length { tag, length: body_length as u32 + 4 });
        }
        self.keep(input, HEADER + body_length);
        if self.partial.len() < HEADER + body_length {
            return Ok(None);
        }
        self.partial_done = true;
        Ok(Some(Message { tag, body: &self.partial[HEADER..] }))
    }

    /// Move bytes from `input` until `partial` has `wanted` bytes. Memory grows with the bytes that
    /// arrived, not with the length that the header claims.
    fn keep(&mut self, input: &mut &[u8], wanted: usize) {
        let step = wanted.saturating_sub(self.partial.len()).min(input.len());
        self.partial.extend_from_slice(&input[..step]);
        *input = &input[step..];
    }
}

/// Return tag and body length; `bytes` must have at least `HEADER` bytes.
#[inline(always)]
fn header(bytes: &[u8]) -> Result<(u8, usize), ProtocolError> {
    let tag = bytes[0];
    if !is_backend_tag(tag) {
        return Err(ProtocolError::UnknownTag(tag));
    }
    let length = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    if !(4..=MAX_LENGTH).contains(&length) {
        return Err(ProtocolError::Length { tag, length });
    }
    Ok((tag, length as usize - 4))
}

/// Source: manual, "Message Formats", the messages marked (B).
#[inline]
fn is_backend_tag(tag: u8) -> bool {
    matches!(
        tag,
        b'R' | b'K'
            | b'2'
            | b'3'
            | b'C'
            | b'd'
            | b'c'
            | b'G'
            | b'H'
            | b'W'
            | b'D'
            | b'I'
            | b'E'
            | b'V'
            | b'v'
            | b'n'
            | b'N'
            | b'A'
            | b't'
            | b'S'
            | b'1'
            | b's'
            | b'Z'
            | b'T'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn cut(pieces: &[&[u8]], skip: impl Fn(u8) -> bool + Copy) -> Vec<(u8, Vec<u8>)> {
        let mut framer = Framer::default();
        let mut messages = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(message) = framer.next(&mut piece, skip).expect("valid bytes") {
                messages.push((message.tag, message.body.to_vec()));
            }
            assert!(piece.is_empty());
        }
        assert!(framer.is_idle());
        messages
    }

    fn any_tag() -> impl Strategy<Value = u8> {
        prop::sample::select(b"DCZETS".to_vec())
    }

    fn any_body() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..40)
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_the_network_cuts_them(
            bodies in prop::collection::vec((any_tag(), any_body()), 0..12),
            sizes in prop::collection::vec(1_usize..20, 1..40),
            rows_skipped in any::<bool>(),
        ) {
            let whole = bodies.iter().flat_map(|(tag, body)| message(*tag, body));
            let bytes: Vec<u8> = whole.collect();
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, tail) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            let skip = |tag| rows_skipped && tag == b'D';
            let expected: Vec<_> = bodies
                .iter()
                .map(|(tag, body)| (*tag, if skip(*tag) { Vec::new() } else { body.clone() }))
                .collect();
            prop_assert_eq!(cut(&pieces, skip), expected);
        }

        #[test]
        fn garbage_is_an_error_or_waits_for_more_and_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            size in 1_usize..50,
        ) {
            let mut framer = Framer::default();
            'stream: for mut piece in bytes.chunks(size) {
                loop {
                    match framer.next(&mut piece, |tag| tag == b'D') {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'stream,
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_of_one_gigabyte_is_walked_over_without_being_stored() {
        let mut framer = Framer::default();
        let head = [b'D', 0x3f, 0xff, 0xff, 0xff];
        let mut input = head.as_slice();
        assert_eq!(
            framer.next(&mut input, |tag| tag == b'D'),
            Ok(Some(Message { tag: b'D', body: &[] }))
        );
        let block = vec![0_u8; 1 << 16];
        for _ in 0..100 {
            let mut input = block.as_slice();
            assert_eq!(framer.next(&mut input, |tag| tag == b'D'), Ok(None));
            assert!(input.is_empty());
        }
        assert_eq!(framer.partial.capacity(), 0);
    }

    #[test]
    fn an_error_text_that_claims_a_gigabyte_is_refused_at_its_header() {
        let mut framer = Framer::default();
        let mut input = [b'E', 0x3f, 0xff, 0xff, 0xff].as_slice();
        assert!(matches!(
            framer.next(&mut input, NEVER_SKIP),
            Err(ProtocolError::Length { tag: b'E', length: 0x3fff_ffff })
        ));
        assert!(framer.partial.capacity() < 100);
    }

    #[test]
    fn lengths_that_no_server_sends_and_unknown_tags_are_refused() {
        for bytes in [[b'Z', 0, 0, 0, 3], [b'D', 0x7f, 0xff, 0xff, 0xff], [b'Q', 0, 0, 0, 5]] {
            assert!(Framer::default().next(&mut bytes.as_slice(), NEVER_SKIP).is_err());
        }
    }
}
