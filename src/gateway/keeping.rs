//! What an upstream's answer means, and what of it is kept.

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, response};
use protocol::Millis;
use protocol::execution::Disposition;
use protocol::policy::{AnswersFrom, Effect, StoreRules, classify, is_stored_header};
use protocol::response::{StoredBody, StoredHeader, StoredResponse};

use super::exchange::{Answered, AnsweredBody};
use super::forward::{OUTCOME, answer_headers};
use super::pace::Pace;
use crate::config::Operation;

/// How long the body of an answer that is to be stored may take after its head. One of storable
/// size that takes longer is a stream: its client should see what there is of it.
const BUFFER_WAIT: Duration = Duration::from_secs(5);

/// An operation's settings about answers.
#[derive(Clone)]
pub(crate) struct Keeping {
    answers_from: AnswersFrom,
    store: StoreRules,
    store_headers: Vec<HeaderName>,
    /// The largest body that is kept, in bytes.
    pub(crate) max_snapshot: u64,
    /// How long a body that is to be kept may take.
    pub(crate) buffer_wait: Duration,
    /// How long an execution may take.
    pub(crate) max_execution: Millis,
    /// Where the time of executions is counted.
    pub(crate) pace: Option<Arc<Pace>>,
}

impl Keeping {
    pub(crate) fn new(operation: &Operation, answers_from: AnswersFrom) -> Self {
        Self {
            answers_from,
            store: operation.store.clone(),
            store_headers: operation.store_headers.clone(),
            max_snapshot: operation.max_snapshot.as_u64(),
            buffer_wait: BUFFER_WAIT,
            max_execution: operation.max_execution,
            pace: None,
        }
    }

    /// The same, with a place where the time of executions is counted.
    pub(crate) fn paced(self, pace: Option<Arc<Pace>>) -> Self {
        Self { pace, ..self }
    }

    /// What an answer with this head means.
    pub(crate) fn effect(&self, head: &response::Parts, attempt_no: u32) -> Effect {
        let mut said = head.headers.get_all(OUTCOME).iter();
        // Two words are none, even where they agree.
        let said = said.next().filter(|_| said.next().is_none()).map(HeaderValue::as_bytes);
        let retry = head.headers.contains_key(RETRY_AFTER);
        classify(&self.store, self.answers_from, head.status.as_u16(), said, retry, attempt_no)
    }

    /// What the execution is told about an answer.
    pub(crate) fn disposition(&self, answered: &Answered) -> Disposition {
        match answered.effect {
            Effect::Store => Disposition::Store(StoredResponse {
                status: answered.head.status.as_u16(),
                headers: self.kept_headers(&answered.head.headers),
                body: match &answered.body {
                    AnsweredBody::Whole(bytes) => StoredBody::Whole(bytes.to_vec()),
                    AnsweredBody::Flowing(_) => StoredBody::Omitted,
                },
            }),
            Effect::Release => Disposition::Retryable,
            Effect::Unknown => Disposition::Unknown,
        }
    }

    /// The header lines that a replay repeats; a name that came twice stands here twice.
    fn kept_headers(&self, headers: &HeaderMap) -> Vec<StoredHeader> {
        let kept = |name: &HeaderName| {
            is_stored_header(name.as_str()) || self.store_headers.contains(name)
        };
        let lines = answer_headers(headers.clone());
        let lines = lines.iter().filter(|(name, _)| kept(name));
        lines
            .map(|(name, value)| StoredHeader {
                name: name.as_str().to_owned(),
                value: value.as_bytes().to_vec(),
            })
            .collect()
    }
}
