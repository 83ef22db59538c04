//! Who executes: one of many that ask at once, whichever node they ask.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let cluster = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address).start().await;
    (cluster, upstream)
}

#[test]
fn c01_of_fifty_at_once_one_runs() {
    run(async {
        let (cluster, upstream) = start().await;
        let key = fresh_key();
        let mut posts = JoinSet::new();
        for index in 0..50 {
            let (order, gateway) =
                (Order::new(&key).path("/orders?delay=500"), cluster.gateway(index));
            posts.spawn(async move { order.post(gateway).await });
        }
        let answers = posts.join_all().await;
        let first = |answer: &&Answer| answer.status == 201 && !answer.is_replay();
        assert_eq!(answers.iter().filter(first).count(), 1);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "key-in-progress"));
            let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!(retry_after >= 1, "Retry-After: {retry_after}");
        }
        assert_eq!(upstream.executions(&key), 1);
        let replay = Order::new(&key).path("/orders?delay=500").post(cluster.gateway(1)).await;
        assert!(replay.is_replay(), "{replay:?}");
        assert_eq!(upstream.executions(&key), 1);
    });
}

#[test]
fn c02_no_in_progress_after_the_winners_completion() {
    run(async {
        let (cluster, upstream) = start().await;
        let mut lanes = JoinSet::new();
        for lane in 0..10 {
            let gateways = [0, 1, 2].map(|node| cluster.gateway(lane + node));
            lanes.spawn(async move {
                for round in 0..100 {
                    race(&Order::new(&format!("c02-{lane}-{round}")), gateways).await;
                }
            });
        }
        lanes.join_all().await;
        assert_eq!(upstream.ledger().len(), 1000);
    });
}

/// Sends an order twice at once: who loses is told "in progress" only while the winner works, and
/// the next one replays.
async fn race(order: &Order, gateways: [SocketAddr; 3]) {
    let timed = |gateway| async move {
        let sent = Instant::now();
        (sent, order.post(gateway).await, Instant::now())
    };
    let (one, two) = tokio::join!(timed(gateways[0]), timed(gateways[1]));
    for (loser, winner) in [(&one, &two), (&two, &one)] {
        if loser.1.status == 409 {
            assert_eq!(loser.1.code(), "key-in-progress");
            assert_eq!(winner.1.status, 201, "somebody runs: {winner:?}");
            assert!(loser.0 <= winner.2, "refused after the winner was answered");
        }
    }
    let again = order.post(gateways[2]).await;
    assert!(again.status == 201 && again.is_replay(), "{}: {again:?}", order.key);
}

#[test]
fn c04_another_body_is_a_mismatch_even_while_the_first_runs() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key()).path("/orders?delay=3000");
        let first = tokio::spawn({
            let (order, gateway) = (order.clone(), cluster.gateway(0));
            async move { order.post(gateway).await }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        for node in 0..3 {
            let asked = Instant::now();
            let other = order.clone().body(r#"{"item":"pen"}"#).post(cluster.gateway(node)).await;
            assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "key-reused"));
            assert!(asked.elapsed() < Duration::from_secs(2), "it did not wait for the first");
        }
        assert_eq!(first.await.unwrap().status, 201);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c07_every_node_gives_the_same_verdict() {
    run(async {
        let (mut cluster, upstream) = start().await;
        let order = Order::new(&fresh_key());
        let first = order.post(cluster.gateway(0)).await;
        assert_eq!(first.status, 201);
        cluster.kill(0);
        for node in [1, 2] {
            let again = answered(&order, cluster.gateway(node)).await;
            assert!(again.is_replay(), "{again:?}");
            assert_eq!(again.body, first.body);
        }
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

/// Posts until the answer is not "try again": a shard whose leader was killed takes a moment.
async fn answered(order: &Order, gateway: SocketAddr) -> Answer {
    let begin = Instant::now();
    loop {
        let answer = order.post(gateway).await;
        if answer.status != 503 {
            return answer;
        }
        assert_eq!(answer.json()["executed"], "no");
        assert!(begin.elapsed() < Duration::from_secs(15), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn c08_one_key_many_times_in_one_batch_is_granted_once() {
    run(async {
        let (cluster, upstream) = start().await;
        let keys: Vec<_> = (0..5).map(|_| fresh_key()).collect();
        let mut posts = JoinSet::new();
        for index in 0..500 {
            let (order, gateway) = (Order::new(&keys[index % 5]), cluster.gateway(index));
            posts.spawn(async move { order.post(gateway).await });
        }
        let mut statuses = BTreeMap::new();
        for answer in posts.join_all().await {
            let replay = answer.is_replay();
            *statuses.entry((answer.status.as_u16(), replay)).or_insert(0) += 1;
        }
        assert_eq!(statuses.get(&(201, false)), Some(&5), "{statuses:?}");
        let known = [(201, false), (201, true), (409, false)];
        assert!(statuses.keys().all(|answer| known.contains(answer)), "{statuses:?}");
        for key in &keys {
            assert_eq!(upstream.executions(key), 1);
        }
    });
}

#[test]
fn what_is_not_protected_passes_through_untouched() {
    run(async {
        let (cluster, upstream) = start().await;
        for _ in 0..2 {
            let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
            let get = crate::support::http::send(
                cluster.gateway(0),
                http::Method::GET,
                "/orders",
                &headers,
                "",
            );
            let get = get.await.unwrap();
            assert_eq!((get.status.as_u16(), get.is_replay()), (200, false));
            let post = crate::support::http::send(
                cluster.gateway(0),
                http::Method::POST,
                "/orders",
                &headers[1..],
                "{}",
            );
            assert_eq!(post.await.unwrap().status, 201);
        }
        assert_eq!(upstream.ledger().len(), 2);
    });
}
