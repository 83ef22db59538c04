//! A stub upstream that keeps a ledger of what it executed.
//!
//! `POST` to any path executes and answers `201 {"n":N}` with `Location: /orders/N`. The query says
//! how: `delay=MS` before it executes, `hold=MS` after it executed and before it answers,
//! `status=CODE`, `drop=before|after` (the execution): close the connection instead of answering.
//! A test may give the answers of a path itself. `GET`, `HEAD` and `OPTIONS` answer `200`, the
//! other methods execute as `POST` does.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// One execution.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) headers: HeaderMap,
    pub(crate) key: String,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
}

/// An answer of the upstream.
pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Makes the answer to the execution of this number.
type Answers = Arc<dyn Fn(usize, &Execution) -> Reply + Send + Sync>;

/// The upstream; it serves until the test's runtime ends.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    ledger: Arc<Mutex<Vec<Execution>>>,
    answers: Arc<Mutex<HashMap<String, Answers>>>,
    /// How often something was asked that executes nothing.
    reads: Arc<AtomicUsize>,
}

/// The body of an answer, whole.
pub(crate) fn whole(body: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, Infallible> {
    Full::new(body.into()).boxed_unsync()
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            ledger: Arc::default(),
            answers: Arc::default(),
            reads: Arc::default(),
        };
        tokio::spawn(upstream.clone().serve(listener));
        upstream
    }

    /// Everything executed so far.
    pub(crate) fn ledger(&self) -> Vec<Execution> {
        self.ledger.lock().unwrap().clone()
    }

    /// How often `key` was executed.
    pub(crate) fn executions(&self, key: &str) -> usize {
        self.ledger().iter().filter(|execution| execution.key == key).count()
    }

    /// How often something was asked that executes nothing.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Answers requests for `path` so from now on; each counts as an execution all the same.
    pub(crate) fn on(
        &self,
        path: &str,
        answers: impl Fn(usize, &Execution) -> Reply + Send + Sync + 'static,
    ) {
        self.answers.lock().unwrap().insert(path.to_owned(), Arc::new(answers));
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let upstream = self.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let upstream = upstream.clone();
                    async move { upstream.answer(request).await }
                });
                // A dropped connection is what some tests ask for.
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }

    /// The answer; an error closes the connection without one.
    async fn answer(&self, request: Request<Incoming>) -> Result<Reply, &'static str> {
        let (head, body) = request.into_parts();
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            return Ok(Response::new(whole("seen")));
        }
        let how: HashMap<String, String> =
            form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let millis = |name: &str| how.get(name).map_or(0, |value| value.parse().unwrap());
        let drop = how.get("drop").map(String::as_str);
        body.collect().await.map_err(|_| "the request broke off")?;
        tokio::time::sleep(Duration::from_millis(millis("delay"))).await;
        if drop == Some("before") {
            return Err("dropped before the execution");
        }
        let (number, execution) = self.execute(&head);
        tokio::time::sleep(Duration::from_millis(millis("hold"))).await;
        if drop == Some("after") {
            return Err("dropped after the execution");
        }
        let given = self.answers.lock().unwrap().get(head.uri.path()).cloned();
        if let Some(given) = given {
            return Ok(given(number, &execution));
        }
        let status = how.get("status").map_or(201, |status| status.parse().unwrap());
        Ok(Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header("location", format!("/orders/{number}"))
            .header("content-type", "application/json")
            .body(whole(format!("{{\"n\":{number}}}")))
            .unwrap())
    }

    fn execute(&self, head: &http::request::Parts) -> (usize, Execution) {
        let header = |name: &str| {
            head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let execution = Execution {
            headers: head.headers.clone(),
            key: header("idempotency-key"),
            fence: header("idempotency-fence").parse().unwrap_or(0),
            attempt: header("idempotency-attempt").parse().unwrap_or(0),
        };
        let mut ledger = self.ledger.lock().unwrap();
        ledger.push(execution.clone());
        (ledger.len(), execution)
    }
}
