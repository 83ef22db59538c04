//! Quotas: a tenant at its limit gets no new keys, keeps those it has, and takes nothing from
//! others. What has ended makes room.

use std::net::SocketAddr;

use ::http::Method;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, claims, send};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// How many keys tenant `a` may have.
const KEYS: usize = 40;

/// The policy of [`policy`] with a quota for tenant `a`.
fn limited(rest: &str) -> String {
    let policy = policy(&["a", "b"], rest);
    policy.replacen("name = \"a\"\n", &format!("name = \"a\"\nquota = {{ keys = {KEYS} }}\n"), 1)
}

/// Sends orders with new keys, to every node in turn, until one is refused; those that ran.
async fn fill(cluster: &Cluster) -> Vec<Order> {
    let mut ran = Vec::new();
    loop {
        let order = Order::new(&fresh_key());
        let answer = order.post(cluster.gateway(ran.len())).await;
        if answer.status == 429 {
            assert_refused(&answer);
            return ran;
        }
        assert_eq!(answer.status, 201, "{answer:?}");
        ran.push(order);
        assert!(ran.len() < 3 * KEYS, "nothing is refused");
    }
}

fn assert_refused(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (429, "quota-exceeded"));
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
    let problem = answer.json();
    assert_eq!((problem["retryable"].as_bool(), &problem["executed"]), (Some(true), &"no".into()));
}

/// What a node shows under a metric for its records in a state.
async fn shown(api: SocketAddr, metric: &str, state: &str) -> f64 {
    let text = send(api, Method::GET, "/metrics", &[], "").await.unwrap().text();
    let state = format!("state=\"{state}\"");
    let line = text.lines().find(|line| {
        line.strip_prefix(metric).is_some_and(|labels| labels.starts_with('{'))
            && line.contains(&state)
    });
    line.map_or(-1.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn c65_at_the_quota_new_keys_are_refused_and_known_ones_replay() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = Setup::new(limited(""), upstream.address).start().await;
        let ran = fill(&cluster).await;
        // What other nodes decided a moment ago may not have been counted yet.
        assert!((KEYS..KEYS + 10).contains(&ran.len()), "{} keys were let in", ran.len());
        let executed = upstream.ledger().len();
        let refused = Order::new(&fresh_key());
        for restarted in [false, true] {
            if restarted {
                (0..3).for_each(|node| cluster.kill(node));
                (0..3).for_each(|node| cluster.start(node, &[]));
                cluster.ready().await;
            }
            for node in 0..3 {
                assert_refused(&refused.post(cluster.gateway(node)).await);
                let asked = serde_json::json!({
                    "operation": "POST /orders", "key": fresh_key(), "attempt": fresh_key(),
                    "lease": "5s", "payload": 1,
                });
                assert_refused(
                    &claims(cluster.api(node), "a", "/v1/claims", &asked).await.unwrap(),
                );
            }
            for (node, order) in ran.iter().enumerate() {
                let answer = order.post(cluster.gateway(node)).await;
                assert!(answer.is_replay(), "{answer:?}");
                let other = order.clone().body("{}").post(cluster.gateway(node)).await;
                assert_eq!(other.code(), "key-reused");
            }
        }
        assert_eq!(upstream.ledger().len(), executed, "what was refused ran all the same");
        for node in 0..3 {
            let other = Order::new(&refused.key).tenant("b").post(cluster.gateway(node)).await;
            assert_eq!((other.status.as_u16(), other.is_replay()), (201, node > 0), "{other:?}");
        }
        let unprotected = send(cluster.gateway(0), Method::POST, "/orders", &[], "{}").await;
        assert_eq!(unprotected.unwrap().status, 201, "without a key nothing is stored");
        assert_eq!(upstream.executions(&refused.key), 1);
    });
}

#[test]
fn c61_what_has_ended_is_removed_and_makes_room() {
    run(async {
        let upstream = Upstream::start().await;
        let rest = "[defaults]\nlease = \"2s\"\nretention = \"6s\"\nshort_retention = true\n\
                    retry_budget = { attempts = 1, max_backoff = \"500ms\" }\n";
        let cluster = Setup::new(limited(rest), upstream.address).start().await;
        let ran = fill(&cluster).await.len();
        let api = cluster.api(0);
        until("it is seen how much is kept", || async {
            shown(api, "oncegate_record_bytes", "live").await >= 256.0 * KEYS as f64
        })
        .await;
        // Nobody reads any of the keys meanwhile, nor brings them again.
        for node in 0..3 {
            for state in ["live", "tombstone"] {
                until("nothing is left", || async {
                    shown(cluster.api(node), "oncegate_records", state).await == 0.0
                })
                .await;
            }
        }
        assert!(fill(&cluster).await.len() >= KEYS);
        assert!(upstream.ledger().len() >= ran + KEYS);
    });
}
