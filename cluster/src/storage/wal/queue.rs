//! What waits to be written: encoded frames, and whom to tell when they are durable.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;

/// Told on the log's thread whether what was handed in is durable. Must be quick: everybody else
/// waits behind it.
pub(crate) type Synced = Box<dyn FnOnce(io::Result<()>) + Send>;

/// [`Queue::room`] waits while more than this is queued. Half a segment: what queues up behind one
/// sync of a fast disk is far less, and what is worth one sync of a slow one no more.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Frames that nobody waits for are written without a reason of their own once there are this many
/// bytes: enough to be worth a sync, and too little to be felt by whoever waits for the next one.
const LAZY_BYTES_MAX: usize = 64 << 10;

/// Frames in the order in which they will be written.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to write, or the queue is closed.
    hurried: Condvar,
    /// The frames were taken out.
    drained: Notify,
    /// As `hurried`, for a writer that is a task.
    #[cfg(feature = "testing")]
    rung: Notify,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    hurried: bool,
    closed: bool,
}

/// What is written and synced together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) frames: Vec<u8>,
    pub(super) synced: Vec<Synced>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            hurried: Condvar::new(),
            drained: Notify::new(),
            #[cfg(feature = "testing")]
            rung: Notify::new(),
        }
    }

    /// Adds the frames that `encode` appends, and `synced` to be told about them. A closed queue
    /// takes nothing and gives `synced` back; the caller tells it so once it holds no lock.
    #[must_use = "a callback that is given back must be called"]
    pub(super) fn push(
        &self,
        encode: impl FnOnce(&mut Vec<u8>),
        synced: Option<Synced>,
    ) -> Option<Synced> {
        let mut waiting = self.lock();
        if waiting.closed {
            return synced;
        }
        encode(&mut waiting.batch.frames);
        let awaited = synced.is_some();
        waiting.batch.synced.extend(synced);
        if awaited || waiting.batch.frames.len() > LAZY_BYTES_MAX {
            self.wake(waiting);
        }
        None
    }

    /// Has everything queued written, whether or not anybody waits for it.
    pub(super) fn hurry(&self) {
        self.wake(self.lock());
    }

    /// Waits until less than [`QUEUE_BYTES_MAX`] is queued.
    pub(super) async fn room(&self) {
        loop {
            // Made before the look, so that a drain in between is not missed.
            let drained = self.drained.notified();
            if self.lock().batch.frames.len() < QUEUE_BYTES_MAX {
                return;
            }
            drained.await;
        }
    }

    /// Waits for something to write and moves it into `batch`, which must be empty. `false` when
    /// the queue is closed and everything was taken out.
    pub(super) fn drain(&self, batch: &mut Batch) -> bool {
        batch.frames.clear();
        // One huge batch must not hold its memory for ever.
        batch.frames.shrink_to(QUEUE_BYTES_MAX);
        let mut waiting = self.lock();
        while !waiting.hurried && !waiting.closed {
            waiting = self.hurried.wait(waiting).expect(UNPOISONED);
        }
        waiting.hurried = false;
        std::mem::swap(&mut waiting.batch, batch);
        let over = waiting.closed && batch.frames.is_empty() && batch.synced.is_empty();
        drop(waiting);
        self.drained.notify_waiters();
        !over
    }

    /// Takes nothing any more. What is queued is still written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.hurried.notify_one();
        #[cfg(feature = "testing")]
        self.rung.notify_one();
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let first = !std::mem::replace(&mut waiting.hurried, true);
        drop(waiting);
        if first {
            self.hurried.notify_one();
            #[cfg(feature = "testing")]
            self.rung.notify_one();
        }
    }

    /// Waits until [`Queue::drain`] would return at once.
    #[cfg(feature = "testing")]
    pub(super) async fn hurried(&self) {
        loop {
            let rung = self.rung.notified();
            {
                let waiting = self.lock();
                if waiting.hurried || waiting.closed {
                    return;
                }
            }
            rung.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "encoding does not panic under the queue's lock";

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    fn lazily(queue: &Queue, bytes: usize) {
        assert!(queue.push(|out| out.resize(out.len() + bytes, 0), None).is_none());
    }

    #[test]
    fn what_nobody_waits_for_is_written_with_what_somebody_waits_for() {
        let queue = Queue::new();
        lazily(&queue, 10);
        assert!(!queue.lock().hurried);
        assert!(queue.push(|out| out.push(0), Some(Box::new(|_| ()))).is_none());
        let mut batch = Batch::default();
        assert!(queue.drain(&mut batch));
        assert_eq!((batch.frames.len(), batch.synced.len()), (11, 1));
    }

    #[test]
    fn much_that_nobody_waits_for_is_written_all_the_same() {
        let queue = Queue::new();
        lazily(&queue, LAZY_BYTES_MAX + 1);
        assert!(queue.drain(&mut Batch::default()));
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_holds_and_takes_nothing() {
        let queue = Queue::new();
        lazily(&queue, 10);
        queue.close();
        let returned = queue.push(|_| panic!("closed"), Some(Box::new(|_| ())));
        assert!(returned.is_some());
        let mut batch = Batch::default();
        assert!(queue.drain(&mut batch));
        assert_eq!(batch.frames.len(), 10);
        assert!(!queue.drain(&mut batch));
    }

    #[tokio::test]
    async fn a_full_queue_has_room_again_when_it_is_drained() {
        let queue = Queue::new();
        queue.room().await;
        lazily(&queue, QUEUE_BYTES_MAX);
        let mut room = pin!(queue.room());
        let first = poll_fn(|context| Poll::Ready(room.as_mut().poll(context))).await;
        assert_eq!(first, Poll::Pending);
        assert!(queue.drain(&mut Batch::default()));
        room.await;
    }
}
