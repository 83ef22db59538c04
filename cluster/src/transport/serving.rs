//! Requests of one connection that are being served: how many, and how many bytes they hold.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::pending::PENDING_MAX;
use super::share_of;

/// How many requests of one connection may be served at a time. A peer that keeps to its own bound
/// never meets this one, except with calls that it gave up and that are still being served here.
const REQUESTS_MAX: usize = PENDING_MAX;

/// How many bytes their bodies may have: as much as may wait on the way, and some, so that a slow
/// disk cannot fill the memory with appends.
const BYTES_MAX: usize = 64 << 20;

/// What is being served.
#[derive(Default)]
pub(super) struct Serving {
    load: Mutex<Load>,
    freed: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    requests: usize,
    bytes: usize,
}

impl Load {
    /// Whether another request of any size may be taken with this much room.
    fn fits(self, kind: u8) -> bool {
        self.requests < share_of(kind, REQUESTS_MAX) && self.bytes < share_of(kind, BYTES_MAX)
    }
}

impl Serving {
    /// Takes a request; `false` for a bulk one that would use the room of the others. It is refused
    /// then, for waiting here would hold up everything behind it.
    ///
    /// Waits while the whole bound is in use: then nothing more is read from the connection.
    pub(super) async fn begin(&self, kind: u8, bytes: usize) -> bool {
        loop {
            {
                let mut load = self.lock();
                if load.fits(kind) {
                    load.requests += 1;
                    load.bytes += bytes;
                    return true;
                }
                if load.fits(0) {
                    return false;
                }
            }
            self.freed.notified().await;
        }
    }

    /// A request was answered.
    pub(super) fn end(&self, bytes: usize) {
        let mut load = self.lock();
        load.requests -= 1;
        load.bytes -= bytes;
        drop(load);
        self.freed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Load> {
        self.load.lock().expect("nothing panics while it holds the load")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;

    #[tokio::test]
    async fn at_the_bound_of_requests_bulk_is_refused_and_the_rest_waits_for_an_end() {
        let serving = Arc::new(Serving::default());
        for _ in 0..REQUESTS_MAX / 4 * 3 {
            assert!(serving.begin(16, 0).await);
        }
        assert!(!serving.begin(16, 0).await);
        for _ in 0..REQUESTS_MAX / 4 {
            assert!(serving.begin(0, 0).await);
        }
        let mut next = begin_later(&serving);
        assert!((&mut next).now_or_never().is_none());
        serving.end(0);
        assert!(next.await);
    }

    #[tokio::test]
    async fn bodies_count_by_their_bytes() {
        let serving = Arc::new(Serving::default());
        let half = BYTES_MAX / 2;
        assert!(serving.begin(16, half).await);
        assert!(serving.begin(16, half / 2).await);
        assert!(!serving.begin(16, 1).await, "three quarters are taken");
        assert!(serving.begin(0, half).await, "one may reach beyond the bound");
        let mut next = begin_later(&serving);
        assert!((&mut next).now_or_never().is_none());
        serving.end(half);
        assert!(next.await);
    }

    fn begin_later(serving: &Arc<Serving>) -> BoxFuture<'static, bool> {
        let serving = serving.clone();
        Box::pin(async move { serving.begin(0, 1).await })
    }
}
