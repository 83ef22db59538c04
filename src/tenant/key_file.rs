//! Follows the file of an issuer's public keys.
//!
//! Issuers change their keys, and whoever fetches them replaces the file. A thread of its own looks
//! at it, since a file system may hang and no request, and nothing that a node does, may hang with
//! it. A file that cannot be used any more changes nothing: the keys that were read before stay.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio::time::timeout;

use super::key_set::{KeySet, VerifyingKey};

/// How often the thread looks whether the file has changed: a key that was taken out is refused
/// this much later at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the file is read for the sake of unknown keys alone: tokens that name keys which do
/// not exist cost nobody more than this.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How long a token with an unknown key waits for a look at the file. It takes microseconds; a file
/// system that hangs makes the token a refused one.
const LOOK_WAIT: Duration = Duration::from_secs(1);

/// The keys of a file. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct KeyFile {
    published: watch::Receiver<Published>,
    demand: SyncSender<()>,
}

/// What the thread has found.
#[derive(Debug)]
struct Published {
    keys: Arc<KeySet>,
    /// How often the thread has looked.
    looks: u64,
}

/// The file as the thread knows it.
struct Followed {
    path: PathBuf,
    version: Option<Version>,
    read_at: Instant,
}

/// What tells two versions of a file apart.
#[derive(PartialEq, Eq)]
struct Version {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl KeyFile {
    /// Reads the file and follows it from now on. When it cannot be used, there are no keys until
    /// it can.
    pub(super) fn follow(path: PathBuf) -> Self {
        let mut file = Followed { path, version: None, read_at: Instant::now() };
        let keys = file.read(true).unwrap_or_default();
        let (publish, published) = watch::channel(Published { keys, looks: 0 });
        let (demand, demanded) = sync_channel(1);
        let run = move || run(file, &demanded, &publish);
        if let Err(error) = thread::Builder::new().name("jwks".to_owned()).spawn(run) {
            tracing::error!(%error, "no thread for the JWKS file: changed keys are not seen");
        }
        Self { published, demand }
    }

    /// The key of this name. One that is not known may have been added just now, so that the file
    /// is looked at once more.
    pub(super) async fn key(&self, kid: &str) -> Option<Arc<VerifyingKey>> {
        let (known, looks) = {
            let published = self.published.borrow();
            (published.keys.get(kid), published.looks)
        };
        // A full channel holds the demand of another caller, which serves this one as well.
        if known.is_some() || self.demand.try_send(()) == Err(TrySendError::Disconnected(())) {
            return known;
        }
        let mut published = self.published.clone();
        let looked = async {
            let _ = published.wait_for(|published| published.looks > looks).await;
        };
        let _ = timeout(LOOK_WAIT, looked).await;
        self.published.borrow().keys.get(kid)
    }
}

impl Followed {
    /// The keys, where the file is read and can be used: when it has changed, or when somebody asks
    /// for an unknown key.
    fn look(&mut self, demanded: bool) -> Option<Arc<KeySet>> {
        let changed = Version::of(&self.path).ok() != self.version;
        let due = demanded && self.read_at.elapsed() >= READ_EVERY;
        if changed || due { self.read(changed) } else { None }
    }

    /// The keys, where the file can be used; `tell`: whether anybody must learn that it cannot.
    fn read(&mut self, tell: bool) -> Option<Arc<KeySet>> {
        // Taken first: what changes meanwhile is then read again.
        self.version = Version::of(&self.path).ok();
        self.read_at = Instant::now();
        match KeySet::read(&self.path) {
            Ok(keys) => Some(Arc::new(keys)),
            Err(error) => {
                if tell {
                    let file = self.path.display();
                    tracing::error!(%file, %error, "the JWKS file cannot be used; older keys stay");
                }
                None
            }
        }
    }
}

impl Version {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { inode: found.ino(), bytes: found.len(), modified: found.modified().ok() })
    }
}

/// The thread: looks at the file from time to time and on demand, until nobody needs it.
fn run(mut file: Followed, demanded: &Receiver<()>, publish: &watch::Sender<Published>) {
    loop {
        let demanded = match demanded.recv_timeout(LOOK_EVERY) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let news = file.look(demanded);
        if news.is_some() {
            tracing::info!(file = %file.path.display(), "read the JWKS file");
        }
        publish.send_modify(|published| {
            published.looks += 1;
            if let Some(keys) = news {
                published.keys = keys;
            }
        });
    }
}

#[cfg(test)]
mod tests;
