//! What is asked of a shard's leader on another node: by nodes that do not lead it, and by gateways
//! without a node.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::{Command, Decided, Outcome, RecordName, Timestamp};
use rand::RngExt;
use serde::Serialize;

use super::list::{ForwardList, LIST, ListAnswer};
use super::{Forward, ForwardRead, HAND_OVER, READ, ReadAnswer, SUBMIT, applied, left};
use crate::clock;
use crate::codec;
use crate::config::NodeId;
use crate::error::{Certainty, SubmitError};
use crate::placement::ShardId;
use crate::random;
use crate::shard::{Answer, NotMoved};
use crate::transport::{CallError, Request, Transport};

/// Between two tries to reach a leader: short enough to use a new one soon, long enough for an
/// election to go on.
const RETRY_MS: (u64, u64) = (10, 50);

/// How long a hand-over may take in all: somewhat more than all that the leader waits for.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);

/// The leader of a shard, on another node.
pub(crate) struct Leader<'a> {
    pub(crate) transport: &'a dyn Transport,
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
}

impl Leader<'_> {
    /// Has a command decided.
    pub(crate) async fn submit(&self, command: Command, deadline: Instant) -> Answer {
        let patience = left(deadline)?;
        let forward = Forward { command, patience_ms: patience.as_millis() as u64 };
        let reply = self.call::<_, { codec::FORWARD }>(SUBMIT, &forward, patience).await?;
        codec::decode::<Answer>(codec::ANSWER, &reply).map_err(|_| SubmitError::Lost)?
    }

    /// Reads a record through the log.
    pub(crate) async fn read(&self, name: &RecordName, deadline: Instant) -> ReadAnswer {
        let patience = left(deadline)?;
        let forward = ForwardRead { name: name.clone(), patience_ms: patience.as_millis() as u64 };
        let reply = self.call::<_, { codec::FORWARD_READ }>(READ, &forward, patience).await?;
        codec::decode::<ReadAnswer>(codec::READ_ANSWER, &reply).map_err(|_| SubmitError::Lost)?
    }

    /// Lists records that wait for an operator.
    pub(crate) async fn list(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> ListAnswer {
        let patience = left(deadline)?;
        let (limit, patience_ms) = (limit as u32, patience.as_millis() as u64);
        let forward = ForwardList { after, limit, patience_ms };
        let reply = self.call::<_, { codec::FORWARD_LIST }>(LIST, &forward, patience).await?;
        codec::decode::<ListAnswer>(codec::LIST_ANSWER, &reply).map_err(|_| SubmitError::Lost)?
    }

    /// Lets another node lead.
    pub(crate) async fn hand_over(&self, to: NodeId) -> Result<(), NotMoved> {
        let called = self.call::<_, { codec::HAND_OVER }>(HAND_OVER, &to, HAND_OVER_MAX).await;
        let reply = called.map_err(|error| match error.certainty() {
            Certainty::Definite => NotMoved::NotLeader,
            Certainty::Indefinite => NotMoved::NotElected,
        })?;
        codec::decode(codec::HANDED_OVER, &reply).map_err(|_| NotMoved::NotElected)?
    }

    async fn call<T: Serialize, const LAYOUT: u8>(
        &self,
        kind: u8,
        asked: &T,
        timeout: Duration,
    ) -> Result<Bytes, SubmitError> {
        let body = codec::encode(LAYOUT, asked).into();
        let request = Request { kind, shard: self.shard, body };
        let reply = self.transport.call(self.node, request, timeout).await;
        reply.map_err(|error| match error {
            CallError::NotSent | CallError::Refused => SubmitError::NoLeader,
            CallError::Full => SubmitError::Overloaded,
            CallError::TimedOut => SubmitError::TimedOut,
            CallError::Lost => SubmitError::Lost,
        })
    }
}

/// Tries again after definite errors that pass by themselves, while there is time.
pub(crate) async fn retry<T, F>(
    deadline: Instant,
    attempt: impl Fn(Instant) -> F,
) -> Result<T, SubmitError>
where
    F: Future<Output = Result<T, SubmitError>>,
{
    loop {
        let error = match attempt(deadline).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let pause = Duration::from_millis(random::rng().random_range(RETRY_MS.0..RETRY_MS.1));
        let passes = matches!(error, SubmitError::NoLeader | SubmitError::ClockNotTrusted);
        let definite = error.certainty() == Certainty::Definite;
        if !(passes && definite) || clock::now() + pause >= deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Waits until what was decided may be told: whoever asked for a record to be forgotten must not
/// see it replayed afterwards by a replica that is behind.
pub(crate) async fn until_told(decided: &Decided) {
    if matches!(decided.outcome, Outcome::Forgotten { .. }) {
        tokio::time::sleep(applied::AGE_MAX).await;
    }
}
