//! Torn journals: what fjall does not look after itself.
//!
//! A journal's space is reserved when it is made, and its pages reach the disk in any order. A
//! power loss can therefore leave zeros in front of bytes that were written after them. fjall cuts
//! its newest journal where it cannot parse on, but zeros within a large value parse well: then the
//! checksum fails and fjall refuses to open, for good. And in older journals, which were synced
//! whole before the next was begun, it cuts as well, and replays the newer ones behind the gap.
//!
//! So before fjall opens, the newest journal is cut behind its last whole batch. No promise is
//! broken: what was synced is not torn, and the rest comes from the log. (Should the disk have lost
//! what was synced, the shards' positions have fallen behind what the log still holds; their owner
//! checks that.) Older journals must be whole.
//!
//! Layout of a journal of fjall 3.1.13 (numbers little endian): batches, then zeros. A batch is a
//! start (`1`, number of items: 4, sequence number: 8), its items, and an end (`3`, XXH3 of the
//! items: 8, `FJL\x03`). An item is a change (`2`, kind: 1, compression: 1, keyspace: 8, length of
//! key: 2, of value: 4, of value as stored: 4, key, value) or a cleared keyspace (`4`, keyspace:
//! 8).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::failed;
use crate::error::StartError;

const START: u8 = 1;
const CHANGE: u8 = 2;
const END: u8 = 3;
const CLEARED: u8 = 4;

const TRAILER: &[u8] = b"FJL\x03";
const UNCOMPRESSED: u8 = 0;

/// Journals are read in pieces of this size.
const READ_BYTES: usize = 256 << 10;

/// What is compared with the space behind the last batch.
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];

/// Cuts the torn tail off the newest journal in `dir`.
///
/// # Errors
/// `Damaged` when an older one is not whole; `Io`.
pub(super) fn mend(dir: &Path) -> Result<(), StartError> {
    let mut journals = list(dir).map_err(failed("list", dir))?;
    let newest = journals.pop();
    for (_, path) in journals {
        let scan = File::open(&path).and_then(scan).map_err(failed("read", &path))?;
        if let Some(what) = scan.torn {
            return Err(StartError::Damaged {
                file: path,
                offset: scan.whole,
                what: what.to_owned(),
            });
        }
    }
    let Some((_, path)) = newest else { return Ok(()) };
    let scan = File::open(&path).and_then(scan).map_err(failed("read", &path))?;
    if let Some(what) = scan.torn {
        tracing::warn!(offset = scan.whole, what, "torn tail of the record journal is cut off");
        cut(&path, scan.whole).map_err(failed("cut", &path))?;
    }
    Ok(())
}

/// The journals in `dir` with their numbers, oldest first.
pub(super) fn list(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_suffix(".jnl").and_then(|number| number.parse().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort_unstable();
    Ok(journals)
}

fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes)?;
    file.sync_all()
}

/// What a journal holds.
#[derive(Debug, PartialEq, Eq)]
struct Scan {
    /// Bytes of its whole batches.
    whole: u64,
    /// What is wrong behind them, if anything but zeros is there.
    torn: Option<&'static str>,
}

fn scan(journal: impl Read) -> io::Result<Scan> {
    let mut reader = Reader::new(journal);
    let mut whole = 0;
    loop {
        match batch(&mut reader) {
            Ok(()) => whole = reader.position,
            Err(Stop::Zero) => {
                let torn = (!reader.is_zero()?).then_some("bytes follow the last batch");
                return Ok(Scan { whole, torn });
            }
            Err(Stop::Torn(what)) => return Ok(Scan { whole, torn: Some(what) }),
            Err(Stop::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let torn = (reader.position > whole).then_some("batch is cut off");
                return Ok(Scan { whole, torn });
            }
            Err(Stop::Io(error)) => return Err(error),
        }
    }
}

/// Why there is no further batch.
enum Stop {
    /// A zero where a batch would start.
    Zero,
    Torn(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads one batch and checks it.
fn batch(reader: &mut Reader<impl Read>) -> Result<(), Stop> {
    match reader.byte()? {
        0 => return Err(Stop::Zero),
        START => {}
        _ => return Err(Stop::Torn("batch does not start")),
    }
    let items = u32::from_le_bytes(reader.array()?);
    let _sequence: [u8; 8] = reader.array()?;
    reader.checksum = Xxh3::new();
    for _ in 0..items {
        item(reader)?;
    }
    let checksum = reader.checksum.digest();
    if reader.byte()? != END {
        return Err(Stop::Torn("batch does not end"));
    }
    if u64::from_le_bytes(reader.array()?) != checksum {
        return Err(Stop::Torn("batch's checksum does not match"));
    }
    let trailer: [u8; TRAILER.len()] = reader.array()?;
    if trailer != TRAILER { Err(Stop::Torn("batch does not end")) } else { Ok(()) }
}

fn item(reader: &mut Reader<impl Read>) -> Result<(), Stop> {
    match reader.byte()? {
        CHANGE => {
            let [_kind, compression] = reader.array()?;
            if compression != UNCOMPRESSED {
                return Err(Stop::Torn("value is compressed"));
            }
            let _keyspace: [u8; 8] = reader.array()?;
            let key = u16::from_le_bytes(reader.array()?);
            let _value: [u8; 4] = reader.array()?;
            let stored = u32::from_le_bytes(reader.array()?);
            Ok(reader.skip(u64::from(key) + u64::from(stored))?)
        }
        CLEARED => Ok(reader.skip(8)?),
        _ => Err(Stop::Torn("item is unknown")),
    }
}

/// Reads on, and hashes what it reads.
struct Reader<R> {
    bytes: BufReader<R>,
    position: u64,
    checksum: Xxh3,
}

impl<R: Read> Reader<R> {
    fn new(journal: R) -> Self {
        let bytes = BufReader::with_capacity(READ_BYTES, journal);
        Self { bytes, position: 0, checksum: Xxh3::new() }
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.bytes.read_exact(&mut bytes)?;
        self.checksum.update(&bytes);
        self.position += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let piece = self.bytes.fill_buf()?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let len = piece.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.checksum.update(&piece[..len]);
            self.bytes.consume(len);
            self.position += len as u64;
            bytes -= len as u64;
        }
        Ok(())
    }

    /// Whether only zeros are left.
    fn is_zero(&mut self) -> io::Result<bool> {
        loop {
            let piece = self.bytes.fill_buf()?;
            if piece.is_empty() {
                return Ok(true);
            }
            let len = piece.len().min(ZEROS.len());
            if piece[..len] != ZEROS[..len] {
                return Ok(false);
            }
            self.bytes.consume(len);
        }
    }
}

#[cfg(test)]
mod tests;
