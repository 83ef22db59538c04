//! What went wrong with the log while it ran, and the alarm that tells the node to stop.

use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

/// A file operation that failed. Unlike [`io::Error`] it can be told to everybody who waits.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    action: &'static str,
    path: PathBuf,
    kind: io::ErrorKind,
    message: String,
}

impl Failure {
    pub(super) fn new(action: &'static str, path: &Path, error: &io::Error) -> Self {
        let (kind, message) = (error.kind(), error.to_string());
        Self { action, path: path.to_path_buf(), kind, message }
    }

    /// Whether the disk, or the quota on it, is full.
    pub(super) fn is_disk_full(&self) -> bool {
        matches!(self.kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// What a caller is told.
    pub(super) fn to_io(&self) -> io::Error {
        let Self { action, path, kind, message } = self;
        io::Error::new(*kind, format!("{}: {action}: {message}", path.display()))
    }
}

impl From<Failure> for super::WalError {
    fn from(failure: Failure) -> Self {
        let Failure { action, path, kind, message } = failure;
        Self::Io { action, path, source: io::Error::new(kind, message) }
    }
}

/// Raised once, by the first failure; never lowered.
pub(super) struct Alarm(watch::Sender<Option<Failure>>);

impl Alarm {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    pub(super) fn raise(&self, failure: Failure) {
        self.0.send_if_modified(|raised| {
            let first = raised.is_none();
            raised.get_or_insert(failure);
            first
        });
    }

    pub(super) fn raised(&self) -> Option<Failure> {
        self.0.borrow().clone()
    }

    /// Resolves when the alarm is raised.
    pub(super) async fn wait(&self) -> Failure {
        let mut receiver = self.0.subscribe();
        let raised = receiver.wait_for(Option::is_some).await.expect("the sender is borrowed");
        raised.clone().expect("waited until it was there")
    }
}
