//! A watch channel whose waiters are woken in the order in which they came.
//!
//! tokio's wakes them in an order that it draws at random, so a simulation could not repeat itself.

use std::sync::Arc;

use openraft::async_runtime::{Watch, WatchReceiver, WatchSender, watch};
use openraft::{OptionalSend, OptionalSync};
use tokio::sync::Notify;
use tokio::sync::watch as tokio_watch;

/// Makes the channels.
pub(crate) struct SteadyWatch;

pub(crate) struct Sender<T> {
    /// Taken when it is dropped: the waiters are woken after that.
    values: Option<tokio_watch::Sender<T>>,
    sent: Arc<Notify>,
}

pub(crate) struct Receiver<T> {
    values: tokio_watch::Receiver<T>,
    sent: Arc<Notify>,
}

impl Watch for SteadyWatch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = tokio_watch::Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Self::Sender<T>, Self::Receiver<T>) {
        let (sender, values) = tokio_watch::channel(init);
        let sent = Arc::new(Notify::new());
        (Sender { values: Some(sender), sent: sent.clone() }, Receiver { values, sent })
    }
}

impl<T> Sender<T> {
    fn values(&self) -> &tokio_watch::Sender<T> {
        self.values.as_ref().expect("only taken when it is dropped")
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), sent: self.sent.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.values.take();
        self.sent.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), sent: self.sent.clone() }
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<SteadyWatch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        let sent = self.values().send(value).map_err(|error| watch::SendError(error.0));
        self.sent.notify_waiters();
        sent
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let modified = self.values().send_if_modified(modify);
        if modified {
            self.sent.notify_waiters();
        }
        modified
    }

    fn borrow_watched(&self) -> tokio_watch::Ref<'_, T> {
        self.values().borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Receiver { values: self.values().subscribe(), sent: self.sent.clone() }
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<SteadyWatch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), watch::RecvError> {
        loop {
            let mut sent = std::pin::pin!(self.sent.notified());
            // Listens before it looks, so that what is sent between the two is heard.
            sent.as_mut().enable();
            let closed = self.values.has_changed().is_err();
            let changed = self.values.borrow().has_changed();
            if changed {
                self.values.mark_unchanged();
                return Ok(());
            }
            if closed {
                return Err(watch::RecvError(()));
            }
            sent.await;
        }
    }

    fn borrow_watched(&self) -> tokio_watch::Ref<'_, T> {
        self.values.borrow()
    }

    fn borrow_and_update(&mut self) -> tokio_watch::Ref<'_, T> {
        self.values.borrow_and_update()
    }
}
