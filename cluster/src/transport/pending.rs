//! Calls that wait for an answer, on one connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Answer, CallError, share_of};

/// How many calls to one peer may wait for an answer. The fastest node measured decided 250,000
/// commands a second; a tenth of a second of those sent one by one would still fit into three
/// quarters of it.
pub(super) const PENDING_MAX: usize = 1 << 15;

/// Calls that wait.
#[derive(Default)]
pub(super) struct Pending {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    last: u64,
    closed: bool,
}

/// One call that waits. Dropping it forgets the call.
pub(super) struct Waiting {
    pending: Arc<Pending>,
    call: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    /// Adds a call of this kind.
    ///
    /// # Errors
    /// [`CallError::NotSent`] when the connection is gone, [`CallError::Full`] at the bound.
    pub(super) fn begin(self: &Arc<Self>, kind: u8) -> Result<Waiting, CallError> {
        let (sender, answer) = oneshot::channel();
        let mut calls = self.lock();
        if calls.closed {
            return Err(CallError::NotSent);
        }
        if calls.waiting.len() >= share_of(kind, PENDING_MAX) {
            return Err(CallError::Full);
        }
        calls.last += 1;
        let call = calls.last;
        calls.waiting.insert(call, sender);
        drop(calls);
        Ok(Waiting { pending: self.clone(), call, answer })
    }

    /// Answers a call; one that waits no more is passed over.
    pub(super) fn answer(&self, call: u64, answer: Answer) {
        let waiting = self.lock().waiting.remove(&call);
        if let Some(waiting) = waiting {
            // The caller may have left just now.
            let _ = waiting.send(answer);
        }
    }

    /// Fails every call that waits, and every later one.
    pub(super) fn close(&self) {
        let mut calls = self.lock();
        calls.closed = true;
        let waiting = std::mem::take(&mut calls.waiting);
        drop(calls);
        drop(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().expect("nothing panics while it holds the table of calls")
    }
}

impl Waiting {
    /// The number that the answer will carry.
    pub(super) fn call(&self) -> u64 {
        self.call
    }

    /// Waits for the answer.
    pub(super) async fn until(mut self, deadline: Instant) -> Result<Bytes, CallError> {
        match timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(Answer::Body(body))) => Ok(body),
            Ok(Ok(Answer::Refused)) => Err(CallError::Refused),
            Ok(Ok(Answer::Lost) | Err(_)) => Err(CallError::Lost),
            Err(_) => Err(CallError::TimedOut),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.call);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test(start_paused = true)]
    async fn answers_find_their_calls_in_any_order() {
        let pending = Arc::new(Pending::default());
        let calls: Vec<_> = (0..3).map(|_| pending.begin(1).unwrap()).collect();
        let ids: Vec<_> = calls.iter().map(Waiting::call).collect();
        pending.answer(ids[2], Answer::Body("third".into()));
        pending.answer(ids[0], Answer::Refused);
        pending.answer(ids[1], Answer::Lost);
        pending.answer(99, Answer::Refused);
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.until(soon()).await);
        }
        assert_eq!(answers, [Err(CallError::Refused), Err(CallError::Lost), Ok("third".into())]);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_fails_all_that_wait_at_once_and_all_that_come() {
        let pending = Arc::new(Pending::default());
        let call = pending.begin(1).unwrap();
        pending.close();
        let started = Instant::now();
        assert_eq!(call.until(soon()).await, Err(CallError::Lost));
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(matches!(pending.begin(1), Err(CallError::NotSent)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_timed_out_or_was_dropped_leaves_the_table() {
        let pending = Arc::new(Pending::default());
        drop(pending.begin(1).unwrap());
        let call = pending.begin(1).unwrap();
        assert_eq!(call.until(soon()).await, Err(CallError::TimedOut));
        assert!(pending.lock().waiting.is_empty());
    }

    #[test]
    fn a_full_table_takes_nothing_and_bulk_leaves_room_for_the_rest() {
        let pending = Arc::new(Pending::default());
        let fill =
            |kind| -> Vec<Waiting> { (0..).map_while(|_| pending.begin(kind).ok()).collect() };
        let bulk = fill(16);
        let rest = fill(15);
        assert_eq!((bulk.len(), rest.len()), (PENDING_MAX / 4 * 3, PENDING_MAX / 4));
        assert!(matches!(pending.begin(1), Err(CallError::Full)));
        drop(bulk);
        assert!(pending.begin(16).is_ok());
    }
}
