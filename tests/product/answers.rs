//! What is stored and what a replay returns, over real HTTP.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::mpsc;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, send};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::{Upstream, whole};
use crate::support::{fresh_key, run, until};

async fn start_under(rest: &str) -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = [SHORT_LEASES, rest].concat();
    let cluster = Setup::single(policy(&["a"], &rest), upstream.address).start().await;
    (cluster, upstream)
}

/// The headers that are the same in a replay, in their order.
fn kept(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let ours = ["date", "idempotent-replayed", "idempotency-expires", "connection"];
    let kept = answer.headers.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
    kept.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

/// Sends `order` and then again, and again; every replay is what the first client got.
async fn replays(cluster: &Cluster, upstream: &Upstream, order: &Order) -> Answer {
    let first = order.post(cluster.gateway(0)).await;
    assert!(!first.is_replay(), "{first:?}");
    for _ in 0..3 {
        let again = order.post(cluster.gateway(0)).await;
        assert!(again.is_replay(), "{} {again:?}", order.path);
        assert_eq!((again.status, &again.body), (first.status, &first.body), "{}", order.path);
        assert_eq!(kept(&again), kept(&first), "{}", order.path);
        assert!(again.header("idempotency-expires").is_some());
    }
    assert_eq!(upstream.executions(&order.key), 1);
    first
}

#[test]
fn c49_lines_with_commas_and_repeated_lines_replay_as_they_were() {
    run(async {
        let rest = "[[operation]]\nmatch = \"POST /export\"\n\
                    store_headers = [\"Content-Disposition\", \"X-Note\"]\n";
        let (cluster, upstream) = start_under(rest).await;
        upstream.on("/export", |_, _| {
            Response::builder()
                .status(200)
                .header("content-disposition", "attachment; filename=\"a,b.txt\"")
                .header("link", "</a>; rel=\"next\", </b>; rel=\"prev\"")
                .header("x-note", "one")
                .header("link", "</c>; rel=\"last\"")
                .header("x-note", "two, three")
                .header("set-cookie", "session=1")
                .header("x-request-id", "first")
                .header("idempotent-replayed", "true")
                .body(whole("done"))
                .unwrap()
        });
        let order = Order::new(&fresh_key()).path("/export");
        let first = order.post(cluster.gateway(0)).await;
        assert!(!first.is_replay(), "the upstream's own marker does not reach the client");
        let again = order.post(cluster.gateway(0)).await;
        assert!(again.is_replay());
        let lines = |answer: &Answer, name: &str| -> Vec<String> {
            let lines = answer.headers.get_all(name).iter();
            lines.map(|value| value.to_str().unwrap().to_owned()).collect()
        };
        for name in ["content-disposition", "link", "x-note"] {
            assert_eq!(lines(&again, name), lines(&first, name), "{name}");
        }
        assert_eq!(lines(&again, "link").len(), 2);
        for never in ["set-cookie", "x-request-id"] {
            assert!(first.header(never).is_some() && again.header(never).is_none(), "{never}");
        }
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c50_c53_statuses_places_and_empty_bodies_replay_exactly() {
    run(async {
        let (cluster, upstream) = start_under("").await;
        let statuses = [200, 201, 202, 204, 205, 300, 301, 303, 400, 402, 404, 409, 410, 422, 500];
        for status in statuses {
            let path = format!("/status/{status}");
            let empty = [204, 205].contains(&status);
            upstream.on(&path, move |number, _| {
                Response::builder()
                    .status(status)
                    .header("location", format!("/orders/{number}"))
                    .header("etag", "\"v1\"")
                    .header("last-modified", "Tue, 01 Dec 2026 00:00:00 GMT")
                    .body(whole(if empty { "" } else { "an answer" }))
                    .unwrap()
            });
            let first = replays(&cluster, &upstream, &Order::new(&fresh_key()).path(&path)).await;
            assert_eq!(first.status.as_u16(), status);
            assert!(first.header("location").is_some() && first.header("etag").is_some());
            if empty {
                assert!(first.body.is_empty());
            }
        }
        for (status, path) in [(200, "/empty/200"), (202, "/empty/202")] {
            upstream
                .on(path, move |_, _| Response::builder().status(status).body(whole("")).unwrap());
            let first = replays(&cluster, &upstream, &Order::new(&fresh_key()).path(path)).await;
            assert_eq!(first.header("content-length"), Some("0"));
        }
    });
}

#[test]
fn c52_every_byte_survives_and_a_restart_too() {
    run(async {
        let (mut cluster, upstream) = start_under("").await;
        let all: Vec<u8> = (0..=255).collect();
        let noise: Vec<u8> = (0..60_000).map(|_| rand::random()).collect();
        let mut answers = Vec::new();
        for (path, body) in [("/all", all), ("/noise", noise), ("/nothing", Vec::new())] {
            let given = body.clone();
            upstream.on(path, move |_, _| {
                let answer = Response::builder().header("content-type", "application/octet-stream");
                answer.body(whole(given.clone())).unwrap()
            });
            let order = Order::new(&fresh_key()).path(path);
            let first = replays(&cluster, &upstream, &order).await;
            assert!(first.body == body, "{path}");
            answers.push((order, first));
        }
        cluster.kill(0);
        cluster.start(0, &[]);
        cluster.node_ready(0).await;
        for (order, first) in answers {
            let again = order.post(cluster.gateway(0)).await;
            assert!(again.is_replay() && again.body == first.body, "{}", order.path);
            assert_eq!(upstream.executions(&order.key), 1);
        }
    });
}

#[test]
fn c55_an_answer_too_large_to_keep_never_runs_again() {
    run(async {
        let (cluster, upstream) = start_under("").await;
        upstream.on("/large", |_, _| {
            let answer = Response::builder().status(201).header("location", "/orders/large");
            answer.body(whole(vec![7; 1 << 20])).unwrap()
        });
        let order = Order::new(&fresh_key()).path("/large");
        let first = order.post(cluster.gateway(0)).await;
        assert_eq!((first.status.as_u16(), first.body.len()), (201, 1 << 20));
        for _ in 0..2 {
            let again = order.post(cluster.gateway(0)).await;
            let said = (again.status.as_u16(), again.code());
            assert_eq!((said.0, said.1.as_str()), (409, "response-not-replayable"));
            assert_eq!(again.header("location"), Some("/orders/large"));
            assert_eq!(again.json()["executed"], "yes");
        }
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c55_an_endless_answer_flows_and_never_runs_again() {
    run(async {
        let (cluster, upstream) = start_under("").await;
        upstream.on("/events", |_, _| {
            let (events, queue) = mpsc::channel(1);
            tokio::spawn(async move {
                let event = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"data: x\n\n")));
                while events.send(event()).await.is_ok() {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            });
            let frames = futures_util::stream::unfold(queue, |mut queue| async {
                let frame = queue.recv().await?;
                Some((frame, queue))
            });
            let answer = Response::builder().header("content-type", "text/event-stream");
            answer.body(StreamBody::new(frames).boxed_unsync()).unwrap()
        });
        let order = Order::new(&fresh_key()).path("/events");
        let listening = tokio::spawn({
            let (order, gateway) = (order.clone(), cluster.gateway(0));
            async move { order.post(gateway).await }
        });
        // Its client stays: an answer whose client leaves early is waited for instead.
        until("the stream flows", || async { upstream.executions(&order.key) == 1 }).await;
        until("the stream's marker is durable", || async {
            order.post(cluster.gateway(0)).await.code() == "response-not-replayable"
        })
        .await;
        listening.abort();
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c56_an_encoded_answer_replays_with_its_encoding_once() {
    run(async {
        let (cluster, upstream) = start_under("").await;
        upstream.on("/encoded", |_, execution| {
            // Asked for identity, as every protected request asks, and encoded all the same.
            assert_eq!(execution.headers["accept-encoding"], "identity");
            Response::builder()
                .header("content-encoding", "gzip")
                .body(whole(&b"\x1f\x8b not really, but nobody here may look\x00\xff"[..]))
                .unwrap()
        });
        let order = Order::new(&fresh_key()).path("/encoded");
        let first = replays(&cluster, &upstream, &order).await;
        assert_eq!(first.header("content-encoding"), Some("gzip"));
        let authorization = format!("Bearer {}", api_key("a"));
        for accepted in ["gzip", "identity", "br;q=1, *;q=0"] {
            let headers = [
                ("authorization", authorization.as_str()),
                ("content-type", "application/json"),
                ("idempotency-key", order.key.as_str()),
                ("accept-encoding", accepted),
            ];
            let body = order.body.clone();
            let again =
                send(cluster.gateway(0), Method::POST, "/encoded", &headers, body).await.unwrap();
            assert!(again.is_replay(), "{accepted}");
            assert_eq!(again.headers.get_all("content-encoding").iter().count(), 1, "{accepted}");
            assert_eq!(again.body, first.body, "{accepted}");
        }
    });
}

#[test]
fn c58_a_500_after_the_work_never_frees_the_key() {
    run(async {
        let upstream = Upstream::start().await;
        for proxy in [false, true] {
            let mut setup = Setup::single(policy(&["a"], SHORT_LEASES), upstream.address);
            if proxy {
                setup.gateway = "answers_from = \"proxy\"\n".to_owned();
            }
            let cluster = setup.start().await;
            let order = Order::new(&fresh_key()).path("/orders?status=500");
            let first = order.post(cluster.gateway(0)).await;
            if proxy {
                assert_eq!(first.code(), "outcome-unknown");
                until("the key fails closed", || async {
                    order.post(cluster.gateway(0)).await.code() == "outcome-indeterminate"
                })
                .await;
            } else {
                assert_eq!((first.status.as_u16(), first.json()["n"].is_number()), (500, true));
                let again = order.post(cluster.gateway(0)).await;
                assert_eq!((again.status.as_u16(), again.is_replay()), (500, true));
            }
            assert_eq!(upstream.executions(&order.key), 1, "answers from a proxy: {proxy}");
        }
    });
}

#[test]
fn c59_what_declares_that_nothing_ran_is_passed_on_and_runs_again() {
    run(async {
        let (cluster, upstream) = start_under("").await;
        for status in [401, 407, 421, 425, 429, 503, 307, 308] {
            let path = format!("/limited/{status}");
            let key = fresh_key();
            let limited = key.clone();
            let tries = std::sync::atomic::AtomicUsize::new(0);
            upstream.on(&path, move |_, execution| {
                assert_eq!(execution.key, limited);
                let first = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                let answer = Response::builder().status(if first { status } else { 201 });
                answer.header("retry-after", "7").body(whole("said so")).unwrap()
            });
            let order = Order::new(&key).path(&path);
            let first = order.try_post(cluster.gateway(0)).await.unwrap();
            assert_eq!((first.status.as_u16(), first.text().as_str()), (status, "said so"));
            assert_eq!(first.header("retry-after"), Some("7"));
            assert!(!first.is_replay() && first.header("idempotency-expires").is_none());
            let second = order.try_post(cluster.gateway(0)).await.unwrap();
            assert_eq!((second.status.as_u16(), second.is_replay()), (201, false), "{status}");
            assert!(order.post(cluster.gateway(0)).await.is_replay(), "{status}");
            assert_eq!(upstream.executions(&key), 2, "{status}");
        }
    });
}
