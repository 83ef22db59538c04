//! Whose a data directory is, and that one process uses it.
//!
//! The file `node` is written before anything else in the directory, so whatever else is there
//! belongs to the node that the file names.
//!
//! The lock is on the directory itself: taking it writes nothing, and the system releases it with
//! the process. Whatever a refusal says, the directory is as it was.

mod file;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::file::{FILE, TEMPORARY};
use super::disk::{Disk, OsDisk};
use crate::config::NodeId;
use crate::error::StartError;

/// What a freshly made file system holds, where the data directory is its root.
const LOST_AND_FOUND: &str = "lost+found";

/// A directory is made only where this many bytes are free: the log's first segments, two journals
/// of the record store, and what must stay free for claims to be taken. A node whose directory
/// exists starts with less, since it must still serve what it holds.
const CREATE_BYTES_MIN: u64 = 256 << 20;

/// A data directory, locked for as long as this exists.
pub(crate) struct Directory {
    path: PathBuf,
    disk: Box<dyn Disk>,
    identity: Identity,
    _lock: Option<File>,
}

/// What the identity file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    cluster: String,
    node: NodeId,
    shards: u16,
    instance: [u8; 16],
    formation: Option<Formation>,
    initialised: bool,
}

/// What the first members agreed on when they became a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Formation {
    /// Tells this cluster from any other of the same name; random.
    pub(crate) cluster: [u8; 16],
    /// The first members, each with the instance id of its data directory.
    pub(crate) members: BTreeMap<NodeId, [u8; 16]>,
}

impl Directory {
    /// Opens and locks the data directory of node `node`; makes one, with `instance` as its id,
    /// where there is none or an empty one.
    ///
    /// # Errors
    /// See [`StartError`]: `InUse`, `ForeignDirectory`, `Damaged`, `DiskFull`, `Io`. Nothing is
    /// written unless the directory is this node's, absent or empty.
    pub(crate) fn open(
        path: &Path,
        cluster: &str,
        node: NodeId,
        shards: u16,
        instance: [u8; 16],
    ) -> Result<Self, StartError> {
        Self::open_on(Box::new(OsDisk), path, Identity::fresh(cluster, node, shards, instance))
    }

    /// As [`Directory::open`], on a disk in memory, which one process uses.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(
        disk: Box<dyn Disk>,
        path: &Path,
        cluster: &str,
        node: NodeId,
        shards: u16,
        instance: [u8; 16],
    ) -> Result<Self, StartError> {
        let fresh = Identity::fresh(cluster, node, shards, instance);
        disk.create_dir(path).map_err(failed("create directory", path))?;
        let identity = match disk.read(&path.join(FILE)) {
            Ok(bytes) => {
                let found = file::decode(&bytes).map_err(|error| error.refusal(path))?;
                found.check(path, &fresh)?;
                found
            }
            Err(_) => {
                file::replace(&*disk, path, &fresh)?;
                fresh
            }
        };
        Ok(Self { path: path.to_path_buf(), disk, identity, _lock: None })
    }

    /// Opens the directory of the node that `fresh` describes, through `disk`.
    fn open_on(disk: Box<dyn Disk>, path: &Path, fresh: Identity) -> Result<Self, StartError> {
        if !path.exists() {
            check_room(path)?;
            disk.create_dir(path).map_err(failed("create directory", path))?;
        }
        let lock = lock(path)?;
        let identity_file = path.join(FILE);
        let identity = match fs::read(&identity_file) {
            Ok(bytes) => {
                let found = file::decode(&bytes).map_err(|error| error.refusal(path))?;
                found.check(path, &fresh)?;
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_unused(path)?;
                check_room(path)?;
                file::replace(&*disk, path, &fresh)?;
                fresh
            }
            Err(error) => return Err(failed("read", &identity_file)(error)),
        };
        Ok(Self { path: path.to_path_buf(), disk, identity, _lock: Some(lock) })
    }

    /// Tells this data directory from any other, also from one that had its place before.
    pub(crate) fn instance(&self) -> [u8; 16] {
        self.identity.instance
    }

    /// What this node belongs to, once it does.
    pub(crate) fn formation(&self) -> Option<&Formation> {
        self.identity.formation.as_ref()
    }

    /// Whether the node may begin with an empty log. One that belongs to a cluster has a log; an
    /// empty one in its place would have forgotten its votes.
    pub(crate) fn may_create_log(&self) -> bool {
        self.formation().is_none()
    }

    /// Keeps what this node belongs to from now on; durable on return.
    ///
    /// # Errors
    /// `ForeignDirectory` when it belongs to something else already; `Io` when it cannot be
    /// written.
    pub(crate) fn set_formation(&mut self, formation: Formation) -> Result<(), StartError> {
        match &self.identity.formation {
            Some(known) if *known == formation => Ok(()),
            Some(_) => Err(StartError::ForeignDirectory {
                dir: self.path.clone(),
                found: "it belongs to another formation of this cluster".to_owned(),
                remedy: "begin again with empty directories on every first member".to_owned(),
            }),
            None => self.set(Identity { formation: Some(formation), ..self.identity.clone() }),
        }
    }

    /// Whether every shard of the cluster has begun, as far as this node was to see to it.
    pub(crate) fn is_initialised(&self) -> bool {
        self.identity.initialised
    }

    /// Keeps that every shard has begun; durable on return.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub(crate) fn set_initialised(&mut self) -> Result<(), StartError> {
        self.set(Identity { initialised: true, ..self.identity.clone() })
    }

    fn set(&mut self, identity: Identity) -> Result<(), StartError> {
        file::replace(&*self.disk, &self.path, &identity)?;
        self.identity = identity;
        Ok(())
    }
}

