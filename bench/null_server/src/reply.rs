//! Backend messages, appended to a buffer.

/// Width of a clock in a row: nanoseconds in decimal, zeros in front, so that it can be patched.
pub const STAMP_WIDTH: usize = 20;

/// Append one message; `body` writes what follows the length.
pub fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Everything a server says after a start-up packet it accepts.
pub fn welcome(out: &mut Vec<u8>, process_id: u32, secret: u32) {
    message(out, b'R', |out| out.extend_from_slice(&0_u32.to_be_bytes()));
    for (name, value) in [
        ("server_version", "15.0"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "Etc/UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "off"),
        ("in_hot_standby", "off"),
        ("default_transaction_read_only", "off"),
    ] {
        message(out, b'S', |out| {
            text(out, name);
            text(out, value);
        });
    }
    message(out, b'K', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
    ready(out, b'I');
}

/// The newest minor version of protocol 3 spoken here is 0.
pub fn only_version_3_0(out: &mut Vec<u8>) {
    message(out, b'v', |out| out.extend_from_slice(&[0; 8]));
}

/// ReadyForQuery with the transaction's status: `I`, `T` or `E`.
pub fn ready(out: &mut Vec<u8>, status: u8) {
    message(out, b'Z', |out| out.push(status));
}

/// A message without a body, such as ParseComplete.
pub fn bare(out: &mut Vec<u8>, kind: u8) {
    message(out, kind, |_| {});
}

pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// RowDescription; every column is of the type with this object id and length.
pub fn row_description(out: &mut Vec<u8>, names: &[&str], type_oid: u32, type_length: i16) {
    message(out, b'T', |out| {
        out.extend_from_slice(&(names.len() as u16).to_be_bytes());
        for name in names {
            text(out, name);
            out.extend_from_slice(&[0; 6]); // no table, no column number
            out.extend_from_slice(&type_oid.to_be_bytes());
            out.extend_from_slice(&type_length.to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&0_u16.to_be_bytes());
        }
    });
}

/// DataRow; None is NULL.
pub fn data_row(out: &mut Vec<u8>, values: &[Option<&[u8]>]) {
    message(out, b'D', |out| {
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            match value {
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(bytes) => {
                    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                    out.extend_from_slice(bytes);
                }
            }
        }
    });
}

/// DataRow of two clocks; returns where the second one lies, to be patched when the row leaves.
pub fn stamped_row(out: &mut Vec<u8>, received_ns: u64) -> usize {
    let stamp = format!("{received_ns:0width$}", width = STAMP_WIDTH);
    data_row(out, &[Some(stamp.as_bytes()), Some(&[b'0'; STAMP_WIDTH])]);
    out.len() - STAMP_WIDTH
}

pub fn error(out: &mut Vec<u8>, sqlstate: &[u8; 5], message_text: &str) {
    message(out, b'E', |out| {
        for (field, value) in [(b'S', "ERROR"), (b'V', "ERROR")] {
            out.push(field);
            text(out, value);
        }
        out.push(b'C');
        out.extend_from_slice(sqlstate);
        out.extend_from_slice(b"\0M");
        text(out, message_text);
        out.push(0);
    });
}

fn text(out: &mut Vec<u8>, value: &str) {
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}
