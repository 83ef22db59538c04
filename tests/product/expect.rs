//! `Expect: 100-continue`, decided on the headers.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, parse};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

const BODY: &[u8] = &[b'x'; 500_000];

struct Asked {
    /// Whether `100 Continue` came before the body was sent.
    continued: bool,
    answer: Answer,
}

/// Sends a head that expects `100`, then the body once it came, or at once where `patient` is not
/// set.
async fn ask(cluster: &Cluster, lines: &str, length: usize, patient: bool) -> Asked {
    let mut stream = TcpStream::connect(cluster.gateway(0)).await.unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nhost: api\r\nexpect: 100-continue\r\nconnection: close\r\n\
         content-type: application/octet-stream\r\ncontent-length: {length}\r\n{lines}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 4096];
    let mut continued = false;
    let mut count = 0;
    if patient {
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut received));
        count = read.await.expect("an answer to the head").unwrap();
        continued = received[..count].starts_with(b"HTTP/1.1 100 ");
    }
    if continued || !patient {
        // A refusal may come while this is written.
        drop(stream.write_all(&BODY[..length.min(BODY.len())]).await);
    }
    received.truncate(count);
    drop(stream.read_to_end(&mut received).await);
    Asked { continued, answer: parse(&received) }
}

#[test]
fn c67_the_head_decides_whether_the_body_is_wanted() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = Setup::single(policy(&["a"], SHORT_LEASES), upstream.address).start().await;
        let key = fresh_key();
        let bearer = format!("authorization: Bearer {}\r\n", api_key("a"));
        let keyed = format!("{bearer}idempotency-key: {key}\r\n");
        for (index, patient) in [true, true, false].into_iter().enumerate() {
            let asked = ask(&cluster, &keyed, BODY.len(), patient).await;
            assert_eq!(asked.continued, patient, "the body decides whether it is the same");
            assert_eq!((asked.answer.status.as_u16(), asked.answer.is_replay()), (201, index > 0));
        }
        assert_eq!(upstream.executions(&key), 1);

        let refused = [
            ("idempotency-key: k\r\n".to_owned(), BODY.len(), 401, "unauthenticated"),
            (format!("{bearer}idempotency-key: a b\r\n"), BODY.len(), 400, "key-malformed"),
            (format!("{bearer}idempotency-key:\r\n"), BODY.len(), 400, "key-malformed"),
            (format!("{bearer}idempotency-key: k\r\n"), 2 << 20, 413, "body-too-large"),
        ];
        for (lines, length, status, code) in refused {
            let asked = ask(&cluster, &lines, length, true).await;
            assert!(!asked.continued, "{code} is decided by the head");
            let said = (asked.answer.status.as_u16(), asked.answer.code());
            assert_eq!((said.0, said.1.as_str()), (status, code));
        }
        // Without a key it passes, and the upstream gets the body.
        assert_eq!(ask(&cluster, "", BODY.len(), true).await.answer.status, 201);
        assert_eq!(upstream.ledger().len(), 2);
    });
}
