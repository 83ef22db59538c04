//! The file operations that storage needs, as traits, so that tests can tear, lose and fail them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "a part of it is for the log's own tests"))]
pub(crate) mod faulty;

/// Zeros are written in pieces of this size where space cannot be reserved: one system call per
/// mebibyte.
const ZEROS: usize = 1 << 20;

/// Names and directories. What is renamed, created or removed is durable after [`Disk::sync_dir`]
/// only.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Creates `dir` and its missing parents. They are durable on return.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// The names of the files in `dir`, in no particular order. A name that is not UTF-8 is left
    /// out: it is not ours.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Creates an empty file. Fails if there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for writing. Fails if there is none.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, in place of any that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes every creation, rename and removal in `dir` so far durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that this process may still write to the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// A file open for writing. What is written is durable after a sync only.
pub(crate) trait DiskFile: Send + Sync {
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file at least `bytes` long and reserves its space, so that writes below that
    /// length cannot find the disk full. New bytes are zero.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Makes the content durable, with as much of the metadata as reading it needs.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes the content and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OsDisk;

impl Disk for OsDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        // The last ancestor of a relative path is the empty one: the working directory, which is
        // there.
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let missing: Vec<PathBuf> =
            dir.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        for dir in missing.iter().rev() {
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => self.sync_dir(parent(dir))?,
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = nix::sys::statvfs::statvfs(path)?;
        // The fields are narrower on some systems than on others.
        #[allow(clippy::useless_conversion)]
        let (blocks, bytes) = (u64::from(stat.blocks_available()), u64::from(stat.fragment_size()));
        Ok(blocks.saturating_mul(bytes))
    }
}

struct OsFile(File);

impl DiskFile for OsFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if reserve(&self.0, bytes)? { Ok(()) } else { fill(&self.0, bytes) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Reserves space; `false` where the file system cannot.
#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: u64) -> io::Result<bool> {
    use nix::errno::Errno;
    use nix::fcntl::{FallocateFlags, fallocate};

    let length = i64::try_from(bytes).map_err(io::Error::other)?;
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, length) {
            Ok(()) => return Ok(true),
            Err(Errno::EINTR) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Writes zeros from the end of the file up to `bytes`.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let mut offset = file.metadata()?.len();
    let zeros = vec![0; ZEROS];
    while offset < bytes {
        let piece = zeros.len().min(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
        file.write_all_at(&zeros[..piece], offset)?;
        offset += piece as u64;
    }
    Ok(())
}

/// The directory that holds `path`; a bare name stands in the working directory.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_created_with_their_parents() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b/c");
        OsDisk.create_dir(&dir).unwrap();
        OsDisk.create_dir(&dir).unwrap();
        assert!(dir.is_dir());
    }

    #[test]
    fn allocation_grows_with_zeros_and_keeps_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let file = OsDisk.create(&path).unwrap();
        file.write_at(b"head", 0).unwrap();
        file.allocate(3 << 20).unwrap();
        file.allocate(1 << 20).unwrap();
        assert_eq!(file.bytes().unwrap(), 3 << 20);
        let content = OsDisk.read(&path).unwrap();
        assert_eq!(&content[..4], b"head");
        assert!(content[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn filling_stands_in_for_reserving() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let file = File::create_new(&path).unwrap();
        file.write_all_at(b"head", 0).unwrap();
        fill(&file, (2 << 20) + 5).unwrap();
        fill(&file, 7).unwrap();
        let content = OsDisk.read(&path).unwrap();
        assert_eq!(content.len(), (2 << 20) + 5);
        assert_eq!(&content[..4], b"head");
        assert!(content[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn creating_a_file_that_exists_fails() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        OsDisk.create(&path).unwrap();
        let error = OsDisk.create(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        OsDisk.rename(&path, &root.path().join("other")).unwrap();
        assert_eq!(OsDisk.list(root.path()).unwrap(), ["other"]);
        OsDisk.remove(&root.path().join("other")).unwrap();
        OsDisk.sync_dir(root.path()).unwrap();
        assert_eq!(OsDisk.list(root.path()).unwrap(), [""; 0]);
    }
}
