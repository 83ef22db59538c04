//! What a node stands on, and its shards on top of that.

use std::sync::Arc;

use crate::clock::{Clock, ClockGuard};
use crate::config::NodeConfig;
use crate::error::StartError;
use crate::placement::ShardId;
use crate::raft::{Checkpoints, Replica, ReplicaParts};
use crate::shard::{Admission, Quotas, Rounds, ShardHandle};
use crate::storage::disk::Disk;
use crate::storage::identity::Directory;
use crate::storage::records::Records;
use crate::storage::space::DiskWatch;
use crate::storage::wal::Wal;
use crate::transport::Transport;

/// What a node stands on: a machine's, or a simulated one's.
pub(crate) struct Ground {
    pub(crate) directory: Directory,
    pub(crate) files: Arc<dyn Disk>,
    pub(crate) wal: Wal,
    pub(crate) records: Records,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) checkpoints: Checkpoints,
}

/// Where all shards of a node are kept.
pub(super) struct Stores {
    pub(super) wal: Arc<Wal>,
    pub(super) records: Records,
    pub(super) checkpoints: Checkpoints,
}

/// Recovers every shard and starts its replica and its actor.
pub(super) async fn start_shards(
    config: &NodeConfig,
    stores: &Stores,
    transport: Arc<dyn Transport>,
    guard: &Arc<ClockGuard>,
    disk: Arc<DiskWatch>,
) -> Result<Vec<ShardHandle>, StartError> {
    let (admission, rounds) = (Admission::new(), Rounds::default());
    let quotas = Arc::new(Quotas::new(config.quotas.clone(), stores.records.clone()));
    let mut shards = Vec::with_capacity(usize::from(config.shards));
    for shard in (0..config.shards).map(ShardId) {
        let parts = ReplicaParts {
            node: config.id,
            shard,
            log: stores.wal.shard(shard),
            records: stores.records.shard(shard),
            transport: transport.clone(),
            guard: guard.clone(),
            checkpoints: stores.checkpoints,
        };
        let replica = Replica::start(parts).await?;
        let (guard, disk, quotas) = (guard.clone(), disk.clone(), quotas.clone());
        let (admission, rounds) = (admission.clone(), rounds.clone());
        shards.push(ShardHandle::start(replica, guard, disk, quotas, admission, rounds));
    }
    Ok(shards)
}
