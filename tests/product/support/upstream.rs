//! A stub upstream that keeps a ledger of what it executed.
//!
//! `POST` to any path executes and answers `201 {"n":N}` with `Location: /orders/N`. The query says
//! how: `delay=MS` before it executes, `hold=MS` after it executed and before it answers,
//! `status=CODE`, `drop=before|after` (the execution): close the connection instead of answering.
//! `GET` answers `200`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// One execution.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) key: String,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
}

/// The upstream; it serves until the test's runtime ends.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    ledger: Arc<Mutex<Vec<Execution>>>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self { address: listener.local_addr().unwrap(), ledger: Arc::default() };
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
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, &'static str> {
        let (head, body) = request.into_parts();
        if head.method == Method::GET {
            return Ok(Response::new(Full::from("seen")));
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
        let number = self.execute(&head);
        tokio::time::sleep(Duration::from_millis(millis("hold"))).await;
        if drop == Some("after") {
            return Err("dropped after the execution");
        }
        let status = how.get("status").map_or(201, |status| status.parse().unwrap());
        Ok(Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header("location", format!("/orders/{number}"))
            .header("content-type", "application/json")
            .body(Full::from(format!("{{\"n\":{number}}}")))
            .unwrap())
    }

    fn execute(&self, head: &http::request::Parts) -> usize {
        let header = |name: &str| {
            head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let mut ledger = self.ledger.lock().unwrap();
        ledger.push(Execution {
            key: header("idempotency-key"),
            fence: header("idempotency-fence").parse().unwrap_or(0),
            attempt: header("idempotency-attempt").parse().unwrap_or(0),
        });
        ledger.len()
    }
}
