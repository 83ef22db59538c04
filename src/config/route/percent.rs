//! Paths in one spelling (RFC 3986, 6.2.2), so that no other spelling leads around a route.

use std::borrow::Cow;

/// The segments of a path after its first slash: encoded letters decoded, hexadecimal digits in
/// upper case, dot segments resolved. A path that does not begin with a slash has none.
pub(super) fn normal_segments(path: &str) -> Vec<Cow<'_, str>> {
    let Some(rest) = path.strip_prefix('/') else { return Vec::new() };
    let mut segments: Vec<Cow<'_, str>> = Vec::new();
    let mut parts = rest.split('/').map(normal).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match &*part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                // "/a/." and "/a/.." end in a slash.
                if last {
                    segments.push(Cow::Borrowed(""));
                }
            }
            _ => segments.push(part),
        }
    }
    segments
}

/// One segment in its normal spelling.
fn normal(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    let mut out = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let digits =
            rest.get(at + 1..at + 3).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        let Some(byte) = code else {
            // Not an encoded byte: it stands for itself.
            out.push('%');
            rest = &rest[at + 1..];
            continue;
        };
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}
