//! The rounds in which the shards of one node propose.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Longest wait for a round to end. About what an entry takes on an idle node, so a shard that
/// cannot reach its majority costs the others little. With 2 ms, 64 connections got no further and
/// 4 connections waited for nothing.
const ROUND_WAIT: Duration = Duration::from_millis(1);

/// Holds the proposals of a node's shards together. Clones share the rounds.
///
/// What an entry costs hardly depends on how many commands it has. Under load the shards' entries
/// travel at the same time, each with few commands; a shard that waits until the others' have
/// ended proposes more at once, and shares their log sync.
#[derive(Clone, Default)]
pub(crate) struct Rounds(Arc<Shared>);

#[derive(Default)]
struct Shared {
    under_way: AtomicUsize,
    ended: Notify,
}

/// An entry under way, until it is dropped.
pub(super) struct UnderWay(Arc<Shared>);

impl Rounds {
    /// Waits until no shard of this node has an entry under way, but not for long.
    pub(super) async fn wait(&self) {
        let ended = self.0.ended.notified();
        tokio::pin!(ended);
        // Listens before it looks, so that an end between the two is heard.
        ended.as_mut().enable();
        if self.0.under_way.load(Ordering::Acquire) > 0 {
            // Both ends of the wait mean the same: propose now.
            let _ = timeout(ROUND_WAIT, ended).await;
        }
    }

    pub(super) fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(Arc::clone(&self.0))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll(wait: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        wait.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_waits_until_the_last_entry_of_the_round_has_ended() {
        let rounds = Rounds::default();
        assert!(poll(pin!(rounds.wait())).is_ready(), "nothing is under way");
        let (first, second) = (rounds.begin(), rounds.begin());
        let mut wait = pin!(rounds.wait());
        assert!(poll(wait.as_mut()).is_pending());
        drop(first);
        assert!(poll(wait.as_mut()).is_pending());
        drop(second);
        assert!(poll(wait.as_mut()).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_does_not_end_is_not_waited_for_long() {
        let rounds = Rounds::default();
        let _stuck = rounds.begin();
        let before = tokio::time::Instant::now();
        rounds.wait().await;
        assert!(before.elapsed() <= ROUND_WAIT + Duration::from_millis(1));
    }
}
