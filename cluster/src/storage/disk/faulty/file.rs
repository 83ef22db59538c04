//! Files of the disk, as programs write them.

use std::io;

use super::content::Write;
use super::state::{Operation, State};
use super::{DiskFile, FaultyDisk};

/// An open file of a [`FaultyDisk`].
pub(super) struct FaultyFile {
    disk: FaultyDisk,
    id: usize,
}

impl FaultyFile {
    pub(super) fn new(disk: FaultyDisk, id: usize) -> Self {
        Self { disk, id }
    }

    fn write(&self, state: &mut State, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let content = &mut state.files[self.id];
        if state.faults.full && offset + bytes.len() > content.seen.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let write = Write { offset, bytes: bytes.to_vec() };
        write.apply(&mut content.seen);
        content.pending.push(write);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let synced = self.disk.operate(Operation::Sync, |state| {
            state.files[self.id].sync();
            Ok(())
        });
        let mut state = self.disk.lock();
        // A process that died during the sync has left the rest to the next one.
        if synced.is_err() && !state.halted {
            state.files[self.id].fail_sync();
        }
        synced
    }
}

impl DiskFile for FaultyFile {
    fn bytes(&self) -> io::Result<u64> {
        self.disk.look(|state| Ok(state.files[self.id].seen.len() as u64))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.operate(Operation::Write, |state| self.write(state, offset, bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.disk.operate(Operation::Naming, |state| {
            if state.files[self.id].seen.len() as u64 >= bytes {
                return Ok(());
            }
            self.write(state, bytes, &[])
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}
