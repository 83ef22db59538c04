//! Where a replica goes wrong when a simulation wants it to.

use protocol::record::State;
use protocol::{Batch, Command, Record, RecordStore};

use super::record_store::{ApplyError, PendingRecords};
use crate::clock::Clock;
use crate::codec;
use crate::failpoint::{Bug, is_planted};
use crate::simulation::Machine;
use crate::storage::records::Chunk;

/// What a replica takes an entry for.
pub(super) fn twisted(
    mut batch: Batch,
    records: &mut PendingRecords<'_>,
) -> Result<Batch, ApplyError> {
    if is_planted(Bug::LocalClock)
        && let Some(machine) = Machine::current()
    {
        batch.at = batch.at.max(machine.clock().wall());
    }
    for command in &mut batch.commands {
        let record = match records.get(command.name())? {
            Some(Record::Live(generation)) => generation,
            _ => continue,
        };
        match command {
            Command::Complete { grant, .. } if is_planted(Bug::FenceIgnored) => {
                (grant.fence, grant.token) = (record.fence, record.token);
            }
            Command::Claim(claim) if is_planted(Bug::FingerprintIgnored) => {
                claim.print = record.print.clone();
            }
            Command::Claim(claim)
                if is_planted(Bug::IndeterminateRunsAgain)
                    && matches!(record.state, State::Indeterminate { .. }) =>
            {
                let before = Record::Live(record);
                records.replace(&claim.name, Some(&before), None)?;
            }
            _ => {}
        }
    }
    Ok(batch)
}

/// What of a chunk of a snapshot is sent.
pub(super) fn thinned(mut chunk: Chunk) -> Chunk {
    if is_planted(Bug::SnapshotWithoutInFlight) {
        chunk.entries.retain(|(_, bytes)| {
            let record = codec::decode::<Record>(codec::RECORD, bytes);
            let Ok(Record::Live(generation)) = record else { return true };
            !matches!(generation.state, State::InFlight { .. })
        });
    }
    chunk
}

/// The answers of an entry, as they are handed out.
pub(super) fn shuffled<T>(mut answers: Vec<T>) -> Vec<T> {
    if is_planted(Bug::AnswersOutOfOrder) {
        answers.reverse();
    }
    answers
}
