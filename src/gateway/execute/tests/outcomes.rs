//! What clients are answered, and what is stored, when nothing but the upstream surprises.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use super::*;

#[tokio::test]
async fn the_first_answer_is_durable_before_the_client_sees_it() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    bench.judge.hold(Kind::Complete);
    let mut client = bench.start("{}");
    bench.judge.until(Kind::Complete, 1).await;
    assert!(client.try_recv().is_err(), "not a byte before the outcome is durable");
    bench.judge.let_go();
    assert_eq!(answer(client).await.status, 201);
    assert!(bench.judge.record().as_ref().is_some_and(is_done));
}

#[tokio::test]
async fn the_first_client_gets_everything_and_a_repeat_what_is_kept() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    let first = bench.ask("{}").await;
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    assert_eq!(first.header("set-cookie"), Some("a=1"));
    assert_eq!(first.header("date"), Some("now"));
    assert_eq!(first.header("location"), Some("/orders/1"));
    assert_eq!(first.header("idempotency-expires"), Some("86400"));

    for _ in 0..3 {
        let again = bench.ask("{}").await;
        assert_eq!((again.status.as_u16(), again.is_replay()), (201, true));
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("location"), Some("/orders/1"));
        assert_eq!(again.header("content-type"), Some("application/json"));
        assert_eq!((again.header("set-cookie"), again.header("date")), (None, None));
        let left: u64 = again.header("idempotency-expires").unwrap().parse().unwrap();
        assert!((86_390..=86_400).contains(&left), "{left}");
    }
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn the_upstream_is_told_key_fence_and_attempt() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    bench.ask("{\"amount\":1}").await;
    let seen = &stub.seen()[0];
    assert!(seen.head.starts_with("POST /orders?a=1 HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.one("idempotency-key"), Some("k"));
    assert_eq!(seen.one("idempotency-fence"), Some("1"));
    assert_eq!(seen.one("idempotency-attempt"), Some("1"));
    assert_eq!(seen.one("accept-encoding"), Some("identity"));
    assert_eq!(seen.one("host"), Some("shop"));
    assert_eq!(seen.one("content-length"), Some("12"));
    assert_eq!(seen.body, b"{\"amount\":1}");
}

/// The loser of a race is told at once, and a mismatch outranks "in progress".
#[tokio::test]
async fn c01_c04_one_runs_and_the_others_are_told_at_once() {
    let (stub, go) = waiting_stub().await;
    let bench = Bench::new(stub.address);
    let first = bench.start("x");
    stub.requests(1).await;
    let twin = bench.ask("x").await;
    assert_eq!((twin.status.as_u16(), twin.code().as_str()), (409, "key-in-progress"));
    let wait: u64 = twin.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    let other = bench.ask("y").await;
    assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "key-reused"));
    go.notify_one();
    assert_eq!(answer(first).await.status, 201);
    assert_eq!(bench.ask("y").await.status, 422);
    assert!(bench.ask("x").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn c50_statuses_and_kept_headers_replay_as_they_were() {
    for (head, status, kept) in [
        ("201 Created\r\nlocation: /o/1\r\netag: \"1\"", 201, &["location", "etag"][..]),
        ("202 Accepted\r\nlocation: /jobs/1", 202, &["location"]),
        ("303 See Other\r\nlocation: /o/1", 303, &["location"]),
        ("422 Unprocessable Content\r\ncontent-type: text/plain", 422, &["content-type"]),
        ("404 Not Found\r\ncontent-language: de", 404, &["content-language"]),
    ] {
        let text = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\nno");
        let stub = Stub::answering(&text).await;
        let bench = Bench::new(stub.address);
        let first = bench.ask("x").await;
        assert_eq!(first.status, status);
        for try_no in 2..=10 {
            let again = bench.ask("x").await;
            assert_eq!((again.status, &again.body), (first.status, &first.body), "try {try_no}");
            assert!(again.is_replay());
            for name in kept {
                assert_eq!(again.header(name), first.header(name), "{head}");
            }
        }
        assert_eq!(stub.seen().len(), 1);
    }
}

#[tokio::test]
async fn c49_repeated_header_lines_stay_apart_and_in_order() {
    let stub = Stub::answering(
        "HTTP/1.1 200 OK\r\nlink: <a>; rel=\"x, y\"\r\nx: 1\r\nlink: <b>\r\nlink: <c>\r\n\
         content-length: 0\r\n\r\n",
    )
    .await;
    let bench = Bench::new(stub.address);
    for _ in 0..2 {
        let seen = bench.ask("x").await;
        let links: Vec<_> = seen.headers.get_all("link").iter().collect();
        assert_eq!(links, ["<a>; rel=\"x, y\"", "<b>", "<c>"]);
    }
}

#[tokio::test]
async fn c52_bodies_are_kept_byte_for_byte() {
    let all: Vec<u8> = (0..=255).collect();
    for body in [all.clone(), all.repeat(200), Vec::new()] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let bytes = [head.as_bytes(), &body].concat();
        let stub = Stub::always(vec![Step::Write(bytes)]).await;
        let bench = Bench::new(stub.address);
        assert_eq!(bench.ask("x").await.body, body);
        let again = bench.ask("x").await;
        assert!(again.is_replay());
        assert_eq!(again.body, body);
    }
}

