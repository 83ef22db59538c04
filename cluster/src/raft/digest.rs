//! Digests of a shard's records, by which replicas are compared.

use sha2::{Digest as _, Sha256};

use super::record_store::ApplyError;
use super::snapshot::CHUNK_BYTES;
use super::state_machine::ShardMeta;
use super::{Replica, Stopped};
use crate::storage::records::ShardRecords;
use crate::task;

/// Everything that a replica holds of a shard at one position of its log, in 32 bytes. Replicas of
/// one shard that have applied the same entries have equal digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardDigest {
    /// Index of the last entry that was applied.
    pub applied_index: u64,
    /// SHA-256 of the names and records, in the order of the names, and of what the machine keeps
    /// beside them.
    pub digest: [u8; 32],
}

impl Replica {
    /// Digest of the records here. Reads all of them, in chunks, beside whatever else goes on.
    ///
    /// # Errors
    /// When the record store cannot be read.
    pub(crate) async fn digest(&self) -> Result<ShardDigest, Stopped> {
        let records = self.records.clone();
        let digest = task::blocking(move || of(&records)).await;
        digest.map_err(|_| Stopped)?.map_err(|error| {
            tracing::error!(shard = self.shard.0, %error, "records cannot be read");
            Stopped
        })
    }
}

fn of(records: &ShardRecords) -> Result<ShardDigest, ApplyError> {
    let view = records.view()?;
    let meta = match view.meta() {
        Some(bytes) => ShardMeta::decode(bytes)?,
        None => ShardMeta::default(),
    };
    let machine = meta.machine;
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    // The membership is left out: it is of the log, and not of what was decided.
    for number in [u64::from(machine.epoch), machine.grants, machine.time.as_millis()] {
        add(&number.to_le_bytes());
    }
    let mut cursor = None;
    loop {
        let chunk = view.chunk(cursor.as_ref(), CHUNK_BYTES)?;
        for (name, record) in &chunk.entries {
            add(name);
            add(record);
        }
        cursor = chunk.next;
        if cursor.is_none() {
            break;
        }
    }
    let applied_index = meta.snapshot_meta()?.last_log_id.map_or(0, |log_id| log_id.index);
    Ok(ShardDigest { applied_index, digest: digest.finalize().into() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::placement::ShardId;
    use crate::storage::records::Records;

    fn digest(folder: &Path, entries: &[(&str, &str)]) -> [u8; 32] {
        let records = Records::open(folder).unwrap().shard(ShardId(0));
        let mut batch = records.batch();
        for (name, record) in entries {
            batch.put(name.as_bytes(), record.as_bytes().to_vec());
        }
        batch.commit().unwrap();
        of(&records).unwrap().digest
    }

    #[test]
    fn names_records_and_their_borders_count_and_the_order_of_writing_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let of = |at: &str, entries: &[(&str, &str)]| digest(&folder.path().join(at), entries);
        let one = of("1", &[("a", "x"), ("b", "y")]);
        assert_eq!(one, of("2", &[("b", "y"), ("a", "x")]));
        for (at, other) in [
            ("3", &[("a", "x")][..]),
            ("4", &[("a", "x"), ("b", "z")]),
            ("5", &[("a", "x"), ("c", "y")]),
            ("6", &[("a", "xb"), ("", "y")]),
        ] {
            assert_ne!(one, of(at, other), "{other:?}");
        }
    }
}
