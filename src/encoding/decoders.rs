//! One decoder for each encoding. Each takes a whole body and refuses one with anything missing or
//! left over, since readers differ in what they make of that.

use std::io::Read;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

/// How much room is made for decoded bytes at a time.
const STEP_BYTES: usize = 16 * 1024;

/// The largest window of zstd, as a power of two: what RFC 9659 allows over HTTP, 8 MiB. A decoder
/// keeps as much in memory, whatever the length of the body.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why a body was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecoded {
    /// It is not what its encoding says.
    Malformed,
    /// It is larger than the limit.
    TooLarge,
}

/// One gzip member or several (RFC 1952).
pub(super) fn gzip(body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    read_all(MultiGzDecoder::new(body), limit)
}

/// `deflate`: a zlib stream (RFC 1950), or the bare one (RFC 1951) that some clients send under
/// this name.
pub(super) fn deflate(body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    match inflate(Decompress::new(true), body, limit) {
        Err(Undecoded::Malformed) => inflate(Decompress::new(false), body, limit),
        decoded => decoded,
    }
}

/// One brotli stream (RFC 7932), with a window of at most 16 MiB.
pub(super) fn brotli(body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut unread, mut read) = (body.len(), 0);
    let mut out = Vec::new();
    loop {
        let mut written = out.len();
        out.resize(written + STEP_BYTES, 0);
        let (mut room, mut total) = (STEP_BYTES, 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut read,
            body,
            &mut room,
            &mut written,
            &mut out,
            &mut total,
            &mut state,
        );
        out.truncate(written);
        if out.len() > limit {
            return Err(Undecoded::TooLarge);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess if unread == 0 => return Ok(out),
            _ => return Err(Undecoded::Malformed),
        }
    }
}

/// One zstd frame or several (RFC 8878).
pub(super) fn zstd(body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let reader = zstd::stream::read::Decoder::with_buffer(body).and_then(|mut decoder| {
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok(decoder)
    });
    read_all(reader.map_err(|_| Undecoded::Malformed)?, limit)
}

/// All that a reader decodes; an error of the reader is one of the body, since that is in memory.
fn read_all(reader: impl Read, limit: usize) -> Result<Vec<u8>, Undecoded> {
    let mut out = Vec::new();
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = reader.take(one_more).read_to_end(&mut out);
    if out.len() > limit {
        return Err(Undecoded::TooLarge);
    }
    read.map(|_| out).map_err(|_| Undecoded::Malformed)
}

fn inflate(mut stream: Decompress, body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let mut out = Vec::new();
    loop {
        out.reserve(STEP_BYTES);
        let before = (stream.total_in(), out.len());
        let unread = &body[stream.total_in() as usize..];
        let status = stream
            .decompress_vec(unread, &mut out, FlushDecompress::None)
            .map_err(|_| Undecoded::Malformed)?;
        if out.len() > limit {
            return Err(Undecoded::TooLarge);
        }
        let whole = stream.total_in() as usize == body.len();
        match status {
            Status::StreamEnd if whole => return Ok(out),
            Status::StreamEnd => return Err(Undecoded::Malformed),
            // There was room, so a stream that stands still waits for bytes that are missing.
            _ if before == (stream.total_in(), out.len()) => return Err(Undecoded::Malformed),
            _ => {}
        }
    }
}