#[tokio::test]
async fn c53_answers_without_a_body_are_stored() {
    for head in [
        "204 No Content",
        "304 Not Modified\r\ncontent-length: 5",
        "205 Reset Content\r\ncontent-length: 0",
        "200 OK\r\ncontent-length: 0",
    ] {
        let stub = Stub::answering(&format!("HTTP/1.1 {head}\r\n\r\n")).await;
        let bench = Bench::new(stub.address);
        let first = bench.ask("x").await;
        let again = bench.ask("x").await;
        assert!(again.is_replay(), "{head}");
        assert_eq!((again.status, again.body.len()), (first.status, 0));
        assert_eq!(again.header("content-length"), None);
        assert_eq!(stub.seen().len(), 1);
    }
}

#[tokio::test]
async fn c55_an_oversize_answer_reaches_its_client_and_never_runs_again() {
    let body = "a".repeat(1 << 20);
    let text = format!(
        "HTTP/1.1 201 Created\r\nlocation: /orders/9\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let stub = Stub::answering(&text).await;
    let bench = Bench::new(stub.address);
    bench.judge.hold(Kind::Complete);
    let mut client = bench.start("x");
    bench.judge.until(Kind::Complete, 1).await;
    assert!(client.try_recv().is_err(), "the marker is durable before the first byte");
    bench.judge.let_go();
    let first = answer(client).await;
    assert_eq!(first.body, body);
    assert_eq!(first.header("location"), Some("/orders/9"));
    for _ in 0..2 {
        let again = bench.ask("x").await;
        assert_eq!(again.code(), "response-not-replayable");
        assert_eq!(again.status, 409);
        assert_eq!(again.header("location"), Some("/orders/9"));
        assert!(!again.is_replay());
    }
    assert_eq!(bench.ask("y").await.code(), "key-reused");
    assert_eq!(stub.seen().len(), 1);

    // The body has gone by, so what is known of it can be told.
    bench.judge.until(Kind::Complete, 2).await;
    let again = bench.ask("x").await.problem();
    assert_eq!(again["status_of_response"], 201);
    assert_eq!(again["bytes_of_response"], 1 << 20);
    let digest = BASE64.encode(Sha256::digest(&body));
    assert_eq!(again["digest_of_response"], format!("sha-256=:{digest}:"));
}

#[tokio::test]
async fn c55_an_endless_answer_flows_once_its_marker_is_durable() {
    let go = Arc::new(Notify::new());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n3\r\none\r\n";
    let script = vec![
        Step::Write(head.into()),
        Step::Wait(go.clone()),
        Step::Write(b"3\r\ntwo\r\n0\r\n\r\n".to_vec()),
    ];
    let stub = Stub::always(script).await;
    let bench = Bench::new(stub.address);
    let mut job = bench.job("x");
    job.keeping.buffer_wait = Duration::from_millis(50);
    let response = timeout(PATIENCE, run(job)).await.unwrap().unwrap();
    let mut body = response.into_body();
    let first = timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "one");
    assert_eq!(bench.ask("x").await.code(), "response-not-replayable");
    go.notify_one();
    let rest = timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
    assert_eq!(rest, "two");
}

/// An upstream that takes its time over a small answer: without a client there is nobody to stream
/// it to, and so no reason not to keep it.
#[tokio::test]
async fn c17_a_slow_answer_is_kept_when_its_client_has_left() {
    let go = Arc::new(Notify::new());
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\none";
    let script =
        vec![Step::Write(head.into()), Step::Wait(go.clone()), Step::Write(b"two".to_vec())];
    let stub = Stub::always(script).await;
    let mut bench = Bench::new(stub.address);
    let mut job = bench.job("x");
    job.keeping.buffer_wait = Duration::from_millis(50);
    bench.client = None;
    let client = run(job);
    stub.requests(1).await;
    bench.judge.until(Kind::Renew, 1).await;
    assert_eq!(bench.ask("x").await.code(), "key-in-progress", "longer than it may flow");
    go.notify_one();
    assert_eq!(answer(client).await.body, "onetwo");
    let again = bench.ask("x").await;
    assert_eq!((again.is_replay(), &again.body[..]), (true, &b"onetwo"[..]));
}

