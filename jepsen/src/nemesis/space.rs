//! A disk that is full. Nodes keep their data on small file systems of their own then.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::cluster::{Cluster, NODES};
use crate::history::Installation;
use crate::nemesis::Ground;

/// What is reserved at once: less and less, down to a block.
const PIECE_MAX: u64 = 64 << 20;
const PIECE_MIN: u64 = 4096;

fn filling(cluster: &Cluster, node: u8) -> PathBuf {
    cluster.data(node).join("filling")
}

pub(super) async fn install(ground: &mut Ground) -> Result<Installation, Installation> {
    let victim = ground.leader().await?;
    let path = filling(&ground.cluster, victim);
    match fill(&path) {
        Ok(mebibytes) => {
            Ok(Installation::Installed(format!("filled the disk of {victim}: {mebibytes} MiB")))
        }
        Err(error) => Err(Installation::Indeterminate(error.to_string())),
    }
}

/// Reserves room until there is none; how much it was, in mebibytes.
fn fill(path: &Path) -> io::Result<u64> {
    let file = File::create(path)?;
    let (mut taken, mut piece) = (0_u64, PIECE_MAX);
    while piece >= PIECE_MIN {
        let (offset, length) = (taken.cast_signed(), piece.cast_signed());
        match fallocate(&file, FallocateFlags::empty(), offset, length) {
            Ok(()) => taken += piece,
            Err(Errno::ENOSPC) => piece /= 2,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(taken >> 20)
}

/// Gives the room back.
///
/// # Errors
/// When it cannot.
pub(super) fn heal(cluster: &Cluster) -> Result<(), String> {
    for node in 1..=NODES {
        let path = filling(cluster, node);
        if path.exists() {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}
