//! Which files a log has.

use std::io;
use std::path::Path;

use super::super::disk::Disk;
use super::WalError;
use super::failure::Failure;
use super::preparer::SPARES_MAX;
use super::segment;

/// The files of a log.
pub(super) struct Files {
    /// Sequences of the segments, in ascending order.
    pub(super) segments: Vec<u64>,
    /// Numbers of the spare files.
    spares: Vec<u64>,
}

impl Files {
    /// Looks for the files of a log. Creates the directory if `create` is set; otherwise there must
    /// be segments.
    pub(super) fn find(disk: &dyn Disk, dir: &Path, create: bool) -> Result<Self, WalError> {
        let failed = |action, error| Failure::new(action, dir, &error);
        if create {
            disk.create_dir(dir).map_err(|error| failed("create directory", error))?;
        }
        let names = match disk.list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed("list", error).into()),
        };
        let mut segments: Vec<u64> = names.iter().filter_map(|n| segment::sequence_of(n)).collect();
        segments.sort_unstable();
        if segments.is_empty() && !create {
            return Err(WalError::Missing { dir: dir.to_path_buf() });
        }
        // A name that the last process gave may not be durable yet.
        disk.sync_dir(dir).map_err(|error| failed("sync directory", error))?;
        let spares = names.iter().filter_map(|n| segment::spare_of(n)).collect();
        Ok(Self { segments, spares })
    }

    /// Removes the spare files beyond what is kept; the numbers of the others.
    pub(super) fn keep_spares(mut self, disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, WalError> {
        while self.spares.len() > SPARES_MAX {
            let number = self.spares.pop().expect("there are more than are kept");
            let path = segment::spare_path(dir, number);
            disk.remove(&path).map_err(|error| Failure::new("remove", &path, &error))?;
        }
        Ok(self.spares)
    }
}
