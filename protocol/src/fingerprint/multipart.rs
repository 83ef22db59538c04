//! The parts of a `multipart/form-data` body (RFC 7578).
//!
//! The boundary between parts is drawn anew for every request, so an honest repeat differs from the
//! first request in every delimiter: what counts of such a body is its parts. A body is read as
//! strictly as the standard writes it. Where it leaves anything open (text before the first
//! delimiter or behind the last one, lines that end in one character, a part without a name or with
//! a transfer encoding) readers disagree about what it says, and it is compared byte for byte.

use super::media::MediaType;
use super::parameters::parameters;

/// The most parts that are put in order; upstreams bound forms well below it.
const PARTS_MAX: usize = 1024;

/// The most header lines of one part; three are in use.
const PART_LINES_MAX: usize = 16;

/// The longest boundary (RFC 2046, 5.1.1).
const BOUNDARY_MAX: usize = 70;

/// A part, as far as it counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// The field's name, as it is spelled.
    pub(super) name: &'a [u8],
    /// The parameters `filename` and `filename*`, as they are spelled.
    pub(super) file_names: [Option<&'a [u8]>; 2],
    /// Its media type, where it says one.
    pub(super) media_type: Option<MediaType>,
    /// Its content.
    pub(super) content: &'a [u8],
}

/// The parts of a body with this `Content-Type`, sorted by name; parts of one name stay in their
/// order. `None` where it cannot be said for sure what the parts are, and when there are too many.
///
/// As with other forms the order of different names does not count, since a client that keeps its
/// fields in a map writes them in another order when it repeats the request.
pub(super) fn ordered_parts<'a>(content_type: &[u8], body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let delimiter = [b"\r\n--", boundary(content_type)?].concat();
    // The line break belongs to the delimiter, but for the first one in a body.
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix(b"--") {
            if !matches!(behind, b"" | b"\r\n") {
                return None;
            }
            parts.sort_by(|one: &Part<'_>, other| one.name.cmp(other.name));
            return Some(parts);
        }
        if parts.len() == PARTS_MAX {
            return None;
        }
        let (mut part, behind) = head(rest.strip_prefix(b"\r\n")?)?;
        let end = find(behind, &delimiter)?;
        part.content = &behind[..end];
        parts.push(part);
        rest = &behind[end + delimiter.len()..];
    }
}

fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let parameters = parameters(content_type)?;
    let (_, boundary) = parameters.into_iter().find(|(name, _)| name == b"boundary")?;
    let fits = (1..=BOUNDARY_MAX).contains(&boundary.len());
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (fits && boundary.iter().all(allowed) && !boundary.ends_with(b" ")).then_some(boundary)
}

/// Reads the header lines of a part; returns it without its content, and what follows the lines.
fn head(text: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let mut rest = text;
    let (mut disposition, mut media_type) = (None, None);
    for _ in 0..=PART_LINES_MAX {
        let end = find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            let [name, plain, extended] = disposition?;
            let file_names = [plain, extended];
            return Some((Part { name: name?, file_names, media_type, content: &[] }, rest));
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-disposition") {
            if disposition.replace(form_data(value)?).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"content-type") {
            if media_type.replace(MediaType::of(value)).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"content-transfer-encoding")
            || !name.iter().all(u8::is_ascii_graphic)
        {
            return None;
        }
    }
    None
}

/// The parameters `name`, `filename` and `filename*` of a part's disposition.
fn form_data(value: &[u8]) -> Option<[Option<&[u8]>; 3]> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    if !value[..end].trim_ascii().eq_ignore_ascii_case(b"form-data") {
        return None;
    }
    let parameters = parameters(value)?;
    let find =
        |wanted: &[u8]| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    Some([find(b"name"), find(b"filename"), find(b"filename*")])
}

/// Where `needle` begins in `text`. A needle begins with its only carriage return, so that nothing
/// that was compared in vain has to be looked at again.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|byte| *byte == b'\r')?;
        if text[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests;
