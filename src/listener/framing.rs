//! Where the requests in a client's bytes begin and end.
//!
//! The HTTP library settles a head with two lengths by itself and hides that it did. Here such a
//! head is noticed, so that it can be refused: two programs in a row might settle it differently,
//! and then take bytes of one request for another one.

/// How much of a line is looked at: a `Content-Length` with the longest number and some space fits.
const LINE_KEPT: usize = 64;

/// Follows the bytes of one connection, each exactly once and in order.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// The line being read, as far as it is kept.
    line: Vec<u8>,
    /// The last byte of it that came before those that are being fed.
    last: u8,
    /// Heads seen whole.
    heads: u64,
    /// The number of the first head that could be read in more than one way, or could not be told
    /// from a body, where there was one.
    ambiguous: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// Within a head.
    Head(Head),
    /// Within a body, or a chunk of one, with so many bytes to come.
    Bytes { left: u64, chunk: bool },
    /// At the line end after a chunk.
    ChunkEnd,
    /// At a chunk's size.
    ChunkSize,
    /// Within the trailer fields after the last chunk.
    Trailers,
    /// The bytes make no sense any more: the HTTP library refuses them, or is told to close.
    Lost,
}

/// What is known of a head so far.
#[derive(Debug, Default)]
struct Head {
    /// Lines seen, those before the request line left out.
    lines: u32,
    /// Fields that say how long the body is.
    lengths: u32,
    length: u64,
    chunked: bool,
    /// Whether a length could not be read, or a line ended in LF alone.
    unclear: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            state: State::Head(Head::default()),
            line: Vec::with_capacity(LINE_KEPT),
            last: 0,
            heads: 0,
            ambiguous: None,
        }
    }
}

impl Framing {
    /// Takes the next bytes of the connection.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match &mut self.state {
                State::Lost => return,
                State::Bytes { left, chunk } => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= skipped as u64;
                    if *left == 0 {
                        self.state =
                            if *chunk { State::ChunkEnd } else { State::Head(Head::default()) };
                    }
                    &bytes[skipped..]
                }
                State::Head(_) | State::ChunkEnd | State::ChunkSize | State::Trailers => {
                    self.take_line(bytes)
                }
            };
        }
    }

    /// Whether a head has begun and is not whole yet.
    pub(super) fn within_head(&self) -> bool {
        match &self.state {
            State::Head(head) => head.lines > 0 || !self.line.is_empty(),
            _ => false,
        }
    }

    /// The number, from 0, of the first head that could be read in more than one way, or could not
    /// be followed.
    pub(super) fn ambiguous(&self) -> Option<u64> {
        self.ambiguous
    }

    /// Adds bytes to the current line up to its end; returns what follows.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let kept = part.len().min(LINE_KEPT - self.line.len());
        self.line.extend_from_slice(&part[..kept]);
        let last = part.last().copied().unwrap_or(self.last);
        let Some(end) = end else {
            self.last = last;
            return &[];
        };
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        self.end_line(last == b'\r');
        self.line.clear();
        self.last = 0;
        &bytes[end + 1..]
    }

    /// Ends a line; `whole` says that it ends in CR LF. Some programs take LF alone for a line end
    /// and others do not, and they would see other fields in one head, or other chunks in one body.
    fn end_line(&mut self, whole: bool) {
        let empty = self.line.is_empty();
        if let State::Head(head) = &mut self.state {
            head.unclear |= !whole;
        }
        let next = match &mut self.state {
            State::Head(head) if empty && head.lines > 0 => {
                let (lengths, length, chunked) = (head.lengths, head.length, head.chunked);
                let ambiguous = lengths > 1 || head.unclear;
                if ambiguous && self.ambiguous.is_none() {
                    self.ambiguous = Some(self.heads);
                }
                self.heads += 1;
                match (ambiguous, chunked) {
                    (true, _) => State::Lost,
                    (false, true) => State::ChunkSize,
                    (false, false) => State::after_sized(length),
                }
            }
            State::Head(head) => {
                if !empty {
                    head.lines = head.lines.saturating_add(1);
                    head.field(&self.line);
                }
                return;
            }
            _ if !whole => State::Lost,
            State::ChunkEnd if empty => State::ChunkSize,
            State::ChunkSize => State::after_chunk_size(&self.line),
            State::Trailers if empty => State::Head(Head::default()),
            State::Trailers => return,
            State::ChunkEnd | State::Bytes { .. } | State::Lost => State::Lost,
        };
        if matches!(next, State::Lost) {
            // Should the library still read a request from here on, nobody has checked its head.
            self.ambiguous.get_or_insert(self.heads);
        }
        self.state = next;
    }
}

