//! The API behind the gateways, with a ledger of everything that it executed.
//!
//! An execution counts once its line is synced to the disk, and only then is it answered. What a
//! request asks of the upstream (to be slow, to hang, to close the connection, to fail) stands in a
//! header of it, which is no part of the request as the product compares it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

use crate::history::Recorder;
use crate::operation::{How, Name};
use crate::policy::may_be_taken_over;

/// How long an execution that never answers is held at most.
const HANG: Duration = Duration::from_secs(30);

/// One line of the ledger: somebody asked for an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// When, by the clock of the history.
    pub at: u64,
    /// The record, as the product told it.
    pub name: Name,
    /// The fence that came with it.
    pub fence: u64,
    /// The attempt that came with it, from 1.
    pub attempt: u32,
    /// Tells this execution from every other.
    pub nonce: String,
    /// The call of the history that it was executed for.
    pub call: u64,
    /// What was asked of the upstream.
    pub how: How,
    /// Whether it was refused, because a later fence had been seen: nothing was executed then.
    pub refused: bool,
}

/// The executions so far, on disk. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    recorder: Arc<Recorder>,
    written: Arc<Mutex<Written>>,
    /// Whether anything could not be written: then nothing is proven.
    broken: Arc<AtomicBool>,
}

struct Written {
    file: File,
    executions: Vec<Execution>,
    fences: BTreeMap<Name, u64>,
}

impl Ledger {
    /// Begins a ledger in a new file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, recorder: Arc<Recorder>) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let written = Written { file, executions: Vec::new(), fences: BTreeMap::new() };
        Ok(Self { recorder, written: Arc::new(Mutex::new(written)), broken: Arc::default() })
    }

    /// Executes, durably: returns once the line is synced. Where executions may be repeated, one
    /// with an older fence than the newest is refused, as such an upstream has to.
    pub async fn execute(&self, mut execution: Execution) -> Execution {
        let ledger = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut written = ledger.lock();
            let Written { file, executions, fences } = &mut *written;
            let newest = fences.entry(execution.name.clone()).or_default();
            execution.at = ledger.recorder.now();
            execution.refused =
                may_be_taken_over(&execution.name.operation) && execution.fence < *newest;
            *newest = execution.fence.max(*newest);
            let done = append(file, &execution);
            executions.push(execution.clone());
            done.map(|()| execution)
        });
        match written.await {
            Ok(Ok(execution)) => execution,
            _ => {
                self.broken.store(true, Ordering::Relaxed);
                std::future::pending().await
            }
        }
    }

    /// Everything executed so far.
    ///
    /// # Errors
    /// When some of it could not be written.
    pub fn executions(&self) -> io::Result<Vec<Execution>> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("the ledger has a hole"));
        }
        Ok(self.lock().executions.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().expect("nothing panics while it writes")
    }
}

fn append(file: &mut File, execution: &Execution) -> io::Result<()> {
    let mut line = serde_json::to_vec(execution)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

/// Serves the API. Clones share it.
#[derive(Clone)]
pub struct Upstream {
    ledger: Ledger,
    /// How many bytes fill up an answer, so that the product's log grows.
    filling: usize,
}

impl Upstream {
    /// An API whose answers are `filling` bytes larger than they need be.
    pub fn new(ledger: Ledger, filling: usize) -> Self {
        Self { ledger, filling }
    }

    /// Begins to serve on a free port of `ip`, until the runtime ends.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(self, ip: IpAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((ip, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                drop(stream.set_nodelay(true));
                let upstream = self.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let upstream = upstream.clone();
                        async move { upstream.answer(request).await }
                    });
                    // A connection that breaks is what some requests ask for.
                    drop(
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        Ok(address)
    }

    /// The answer; an error closes the connection without one.
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, &'static str> {
        let (head, body) = request.into_parts();
        body.collect().await.map_err(|_| "the request broke off")?;
        let Some(asked) = asked(head.uri.path(), &head.headers) else {
            return Ok(plain(StatusCode::BAD_REQUEST, "not a request of the harness"));
        };
        let how = asked.how;
        if how == How::ResetBefore {
            return Err("closed before the execution");
        }
        let done = self.ledger.execute(asked).await;
        if done.refused {
            return Ok(plain(StatusCode::CONFLICT, "a later fence was seen"));
        }
        match how {
            How::ResetAfter => return Err("closed after the execution"),
            How::Hang => {
                tokio::time::sleep(HANG).await;
                return Err("never answered");
            }
            How::After(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            How::Status(_) | How::ResetBefore => {}
        }
        let status = match how {
            How::Status(status) => StatusCode::from_u16(status).map_err(|_| "no such status")?,
            _ => StatusCode::CREATED,
        };
        let body = json!({ "nonce": done.nonce, "filling": "x".repeat(self.filling) });
        let answer = Response::builder()
            .status(status)
            .header("location", format!("/{}/{}", done.name.operation, done.nonce))
            .header("content-type", "application/json")
            .header("x-not-kept", done.nonce)
            .body(Full::new(Bytes::from(body.to_string())));
        answer.map_err(|_| "not an answer")
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer
}

/// The execution that a request asks for.
fn asked(path: &str, headers: &HeaderMap) -> Option<Execution> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let tenant = text("x-ledger-tenant")?.to_owned();
    let nonce = format!("{tenant}-{:032x}", rand::random::<u128>());
    Some(Execution {
        at: 0,
        name: Name {
            tenant,
            account: text("x-account").unwrap_or_default().to_owned(),
            operation: path.trim_start_matches('/').to_owned(),
            key: text("idempotency-key")?.to_owned(),
        },
        fence: text("idempotency-fence")?.parse().ok()?,
        attempt: text("idempotency-attempt")?.parse().ok()?,
        nonce,
        call: text("x-call")?.parse().ok()?,
        how: text("x-how")?.parse().ok()?,
        refused: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::read_lines;

    fn execution(operation: &str, fence: u64) -> Execution {
        let name = Name { operation: operation.to_owned(), ..Name::default() };
        let (nonce, how) = (format!("n{fence}"), How::After(0));
        Execution { at: 0, name, fence, attempt: 1, nonce, call: 1, how, refused: false }
    }

    #[tokio::test]
    async fn only_where_executions_may_be_repeated_an_older_fence_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Arc::new(Recorder::create(&folder.path().join("history")).unwrap());
        let path = folder.path().join("ledger");
        let ledger = Ledger::create(&path, recorder).unwrap();
        for operation in ["again", "orders"] {
            for (fence, refused) in [(2, false), (1, operation == "again"), (3, false)] {
                let done = ledger.execute(execution(operation, fence)).await;
                assert_eq!(done.refused, refused, "{operation} {fence}");
            }
        }
        let executions = ledger.executions().unwrap();
        assert_eq!(executions.len(), 6);
        assert_eq!(read_lines::<Execution>(&path).unwrap(), executions);
    }
}
