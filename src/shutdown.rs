//! Stopping in order: stop accepting, finish requests, stop the nodes.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The side that says stop. Dropping it says so too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// The side that is told to stop. Clones are told together.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A stopper and what it stops.
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Tells everything that holds a [`Stop`] of this stopper to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Resolves once to stop, at once if that was said before.
    pub async fn requested(&mut self) {
        // An error says that the stopper is gone, so nobody could say stop any more.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// The signals by which an operator stops a process: Ctrl-C and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over; from now on they no longer end the process by themselves. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// Those of installing a signal handler.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Resolves when the next signal arrives.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_is_told_to_stop() {
        let (stopper, stop) = channel();
        let mut other = stop.clone();
        assert!(!stop.is_requested());
        stopper.stop();
        assert!(stop.is_requested());
        other.requested().await;
    }

    #[tokio::test]
    async fn a_dropped_stopper_says_stop() {
        let (stopper, mut stop) = channel();
        drop(stopper);
        stop.requested().await;
        assert!(stop.is_requested());
    }
}
