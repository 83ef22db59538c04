//! A node whose policy names records otherwise than the cluster's does: it would look for keys
//! under names that nobody else knows, so it answers nothing and says why.

use std::fs;

use http::Method;
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, claims, send};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// The node with a policy of its own, by its place in the cluster.
const ODD: usize = 2;

fn claim(key: &str) -> Value {
    json!({ "operation": "charge", "key": key, "attempt": "one", "payload": { "amount": 1 } })
}

fn assert_mismatch(answer: &Answer, executed: &str) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "config-mismatch"));
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let problem = answer.json();
    assert_eq!((&problem["executed"], &problem["retryable"]), (&json!(executed), &json!(true)));
}

async fn readiness(cluster: &Cluster, node: usize) -> (u16, String) {
    match send(cluster.api(node), Method::GET, "/readyz", &[], "").await {
        Ok(answer) => (answer.status.as_u16(), answer.text()),
        Err(error) => (0, error),
    }
}

/// Three nodes that have agreed, of which one is started again under a policy that names the
/// operation of some requests differently.
async fn with_an_odd_node(upstream: &Upstream) -> Cluster {
    let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
    let mut cluster = setup.start().await;
    let renamed = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n";
    let other = policy(&["a"], &format!("{SHORT_LEASES}{renamed}"));
    fs::write(cluster.folder.path().join("other.toml"), other).unwrap();
    assert_eq!(cluster.stop(ODD).await, Some(0));
    cluster.start_under("other.toml", ODD, &[]);
    until("the odd node says why it is not ready", || async {
        let (status, reason) = readiness(&cluster, ODD).await;
        status == 503 && reason.contains("name records differently")
    })
    .await;
    cluster
}

#[test]
fn a_node_with_another_policy_answers_nothing_and_the_others_serve() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = with_an_odd_node(&upstream).await;
        for node in [0, 1] {
            let order = Order::new(&fresh_key());
            assert_eq!(order.post(cluster.gateway(node)).await.status, 201);
            // What the others know is not executed again where it cannot be found.
            assert_mismatch(&order.try_post(cluster.gateway(ODD)).await.unwrap(), "no");
            assert!(order.post(cluster.gateway(1 - node)).await.is_replay());
            assert_eq!(upstream.executions(&order.key), 1);
            cluster.node_ready(node).await;
        }

        let order = Order::new(&fresh_key());
        assert_mismatch(&order.try_post(cluster.gateway(ODD)).await.unwrap(), "no");
        assert_eq!(upstream.executions(&order.key), 0);

        let key = fresh_key();
        let claimed = claims(cluster.api(ODD), "a", "/v1/claims", &claim(&key)).await.unwrap();
        assert_mismatch(&claimed, "no");
        let grant = json!({ "operation": "charge", "key": key, "fence": 1,
                            "token": "0".repeat(32) });
        let released = claims(cluster.api(ODD), "a", "/v1/claims/release", &grant).await.unwrap();
        assert_mismatch(&released, "unknown");
        let authorization = format!("Bearer {}", api_key("a"));
        let headers = [("authorization", authorization.as_str())];
        let target = format!("/v1/claims?operation=charge&key={key}");
        let read = send(cluster.api(ODD), Method::GET, &target, &headers, "").await.unwrap();
        assert_mismatch(&read, "no");

        // Under the cluster's policy it is as good a node as any.
        assert_eq!(cluster.stop(ODD).await, Some(0));
        cluster.start(ODD, &[]);
        cluster.node_ready(ODD).await;
        assert_eq!(order.post(cluster.gateway(ODD)).await.status, 201);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn a_node_that_agrees_with_a_majority_does_not_blame_its_policy() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = with_an_odd_node(&upstream).await;
        cluster.kill(1);
        until("the last good node has lost its majority", || async {
            readiness(&cluster, 0).await.0 == 503
        })
        .await;
        let order = Order::new(&fresh_key());
        let answer = order.try_post(cluster.gateway(0)).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "shard-unavailable"));
        assert_mismatch(&order.try_post(cluster.gateway(ODD)).await.unwrap(), "no");
        cluster.start(1, &[]);
        cluster.node_ready(0).await;
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}
