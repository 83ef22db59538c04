//! The identity file: its layout, and how it is replaced.
//!
//! [`MAGIC`], an [`Identity`] as the codec writes it, and the CRC-32 (little endian) of all before
//! it. The file is only ever replaced whole: written beside, synced, renamed, and the directory
//! synced. A crash leaves the old file or the new one, and perhaps [`TEMPORARY`], which means
//! nothing.

use std::io;
use std::path::Path;

use super::{Identity, failed};
use crate::codec::{self, CodecError};
use crate::error::StartError;
use crate::storage::disk::Disk;

/// Name of the identity file.
pub(super) const FILE: &str = "node";
/// The next identity file until it has its name. A directory that holds nothing else is as good as
/// empty: its creation was interrupted.
pub(super) const TEMPORARY: &str = "node.tmp";

const MAGIC: &[u8; 8] = b"oncegate";
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are not an identity that this release can use.
#[derive(Debug)]
pub(super) enum IdentityError {
    NotOurs,
    Version(u8),
    Damaged(String),
}

impl IdentityError {
    pub(super) fn refusal(self, dir: &Path) -> StartError {
        let foreign = |found: String, remedy: &str| StartError::ForeignDirectory {
            dir: dir.to_path_buf(),
            found,
            remedy: remedy.to_owned(),
        };
        match self {
            Self::NotOurs => foreign(
                format!("its file {FILE:?} is not an identity file of oncegate"),
                "choose an empty or absent directory",
            ),
            Self::Version(version) => foreign(
                format!("its format is version {version}, which this release does not know"),
                "start the release that wrote it",
            ),
            Self::Damaged(what) => StartError::Damaged { file: dir.join(FILE), offset: 0, what },
        }
    }
}

pub(super) fn encode(identity: &Identity) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    codec::encode_into(&mut bytes, codec::IDENTITY, identity);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Result<Identity, IdentityError> {
    if !bytes.starts_with(MAGIC) {
        return Err(IdentityError::NotOurs);
    }
    let (body, checksum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| IdentityError::Damaged("file is cut off".to_owned()))?;
    if crc32fast::hash(body).to_le_bytes() != *checksum {
        return Err(IdentityError::Damaged("checksum does not match".to_owned()));
    }
    let body = body.get(MAGIC.len()..).unwrap_or_default();
    codec::decode(codec::IDENTITY, body).map_err(|error| match error {
        CodecError::Version { found, .. } => IdentityError::Version(found),
        other => IdentityError::Damaged(other.to_string()),
    })
}

/// Puts `identity` in the place of what the directory holds: durably, and all of it or nothing.
pub(super) fn replace(disk: &dyn Disk, dir: &Path, identity: &Identity) -> Result<(), StartError> {
    let (temporary, file) = (dir.join(TEMPORARY), dir.join(FILE));
    let written = write(disk, &temporary, &encode(identity));
    written.map_err(failed("write", &temporary))?;
    disk.rename(&temporary, &file).map_err(failed("rename to", &file))?;
    disk.sync_dir(dir).map_err(failed("sync directory", dir))
}

/// Makes a file, in place of one that an interrupted replacement left.
fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync_all()
}
