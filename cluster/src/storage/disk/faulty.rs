//! A disk in memory that loses what was not synced, tears what was being written, and fails when
//! told to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use self::content::{Content, Naming};
use self::file::FaultyFile;
use self::state::{Admitted, Operation, State, power_gone};
use super::{Disk, DiskFile};

mod content;
mod file;
mod state;

pub(crate) use self::state::Counts;

/// Far longer than any thread needs that is going to do what a test waits for, however busy the
/// machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// The disk. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct FaultyDisk {
    world: Arc<World>,
}

#[derive(Default)]
struct World {
    state: Mutex<State>,
    changed: Condvar,
}

impl FaultyDisk {
    /// A disk with these files, all durable.
    pub(crate) fn with_files(files: &BTreeMap<PathBuf, Vec<u8>>) -> Self {
        let disk = Self::default();
        let mut state = disk.lock();
        for (id, (path, bytes)) in files.iter().enumerate() {
            state.dirs.extend(path.ancestors().skip(1).map(Path::to_path_buf));
            state.files.push(Content::durable(bytes));
            state.names.insert(path.clone(), id);
            state.durable.insert(path.clone(), id);
        }
        drop(state);
        disk
    }

    /// The files as a program sees them.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let content = |id: &usize| state.files[*id].seen.clone();
        state.names.iter().map(|(path, id)| (path.clone(), content(id))).collect()
    }

    /// What was asked of the disk so far.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// The power goes in the middle of the operation that is `operations` away; 0 is the next one.
    pub(crate) fn halt_after(&self, operations: u64) {
        let mut state = self.lock();
        state.faults.halt_at = Some(state.counts.operations + operations);
    }

    /// The write that is `writes` away fails; 0 is the next one.
    pub(crate) fn fail_write_after(&self, writes: u64) {
        let mut state = self.lock();
        state.faults.fail_write = Some(state.counts.writes + writes);
    }

    /// The sync of a file that is `syncs` away fails; 0 is the next one.
    pub(crate) fn fail_sync_after(&self, syncs: u64) {
        let mut state = self.lock();
        state.faults.fail_sync = Some(state.counts.syncs + syncs);
    }

    /// Syncs of directories fail from now on, though they could be tried again.
    pub(crate) fn fail_sync_dir(&self) {
        self.lock().faults.fail_sync_dir = true;
    }

    /// Whether files can no longer grow.
    pub(crate) fn set_full(&self, full: bool) {
        self.lock().faults.full = full;
    }

    /// Whether the power is gone.
    pub(crate) fn is_halted(&self) -> bool {
        self.lock().halted
    }

    /// Waits until other threads have brought the disk into a state.
    ///
    /// # Panics
    /// When they do not.
    pub(crate) fn wait_until(&self, what: &str, reached: impl Fn(&Counts, &[&Path]) -> bool) {
        let not_yet = |state: &mut State| {
            let names: Vec<&Path> = state.names.keys().map(PathBuf::as_path).collect();
            !reached(&state.counts(), &names)
        };
        let waited = self.world.changed.wait_timeout_while(self.lock(), PATIENCE, not_yet);
        let (state, timeout) = waited.expect(UNPOISONED);
        let names: Vec<PathBuf> = state.names.keys().cloned().collect();
        drop(state);
        assert!(!timeout.timed_out(), "waited in vain until {what}: {names:?}");
    }

    /// Takes the power away: this disk fails from now on. The disk as it comes back holds what was
    /// synced, and of what was not an arbitrary part, in pieces.
    pub(crate) fn crash(&self, seed: u64) -> Self {
        let mut state = self.lock();
        state.halted = true;
        Self::from(state.after_crash(seed))
    }

    /// Ends the process: this disk fails from now on. The machine goes on, so the disk that the
    /// next process finds holds everything that was written, though what was not synced can still
    /// be lost.
    pub(crate) fn kill(&self) -> Self {
        let mut state = self.lock();
        state.halted = true;
        Self::from(state.after_kill())
    }

    /// The disk as the next process would find it now; this one goes on.
    pub(crate) fn as_after_kill(&self) -> Self {
        Self::from(self.lock().after_kill())
    }

    /// The disk as it could come back from a crash now; this one goes on.
    pub(crate) fn as_after_crash(&self, seed: u64) -> Self {
        Self::from(self.lock().after_crash(seed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.world.state.lock().expect(UNPOISONED)
    }

    /// Counts the operation, and carries `effect` out unless it is to fail. What fails for lack of
    /// power or by a planned fault has its effect in so far as it is not a sync.
    fn operate<T>(
        &self,
        operation: Operation,
        effect: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        let outcome = match state.admit(operation) {
            Admitted::Yes => effect(&mut state),
            Admitted::Partly(error) => {
                drop(effect(&mut state));
                Err(error)
            }
            Admitted::No(error) => Err(error),
        };
        if matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::StorageFull) {
            state.counts.refused += 1;
        }
        drop(state);
        self.world.changed.notify_all();
        outcome
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> io::Result<T>) -> io::Result<T> {
        let state = self.lock();
        if state.halted { Err(power_gone()) } else { look(&state) }
    }
}

impl From<State> for FaultyDisk {
    fn from(state: State) -> Self {
        let world = World { state: Mutex::new(state), changed: Condvar::new() };
        Self { world: Arc::new(world) }
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.operate(Operation::Naming, |state| {
            state.dirs.extend(dir.ancestors().map(Path::to_path_buf));
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.look(|state| {
            if !state.dirs.contains(dir) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
            Ok(inside.filter_map(|path| path.file_name()?.to_str().map(String::from)).collect())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.look(|state| Ok(state.files[state.id(path)?].seen.clone()))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.operate(Operation::Naming, |state| {
            if state.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let id = state.files.len();
            state.files.push(Content::default());
            state.rename(Naming::Create(path.to_path_buf(), id));
            Ok(self.file(id))
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.look(|state| Ok(self.file(state.id(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Operation::Naming, |state| {
            let id = state.id(from)?;
            state.rename(Naming::Rename(from.to_path_buf(), to.to_path_buf(), id));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(Operation::Naming, |state| {
            state.id(path)?;
            state.rename(Naming::Remove(path.to_path_buf()));
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.operate(Operation::SyncDir, |state| {
            let (inside, others) = state.pending.drain(..).partition(|naming| naming.is_in(dir));
            state.pending = others;
            let inside: Vec<Naming> = inside;
            inside.iter().for_each(|naming| naming.apply(&mut state.durable));
            Ok(())
        })
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        self.look(|state| Ok(if state.faults.full { 0 } else { u64::MAX }))
    }
}

impl FaultyDisk {
    fn file(&self, id: usize) -> Box<dyn DiskFile> {
        Box::new(FaultyFile::new(self.clone(), id))
    }
}

const UNPOISONED: &str = "nothing panics under the disk's lock";

#[cfg(test)]
mod tests;
