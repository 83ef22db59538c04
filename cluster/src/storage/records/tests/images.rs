//! What a machine's disk may hold after it went off, made from the files of a closed database.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A copy of `dir`, as `records` in a folder of its own; space that was only reserved stays so.
pub(super) fn image(dir: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    copy(dir, &folder.path().join("records"));
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        let to = to.join(name);
        if from.is_dir() {
            copy(&from, &to);
        } else {
            let (bytes, len) = content(&from);
            write(&to, &bytes, len);
        }
    }
}

/// What was written to a file, and the file's length. Space that was only reserved is not read:
/// there is much of it, and nothing follows it.
pub(super) fn content(path: &Path) -> (Vec<u8>, usize) {
    const PIECE: u64 = 1 << 20;
    let mut file = File::open(path).unwrap();
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        Read::by_ref(&mut file).take(PIECE).read_to_end(&mut bytes).unwrap();
        if bytes[before..].iter().all(|byte| *byte == 0) {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(used);
            return (bytes, file.metadata().unwrap().len() as usize);
        }
    }
}

/// Bytes written to the newest journal in `dir`.
pub(super) fn journal_bytes(dir: &Path) -> usize {
    content(&journal(dir)).0.len()
}

/// Makes a file of `len` bytes that begins with `bytes`; the rest is zero and takes no space.
pub(super) fn write(path: &Path, bytes: &[u8], len: usize) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(len as u64).unwrap();
}

/// The newest journal in `dir`.
pub(super) fn journal(dir: &Path) -> PathBuf {
    super::journal::list(dir).unwrap().pop().unwrap().1
}

/// What a write of bytes that were never synced can have come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tear {
    /// Nothing from here on was written; the reserved space is zero.
    Zeros(usize),
    /// Nothing from here on was written, nor any space reserved.
    End(usize),
    /// A page was not written; what is behind it was.
    Hole(usize),
    /// A byte is not what was written.
    Flip(usize),
}

const PAGE: usize = 4096;

impl Tear {
    /// Where the damage begins.
    pub(super) fn at(self) -> usize {
        match self {
            Self::Zeros(at) | Self::End(at) | Self::Flip(at) => at,
            Self::Hole(at) => at / PAGE * PAGE,
        }
    }

    /// Tears the newest journal in `dir`.
    pub(super) fn apply(self, dir: &Path) {
        let path = journal(dir);
        let (mut bytes, mut len) = content(&path);
        let at = self.at();
        match self {
            Self::Zeros(_) => bytes.truncate(at),
            Self::End(_) => {
                bytes.truncate(at);
                len = at;
            }
            Self::Hole(_) => {
                let end = bytes.len().min(at + PAGE);
                bytes[at..end].fill(0);
            }
            Self::Flip(_) => bytes[at] ^= 0x10,
        }
        write(&path, &bytes, len);
    }
}
