use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use protocol::fingerprint::OutlineKey;
use protocol::record::{Record, State};
use protocol::{Fingerprint, HolderId, IdempotencyKey, Scope, Token};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use super::*;
use crate::config::Operation;
use crate::gateway::forward::ForwardedKey;
use crate::gateway::tests::judge::{Fault, Kind, SubmitErrorKind, TestJudge};
use crate::gateway::tests::operation;
use crate::gateway::tests::stub::{PATIENCE, Step, Stub};
use crate::subject::What;

mod faults;
mod outcomes;

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
    location: /orders/1\r\nset-cookie: a=1\r\ndate: now\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

/// One key's requests at one gateway.
struct Bench {
    judge: TestJudge,
    upstream: Upstream,
    operation: Operation,
    key: &'static str,
    /// Kept for as long as clients wait.
    client: Option<Arc<()>>,
    waiting: Waiting,
}

/// An answer as a client sees it.
struct Seen {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Bench {
    /// A gateway before the upstream at `address`, with the shortest lease there is.
    fn new(address: SocketAddr) -> Self {
        let judge = TestJudge::new();
        let clock = judge.clone();
        let uri = format!("http://{address}").parse().unwrap();
        let upstream = Upstream::new(&uri, None, Arc::new(move || clock.boot()));
        let lease = protocol::lease::LEASE_MIN;
        let operation = Operation { lease, ..operation() };
        let (client, waiting) = Waiting::new();
        Self { judge, upstream, operation, key: "k", client: Some(client), waiting }
    }

    fn with(mut self, change: impl FnOnce(&mut Operation)) -> Self {
        change(&mut self.operation);
        self
    }

    fn job(&self, body: &'static str) -> Job<TestJudge> {
        self.job_for(self.key, body)
    }

    fn job_for(&self, key: &'static str, body: &'static str) -> Job<TestJudge> {
        let scope = Scope {
            tenant: "acme".into(),
            sub_account: Vec::new(),
            credential: None,
            operation: Some("orders".into()),
        };
        let name = RecordName::new(&scope, &IdempotencyKey::from_text(key, 255).unwrap());
        let claim = Claim {
            operation: None,
            holder: HolderId::of(b"acme/web", &rand::random::<[u8; 16]>()),
            seen: self.judge.seen(&name).unwrap(),
            print: Fingerprint::opaque(body).unwrap().into(),
            lease: self.operation.lease,
            terms: self.operation.terms(),
            token: Token::new(rand::random()),
            name: name.clone(),
        };
        Job {
            judge: self.judge.clone(),
            upstream: self.upstream.clone(),
            claim,
            subject: Subject::new(
                What::Opaque(Fingerprint::opaque(body).unwrap()),
                OutlineKey::new(&[7; 32], &name),
            ),
            answer_within: self.operation.answer_within,
            outgoing: Outgoing {
                method: Method::POST,
                target: "/orders?a=1".parse().unwrap(),
                headers: HeaderMap::from_iter([(
                    http::header::HOST,
                    HeaderValue::from_static("shop"),
                )]),
                key: ForwardedKey::Raw(HeaderValue::from_static(key)),
                body: Bytes::from_static(body.as_bytes()),
            },
            keeping: Keeping::new(&self.operation, protocol::policy::AnswersFrom::Application),
            terms: crate::gateway::terms(&self.operation),
            waiting: self.waiting.clone(),
        }
    }

    fn start(&self, body: &'static str) -> oneshot::Receiver<Response> {
        run(self.job(body))
    }

    async fn ask(&self, body: &'static str) -> Seen {
        answer(self.start(body)).await
    }
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of the problem that this is.
    fn code(&self) -> String {
        self.problem()["code"].as_str().unwrap().to_owned()
    }

    /// The problem that this is.
    fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

fn run(job: Job<TestJudge>) -> oneshot::Receiver<Response> {
    let (client, answer) = oneshot::channel();
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    tokio::spawn(job.run(client, InFlight::new(permit)));
    answer
}

async fn answer(client: oneshot::Receiver<Response>) -> Seen {
    let response = timeout(PATIENCE, client).await.expect("an answer in time").unwrap();
    let (head, body) = response.into_parts();
    let body = timeout(PATIENCE, body.collect()).await.expect("a body in time").unwrap();
    Seen { status: head.status, headers: head.headers, body: body.to_bytes() }
}

fn is_done(record: &Record) -> bool {
    matches!(record, Record::Live(generation) if matches!(generation.state, State::Done { .. }))
}

fn is_indeterminate(record: &Record) -> bool {
    matches!(
        record,
        Record::Live(generation) if matches!(generation.state, State::Indeterminate { .. })
    )
}

/// A stub that answers once the test says go.
async fn waiting_stub() -> (Stub, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let script = vec![Step::Wait(go.clone()), Step::Write(CREATED.into())];
    (Stub::always(script).await, go)
}
