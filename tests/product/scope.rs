//! Names never meet: tenants, operations and keys that could be confused by joining their parts;
//! and operations that share their keys on purpose.

use serde_json::json;

use crate::support::cluster::Setup;
use crate::support::http::{Order, claims, send};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

#[test]
fn c28_no_two_names_are_confused_by_their_separators() {
    run(async {
        let upstream = Upstream::start().await;
        let tenants = ["a", "a:b", "a/b", "a%3Ab"];
        let rest = policy(&tenants, SHORT_LEASES);
        let cluster = Setup::new(rest, upstream.address).start().await;
        let pairs = [
            ("a", "b:c"),
            ("a:b", "c"),
            ("a", "b/c"),
            ("a/b", "c"),
            ("a", "b%3Ac"),
            ("a%3Ab", "c"),
            ("a", "c"),
            ("a", "B:c"),
        ];
        for (tenant, key) in pairs {
            let first = Order::new(key).tenant(tenant).post(cluster.gateway(0)).await;
            assert_eq!((first.status.as_u16(), first.is_replay()), (201, false), "{tenant} {key}");
        }
        assert_eq!(upstream.ledger().len(), pairs.len());
        for (tenant, key) in pairs {
            let again = Order::new(key).tenant(tenant).post(cluster.gateway(1)).await;
            assert!(again.is_replay(), "{tenant} {key}");
        }
        assert_eq!(upstream.ledger().len(), pairs.len());
    });
}

#[test]
fn c25_without_a_tenant_nothing_protected_runs() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = Setup::new(policy(&["a"], ""), upstream.address).start().await;
        for headers in [
            vec![("idempotency-key", "k")],
            vec![("idempotency-key", "k"), ("authorization", "Bearer nobody")],
            vec![("idempotency-key", "k"), ("authorization", "Basic YTpi")],
        ] {
            let method = http::Method::POST;
            let answer = send(cluster.gateway(0), method, "/orders", &headers, "{}").await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (401, "unauthenticated"));
        }
        assert!(upstream.ledger().is_empty());
    });
}

/// The record says whose the key is, on every node, to both ways in, and after a restart.
#[test]
fn c26_a_key_that_operations_share_belongs_to_the_first_of_them() {
    run(async {
        let upstream = Upstream::start().await;
        let rest = policy(&["a", "b"], &format!("{SHORT_LEASES}scope = \"account\"\n"));
        let mut cluster = Setup::new(rest, upstream.address).start().await;
        let order = Order::new(&fresh_key());
        let cancel = order.clone().path("/orders/1/cancel");
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        cluster.kill(1);
        cluster.start(1, &[]);
        cluster.node_ready(1).await;
        for node in 0..3 {
            // Another operation comes before another body: it says more.
            for cancel in [&cancel, &cancel.clone().body("{}")] {
                let refused = cancel.post(cluster.gateway(node)).await;
                let told = (refused.status.as_u16(), refused.code());
                assert_eq!(told, (422, "operation-mismatch".to_owned()), "{node}");
                assert_eq!(refused.json()["executed"], "no");
            }
            let claim = json!({
                "operation": "refund", "key": order.key, "attempt": "one", "payload": {},
            });
            let refused = claims(cluster.api(node), "a", "/v1/claims", &claim).await.unwrap();
            assert_eq!(
                (refused.status.as_u16(), refused.code().as_str()),
                (422, "operation-mismatch")
            );
            let reused = order.clone().body("{}").post(cluster.gateway(node)).await;
            assert_eq!(reused.code(), "key-reused", "{node}");
            assert!(order.post(cluster.gateway(node)).await.is_replay(), "{node}");
        }
        assert_eq!(upstream.executions(&order.key), 1);
        // Another tenant shares nothing.
        assert_eq!(cancel.tenant("b").post(cluster.gateway(0)).await.status, 201);
    });
}
