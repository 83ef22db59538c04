//! Tells the record of an answer that was not kept how long its body was, and its digest.
//!
//! The marker is durable before the body flows; what is known of the body only at its end is added
//! to it. Should that fail, the marker says as much as before.

use std::time::{Duration, Instant};

use protocol::command::Grant;
use protocol::response::{Measure, StoredBody, StoredResponse};
use protocol::{Command, Outcome, RecordName};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::judge::Judge;

/// How long the record is tried to be told: as long as an outage is expected to last at most that
/// costs nothing but this detail.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Measures a body that flows past.
#[derive(Default)]
pub(crate) struct Measuring {
    bytes: u64,
    digest: Sha256,
    told: Option<oneshot::Sender<Measure>>,
}

impl Measuring {
    /// Who waits for the end of the body; an error when that never comes.
    pub(crate) fn measure(&mut self) -> oneshot::Receiver<Measure> {
        let (told, measure) = oneshot::channel();
        self.told = Some(told);
        measure
    }

    pub(crate) fn add(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        self.digest.update(data);
    }

    /// The body has ended, and was whole.
    pub(crate) fn finish(&mut self) {
        if let Some(told) = self.told.take() {
            let sha256 = std::mem::take(&mut self.digest).finalize().into();
            // Nobody may wait for it any more.
            let _ = told.send(Measure { bytes: self.bytes, sha256 });
        }
    }
}

/// Adds to the record of `marker` what `measure` will say of its body.
pub(crate) async fn record<J: Judge>(
    judge: J,
    name: RecordName,
    grant: Grant,
    marker: StoredResponse,
    measure: oneshot::Receiver<Measure>,
) {
    let Ok(measure) = measure.await else { return };
    let response = StoredResponse { body: StoredBody::Measured(measure), ..marker };
    let command = Command::Complete { name, grant, response };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match judge.submit(command.clone(), deadline).await {
            Ok(decided) => {
                if decided.outcome != Outcome::Completed {
                    tracing::debug!("the record has moved on; its body stays unmeasured");
                }
                return;
            }
            Err(error) if error.is_lasting() => return,
            // Definite or not, it may be tried again: the same response twice is one.
            Err(error) => tracing::debug!(%error, "an answer's length is not stored yet"),
        }
        if Instant::now() + PAUSE >= deadline {
            tracing::warn!("the length of an answer that was not kept could not be stored");
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
