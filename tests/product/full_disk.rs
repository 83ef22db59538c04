//! A disk that runs full: nothing new begins, nothing old is lost, and it passes by itself.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, claims};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// Less than any node goes on with.
const NEARLY_NOTHING: u64 = 1 << 20;

/// More than any node asks for.
const PLENTY: u64 = 1 << 40;

/// Keys enough that every node leads the shard of some.
const KEYS: usize = 12;

/// Leases that outlast the test: nothing but the disk keeps a key from being decided.
const LONG_LEASES: &str = "
[defaults]
lease = \"60s\"
answer_within = \"60s\"
max_execution = \"60s\"
";

async fn call(api: SocketAddr, path: &str, body: Value) -> Answer {
    claims(api, "a", path, &body).await.unwrap()
}

fn claim(key: &str) -> Value {
    json!({ "operation": "charge", "key": key, "attempt": "one", "payload": { "amount": 1 } })
}

fn complete(key: &str, granted: &Answer) -> Value {
    let granted = granted.json();
    json!({ "operation": "charge", "key": key, "fence": granted["fence"],
            "token": granted["token"], "json": { "charged": true } })
}

/// Waits until every node has noticed how much room its disk has.
async fn free_bytes(cluster: &Cluster, free: u64, noticed: &str) {
    for node in 0..cluster.nodes.len() {
        cluster.pretend_free_bytes(node, free);
    }
    for node in 0..cluster.nodes.len() {
        until(noticed, || async { cluster.log(node).contains(noticed) }).await;
    }
}

fn assert_refused(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "shard-unavailable"));
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let problem = answer.json();
    assert_eq!((&problem["executed"], &problem["retryable"]), (&json!("no"), &json!(true)));
    assert!(problem["detail"].as_str().unwrap().contains("disk is full"), "{problem}");
}

/// Posts every order at once, each at another node than the one before it.
async fn post_all(cluster: &Cluster, orders: &[Order]) -> Vec<Answer> {
    let mut posts = JoinSet::new();
    for (index, order) in orders.iter().cloned().enumerate() {
        let gateway = cluster.gateway(index);
        posts.spawn(async move { order.try_post(gateway).await.unwrap() });
    }
    posts.join_all().await
}

#[test]
fn a_full_disk_refuses_new_claims_and_nothing_else() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = Setup::new(policy(&["a"], LONG_LEASES), upstream.address).start().await;
        let fresh = || (0..KEYS).map(|_| Order::new(&fresh_key())).collect::<Vec<_>>();
        let old = fresh();
        for (index, order) in old.iter().enumerate() {
            assert_eq!(order.post(cluster.gateway(index)).await.status, 201);
        }
        let (completed, held) = (fresh_key(), fresh_key());
        let granted = call(cluster.api(0), "/v1/claims", claim(&completed)).await;
        let done = call(cluster.api(0), "/v1/claims/complete", complete(&completed, &granted));
        assert_eq!(done.await.status, 200);
        let granted = call(cluster.api(1), "/v1/claims", claim(&held)).await;
        assert_eq!(granted.status, 201, "{granted:?}");

        free_bytes(&cluster, NEARLY_NOTHING, "disk is nearly full").await;

        let new = fresh();
        for answer in post_all(&cluster, &new).await {
            assert_refused(&answer);
        }
        for node in 0..3 {
            assert_refused(&call(cluster.api(node), "/v1/claims", claim(&fresh_key())).await);
        }
        assert_eq!(upstream.ledger().len(), KEYS, "a refused request reached the upstream");

        for (index, order) in old.iter().enumerate() {
            let again = order.post(cluster.gateway(index + 1)).await;
            assert_eq!((again.status.as_u16(), again.is_replay()), (201, true), "{again:?}");
            let other = order.clone().body(r#"{"item":"pen"}"#);
            let reused = other.post(cluster.gateway(index + 2)).await;
            assert_eq!((reused.status.as_u16(), reused.code().as_str()), (422, "key-reused"));
        }
        let replay = call(cluster.api(2), "/v1/claims", claim(&completed)).await;
        assert_eq!((replay.status.as_u16(), &replay.json()["replayed"]), (200, &json!(true)));
        // Who was granted before gets the grant again, and may finish.
        let again = call(cluster.api(2), "/v1/claims", claim(&held)).await;
        assert_eq!(
            (again.status.as_u16(), &again.json()["fence"]),
            (201, &granted.json()["fence"])
        );
        let done = call(cluster.api(0), "/v1/claims/complete", complete(&held, &granted)).await;
        assert_eq!(done.status, 200, "{done:?}");

        free_bytes(&cluster, PLENTY, "disk has room again").await;

        for (index, order) in new.iter().enumerate() {
            let answer = order.post(cluster.gateway(index)).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false), "{answer:?}");
            assert_eq!(upstream.executions(&order.key), 1);
        }
    });
}