impl State {
    fn after_sized(length: u64) -> Self {
        match length {
            0 => Self::Head(Head::default()),
            left => Self::Bytes { left, chunk: false },
        }
    }

    fn after_chunk_size(line: &[u8]) -> Self {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        // A size whose end was not kept could be any.
        let whole = digits < LINE_KEPT;
        let size = str::from_utf8(&line[..digits]).ok().filter(|_| whole);
        let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match size {
            None => Self::Lost,
            Some(0) => Self::Trailers,
            Some(left) => Self::Bytes { left, chunk: true },
        }
    }
}

impl Head {
    /// Notes a field line that says how long the body is.
    fn field(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.lengths += 1;
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.lengths += 1;
            // A line that was cut may hold more of the number than was kept.
            let number = str::from_utf8(value).ok().filter(|_| line.len() < LINE_KEPT);
            match number.and_then(|number| number.parse().ok()) {
                Some(length) => self.length = length,
                None => self.unclear = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const SIZED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\r\n:\r\n";
    const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        a;x=y\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\nTrailer: x\r\n\r\n";
    const BOTH: &[u8] = b"POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\nHost: a\r\n\
        transfer-encoding:chunked\r\n\r\n";

    /// Feeds the parts in pieces of `size` bytes.
    fn fed(parts: &[&[u8]], size: usize) -> Framing {
        let mut framing = Framing::default();
        for piece in parts.concat().chunks(size) {
            framing.feed(piece);
        }
        framing
    }

    #[test]
    fn heads_are_told_from_bodies_however_the_bytes_are_cut() {
        let parts = [PLAIN, SIZED, b"\r\n", CHUNKED, PLAIN, CHUNKED, SIZED, BOTH];
        for size in 1..=parts.concat().len() {
            assert_eq!(fed(&parts, size).ambiguous(), Some(6), "pieces of {size}");
            let whole = fed(&parts[..7], size);
            assert_eq!((whole.heads, whole.ambiguous()), (6, None), "pieces of {size}");
            assert!(!whole.within_head());
        }
    }

    #[test]
    fn two_lengths_of_any_kind_are_ambiguous() {
        for fields in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
            "Content-Length: 1\r\nContent-Length: 1",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            assert_eq!(fed(&[head.as_bytes()], 7).ambiguous(), Some(0), "{fields}");
        }
    }

    #[test]
    fn a_line_that_ends_in_lf_alone_is_ambiguous() {
        for head in [
            "POST / HTTP/1.1\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n\n",
            "\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n",
            &format!("POST / HTTP/1.1\r\nX: {}\nHost: a\r\n\r\n", "x".repeat(100)),
        ] {
            for size in [1, 5, 1000] {
                assert_eq!(fed(&[head.as_bytes()], size).ambiguous(), Some(0), "{head:?}");
            }
        }
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n";
        assert_eq!(fed(&[chunked, PLAIN], 1).ambiguous(), Some(1));
    }

    #[test]
    fn a_length_that_is_not_seen_whole_is_ambiguous() {
        let head = format!("POST / HTTP/1.1\r\nContent-Length:{}5\r\n\r\n", " ".repeat(80));
        assert_eq!(fed(&[head.as_bytes()], 9).ambiguous(), Some(0));
    }

    /// The library reads any number of leading zeros; what follows must not go unchecked.
    #[test]
    fn after_a_chunk_that_is_not_followed_the_next_head_is_refused() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let zeros = format!("{head}{}f\r\n\r\nX: 1\r\n\r\nyy:zz\r\n0\r\n\r\n", "0".repeat(70));
        for size in [1, 7, 1000] {
            assert_eq!(fed(&[zeros.as_bytes(), BOTH], size).ambiguous(), Some(1));
            assert_eq!(fed(&[head.as_bytes(), b"1\r\nxx\r\n", BOTH], size).ambiguous(), Some(1));
        }
    }

    #[test]
    fn a_head_has_begun_with_its_first_byte() {
        assert!(!fed(&[PLAIN], 3).within_head());
        assert!(fed(&[PLAIN, b"G"], 1).within_head());
        assert!(!fed(&[b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"], 1).within_head());
    }
}