impl Identity {
    /// Of a directory that was just made.
    fn fresh(cluster: &str, node: NodeId, shards: u16, instance: [u8; 16]) -> Self {
        let cluster = cluster.to_owned();
        Self { cluster, node, shards, instance, formation: None, initialised: false }
    }

    /// Whether this is the directory that the configuration means, which `expected` was made from.
    fn check(&self, path: &Path, expected: &Self) -> Result<(), StartError> {
        let (found, remedy) = if self.cluster != expected.cluster {
            (
                format!("it belongs to cluster {:?}", self.cluster),
                format!(
                    "the configuration says cluster {:?}: correct it or choose another data_dir",
                    expected.cluster
                ),
            )
        } else if self.node != expected.node {
            (
                format!("it belongs to node {}", self.node),
                format!(
                    "the configuration says node {}: correct it or choose another data_dir",
                    expected.node
                ),
            )
        } else if self.shards != expected.shards {
            (
                format!("it was made for {} shards", self.shards),
                format!("set shards = {}: it cannot be changed afterwards", self.shards),
            )
        } else {
            return Ok(());
        };
        Err(StartError::ForeignDirectory { dir: path.to_path_buf(), found, remedy })
    }
}

fn lock(path: &Path) -> Result<File, StartError> {
    let directory = File::open(path).map_err(failed("open", path))?;
    if !directory.metadata().map_err(failed("read metadata", path))?.is_dir() {
        return Err(StartError::ForeignDirectory {
            dir: path.to_path_buf(),
            found: "it is not a directory".to_owned(),
            remedy: "choose an empty or absent directory".to_owned(),
        });
    }
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse { dir: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(failed("lock", path)(error)),
    }
}

/// Refuses a directory that holds anything but the remains of an interrupted creation.
fn check_unused(dir: &Path) -> Result<(), StartError> {
    for entry in fs::read_dir(dir).map_err(failed("list", dir))? {
        let name = entry.map_err(failed("list", dir))?.file_name();
        if ![TEMPORARY, LOST_AND_FOUND].map(OsStr::new).contains(&name.as_os_str()) {
            return Err(StartError::ForeignDirectory {
                dir: dir.to_path_buf(),
                found: format!("it holds {name:?} and no node's identity"),
                remedy: "choose an empty or absent directory".to_owned(),
            });
        }
    }
    Ok(())
}

/// Refuses to make a directory where a node would soon find the disk full.
fn check_room(dir: &Path) -> Result<(), StartError> {
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let free = OsDisk.free_bytes(existing).map_err(failed("read free space", existing))?;
    if free < CREATE_BYTES_MIN {
        return Err(StartError::DiskFull {
            dir: dir.to_path_buf(),
            free,
            needed: CREATE_BYTES_MIN,
        });
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StartError {
    let path = path.to_path_buf();
    move |source| StartError::Io { action, path, source }
}

#[cfg(test)]
mod tests;
