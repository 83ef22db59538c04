//! A gateway that is really served, and a client that writes and reads bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use protocol::policy::AnswersFrom;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::judge::TestJudge;
use super::stub::{PATIENCE, Stub};
use super::{API_KEY, policy};
use crate::config::{GatewaySettings, UpstreamTls};
use crate::gateway::Gateway;
use crate::shutdown::{self, Stopper};
use crate::tenant::Tenants;
use crate::{gateway, listener};

/// A gateway on a port of its own; it stops when this is dropped.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    pub(super) judge: TestJudge,
    pub(super) gateway: Gateway<TestJudge>,
    _stopper: Stopper,
}

/// What a client is answered.
pub(super) struct Got {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

/// A client's connection.
pub(super) struct Client(TcpStream);

impl Served {
    /// A gateway before `stub` with a policy of these operations.
    pub(super) async fn new(stub: &Stub, operations: &str) -> Self {
        Self::before(stub.address, operations).await
    }

    pub(super) async fn before(upstream: SocketAddr, operations: &str) -> Self {
        Self::asking(TestJudge::new(), upstream, operations).await
    }

    /// A gateway that asks a judge which others ask too.
    pub(super) async fn asking(judge: TestJudge, upstream: SocketAddr, operations: &str) -> Self {
        Self::start(judge, upstream, None, operations).await
    }

    /// A gateway before an upstream that has to prove itself.
    pub(super) async fn before_tls(upstream: SocketAddr, tls: UpstreamTls) -> Self {
        Self::start(TestJudge::new(), upstream, Some(tls), "").await
    }

    async fn start(
        judge: TestJudge,
        upstream: SocketAddr,
        tls: Option<UpstreamTls>,
        operations: &str,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let policy = Arc::new(policy(operations));
        let tenants = Tenants::new(&policy);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = GatewaySettings {
            listen: address,
            upstream: format!("{scheme}://{upstream}").parse().unwrap(),
            region: "here".into(),
            answers_from: AnswersFrom::Application,
            max_request_body: ByteSize::kib(64),
            upstream_tls: tls,
        };
        let gateway = gateway::Gateway::new(judge.clone(), policy, tenants, settings);
        let (stopper, stop) = shutdown::channel();
        let router = gateway.router();
        tokio::spawn(listener::serve(listener, router, stop, Duration::ZERO));
        Self { address, judge, gateway, _stopper: stopper }
    }

    pub(super) async fn client(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Asks once, on a connection of its own. `head` is the request line and the fields besides
    /// `Host`, without the last line end.
    pub(super) async fn ask(&self, head: &str, body: &str) -> Got {
        let mut client = self.client().await;
        client.send(&request(head, body)).await;
        client.answer_to(head).await
    }

    /// Asks with the tenant's credential and this key.
    pub(super) async fn keyed(&self, line: &str, key: &str, body: &str) -> Got {
        self.ask(&keyed(line, key), body).await
    }
}

/// A head with the tenant's credential and this key.
pub(super) fn keyed(line: &str, key: &str) -> String {
    format!("{line} HTTP/1.1\r\nauthorization: Bearer {API_KEY}\r\nidempotency-key: {key}")
}

/// A request's bytes.
pub(super) fn request(head: &str, body: &str) -> Vec<u8> {
    let length = match body.len() {
        0 => String::new(),
        length => format!("content-length: {length}\r\n"),
    };
    format!("{head}\r\nhost: shop\r\n{length}\r\n{body}").into_bytes()
}

impl Client {
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Reads one answer to a request with this line.
    pub(super) async fn answer_to(&mut self, line: &str) -> Got {
        timeout(PATIENCE, self.read_answer(line.starts_with("HEAD"))).await.expect("an answer")
    }

    /// Reads until these bytes have come, and returns everything up to their end.
    pub(super) async fn read_until(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        let found = async {
            while !bytes.ends_with(end.as_bytes()) {
                bytes.push(self.0.read_u8().await.expect("more bytes"));
            }
        };
        timeout(PATIENCE, found).await.expect("the bytes in time");
        String::from_utf8(bytes).unwrap()
    }

    /// Sends nothing more, and returns everything that comes until the server closes.
    pub(super) async fn until_closed(&mut self) -> String {
        self.0.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await.expect("closed").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Closes the connection at once.
    pub(super) fn leave(self) {
        self.0.set_zero_linger().unwrap();
    }

    async fn read_answer(&mut self, bodiless: bool) -> Got {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(self.0.read_u8().await.expect("a whole head")));
        }
        let mut got = Got { head, body: Vec::new() };
        let empty = bodiless || matches!(got.status(), 100..=199 | 204 | 304);
        if empty {
            return got;
        }
        if got.one("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.read_until("\r\n").await;
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                self.0.read_exact(&mut chunk).await.unwrap();
                got.body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    return got;
                }
            }
        }
        let length = got.one("content-length").expect("a length").parse().unwrap();
        got.body.resize(length, 0);
        self.0.read_exact(&mut got.body).await.unwrap();
        got
    }
}

impl Got {
    pub(super) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The value of the one line of this field.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut lines = lines.filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = lines.next().map(|(_, value)| value.trim());
        assert!(lines.next().is_none(), "{name} comes once");
        value
    }

    /// Status and code of the problem that this is.
    pub(super) fn problem(&self) -> (u16, String) {
        let kind = self.one("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{}", self.head);
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status());
        (self.status(), problem["code"].as_str().unwrap().to_owned())
    }

    pub(super) fn is_replay(&self) -> bool {
        self.one("idempotent-replayed") == Some("true")
    }
}
