//! Encodes the messages that a load sends repeatedly, into a plain vector.
//!
//! The bytes that are the same in every execution of a statement are encoded once (`Template`).

/// The unnamed portal: every execution uses it.
const PORTAL: &[u8] = b"\0";

/// Write `Query`; `text` writes the statement.
#[inline]
pub fn query(out: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'Q', |out| {
        text(out);
        out.push(0);
    });
}

/// Write `Parse`; the server infers the parameter types of the statement.
pub fn parse(out: &mut Vec<u8>, name: &str, text: &[u8]) {
    message(out, b'P', |out| {
        push_string(out, name);
        out.extend_from_slice(text);
        out.extend_from_slice(&[0, 0, 0]);
    });
}

/// Write `Sync`.
#[inline]
pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(b"S\0\0\0\x04");
}

/// Write `CopyFail`, the answer to a COPY FROM STDIN for which there are no data.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    message(out, b'f', |out| push_string(out, reason));
}

/// Write `CopyData`.
pub fn copy_data(out: &mut Vec<u8>, rows: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(rows));
}

/// Write `CopyDone`.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// Write `Terminate`.
pub fn terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(b"X\0\0\0\x04");
}

/// `Bind`, `Describe` and `Execute` of one statement. Everything except the parameter values is
/// encoded once, in `new`. Parameters and results are text.
///
/// `Describe` asks for column names even if the load does not use them. libpq, and therefore
/// pgbench, does the same, so the server does equal work for both programs.
#[derive(Clone, Debug)]
pub struct Template {
    before_values: Vec<u8>,
    after_values: Vec<u8>,
}

impl Template {
    /// Encode everything except the parameter values.
    ///
    /// Args: `name` of the prepared statement; empty for the unnamed statement.
    pub fn new(name: &str, parameter_count: u16) -> Template {
        // `execute` fills in the length, when the values are known.
        let mut before_values = b"B\0\0\0\0".to_vec();
        before_values.extend_from_slice(PORTAL);
        push_string(&mut before_values, name);
        // No format codes: everything is text.
        before_values.extend_from_slice(&[0, 0]);
        before_values.extend_from_slice(&parameter_count.to_be_bytes());
        let mut after_values = vec![0, 0];
        message(&mut after_values, b'D', |out| {
            out.push(b'P');
            out.extend_from_slice(PORTAL);
        });
        message(&mut after_values, b'E', |out| {
            out.extend_from_slice(PORTAL);
            // All rows.
            out.extend_from_slice(&[0; 4]);
        });
        Template { before_values, after_values }
    }

    /// Write `Bind`, `Describe` and `Execute`; `values` calls `push_value` for each parameter.
    #[inline]
    pub fn execute(&self, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
        let begin = out.len();
        out.extend_from_slice(&self.before_values);
        values(out);
        // Bind includes the two bytes of result formats, which `after_values` begins with. The
        // length does not include the tag.
        let length = (out.len() - begin - 1 + 2) as u32;
        out[begin + 1..begin + 5].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.after_values);
    }
}

/// Write one parameter value of `Bind`; `None` = NULL.
#[inline]
pub fn push_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(text) => {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text);
        }
        None => out.extend_from_slice(&[0xff; 4]),
    }
}

#[inline]
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    // A zero byte would end the string early. Texts are checked for zero bytes when they are read.
    debug_assert!(!text.contains('\0'));
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use postgres_protocol::IsNull;
    use postgres_protocol::message::frontend;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_protocol_crate() {
        let mut ours = Vec::new();
        let mut theirs = BytesMut::new();
        query(&mut ours, |out| out.extend_from_slice(b"SELECT 1"));
        frontend::query("SELECT 1", &mut theirs).expect("valid");
        parse(&mut ours, "p", b"SELECT $1, $2");
        frontend::parse("p", "SELECT $1, $2", [], &mut theirs).expect("valid");
        Template::new("p", 2).execute(&mut ours, |out| {
            push_value(out, Some(b"42"));
            push_value(out, None);
        });
        let values = [Some("42"), None];
        let write = |value: Option<&str>, out: &mut BytesMut| match value {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        };
        assert!(frontend::bind("", "p", [], values, write, [], &mut theirs).is_ok());
        frontend::describe(b'P', "", &mut theirs).expect("valid");
        frontend::execute("", 0, &mut theirs).expect("valid");
        sync(&mut ours);
        frontend::sync(&mut theirs);
        copy_fail(&mut ours, "no data");
        frontend::copy_fail("no data", &mut theirs).expect("valid");
        copy_data(&mut ours, b"1\n");
        frontend::CopyData::new(&b"1\n"[..]).expect("valid").write(&mut theirs);
        copy_done(&mut ours);
        frontend::copy_done(&mut theirs);
        terminate(&mut ours);
        frontend::terminate(&mut theirs);
        assert_eq!(ours, &theirs[..]);
    }
}