/// What is in a coding that nobody asked for would be stored as bytes that no client can read.
#[tokio::test]
async fn an_answer_in_a_foreign_transfer_coding_is_unknown() {
    for coding in ["gzip, chunked", "identity, chunked"] {
        let answer = format!(
            "HTTP/1.1 201 Created\r\ntransfer-encoding: {coding}\r\n\r\n1\r\nx\r\n0\r\n\r\n"
        );
        let stub = Stub::answering(&answer).await;
        let bench = Bench::new(stub.address);
        let first = bench.ask("x").await;
        assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
        assert_eq!(bench.ask("x").await.code(), "outcome-indeterminate");
        assert_eq!(stub.seen().len(), 1);
    }
}

/// A client that leaves an answer that flows does not cut off the upstream that still makes it.
#[tokio::test]
async fn c17_an_oversize_answer_is_read_to_its_end_without_its_client() {
    let go = Arc::new(Notify::new());
    let half = "a".repeat(1 << 20);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 2 << 20);
    let script = vec![
        Step::Write((head + &half).into_bytes()),
        Step::Wait(go.clone()),
        Step::Write(half.into_bytes()),
    ];
    let stub = Stub::always(script).await;
    let bench = Bench::new(stub.address);
    let response = timeout(PATIENCE, bench.start("x")).await.unwrap().unwrap();
    drop(response);
    go.notify_one();
    let drained = async {
        while bench.upstream.idle() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, drained).await.expect("the connection is idle again");
}

#[tokio::test]
async fn c59_what_the_upstream_declares_not_executed_passes_and_runs_again() {
    for (head, status) in [
        ("429 Too Many Requests\r\nretry-after: 7", 429),
        ("401 Unauthorized\r\nwww-authenticate: Bearer", 401),
        ("503 Service Unavailable\r\nretry-after: 7", 503),
        ("409 Conflict\r\nidempotency-outcome: retryable", 409),
    ] {
        let refused = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\nno");
        let scripts = [refused.as_str(), CREATED].map(|it| vec![Step::Write(it.into())]);
        let stub = Stub::scripted(scripts).await;
        let bench = Bench::new(stub.address);
        let first = bench.ask("x").await;
        assert_eq!((first.status.as_u16(), &first.body[..]), (status, &b"no"[..]));
        assert_eq!(first.header("idempotency-expires"), None);
        assert_eq!(first.header("idempotency-outcome"), None);
        let second = bench.ask("x").await;
        assert_eq!((second.status.as_u16(), second.is_replay()), (201, false), "{head}");
        assert!(bench.ask("x").await.is_replay());
        assert_eq!(stub.seen().len(), 2);
    }
}

/// Half of it proves nothing, and the whole of it is too much to wait for.
#[tokio::test]
async fn an_answer_that_is_not_stored_and_too_large_leaves_the_outcome_open() {
    let length = (1 << 20) + 1;
    let head = format!("HTTP/1.1 429 Too Many Requests\r\ncontent-length: {length}\r\n\r\n");
    let stub = Stub::answering(&(head + &"a".repeat(length))).await;
    let bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.code(), "outcome-unknown");
    assert_eq!(bench.ask("x").await.code(), "outcome-indeterminate");
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn c58_a_500_is_an_outcome_and_a_502_is_none() {
    let text = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno";
    let stub = Stub::answering(text).await;
    let bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.status, 500);
    assert!(bench.ask("x").await.is_replay());
    assert_eq!(stub.seen().len(), 1);

    let stub = Stub::answering("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    let bench = Bench::new(stub.address);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (504, "outcome-unknown"));
    assert_eq!(bench.ask("x").await.code(), "outcome-indeterminate");
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn an_operation_may_tell_indeterminate_as_503() {
    let stub = Stub::always(vec![Step::Reset]).await;
    let bench = Bench::new(stub.address)
        .with(|operation| operation.indeterminate_status = StatusCode::SERVICE_UNAVAILABLE);
    bench.ask("x").await;
    let again = bench.ask("x").await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (503, "outcome-indeterminate"));
}

#[tokio::test]
async fn an_interim_answer_is_not_the_answer() {
    let text = format!("HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n{CREATED}");
    let stub = Stub::answering(&text).await;
    let bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.status, 201);
    assert_eq!(bench.ask("x").await.header("link"), None);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let text = "HTTP/1.1 302 Found\r\nlocation: /orders/2\r\ncontent-length: 0\r\n\r\n";
    let stub = Stub::answering(text).await;
    let bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.status, 302);
    assert_eq!(stub.seen().len(), 1);
}
