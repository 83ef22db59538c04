//! Where a router goes wrong when a simulation wants it to.

use protocol::{Command, IdempotencyKey, RecordName};

use super::ReadAnswer;
use crate::error::SubmitError;
use crate::failpoint::{Bug, is_planted};
use crate::shard::ShardHandle;

/// What a command is taken for.
pub(super) fn twisted(mut command: Command) -> Command {
    if is_planted(Bug::TenantLeftOut)
        && let Command::Claim(claim) = &mut command
    {
        claim.name = without_tenant(&claim.name);
    }
    match command {
        Command::Complete { name, grant, response } if is_planted(Bug::TenantLeftOut) => {
            Command::Complete { name: without_tenant(&name), grant, response }
        }
        Command::Unknown { name, grant } if is_planted(Bug::ReleasedAfterSent) => {
            Command::Release { name, grant }
        }
        other => other,
    }
}

fn without_tenant(name: &RecordName) -> RecordName {
    let Some((mut scope, key)) = name.parts() else { return name.clone() };
    scope.tenant = "everybody".to_owned();
    match IdempotencyKey::from_text(&key, key.len()) {
        Ok(key) => RecordName::new(&scope, &key),
        Err(_) => name.clone(),
    }
}

/// What a read is answered with at once.
pub(super) async fn stale(shard: Option<&ShardHandle>, name: &RecordName) -> Option<ReadAnswer> {
    if !is_planted(Bug::StaleRead) {
        return None;
    }
    let found = shard?.replica().find(name.clone()).await;
    Some(found.map_err(|_| SubmitError::Stopping))
}
