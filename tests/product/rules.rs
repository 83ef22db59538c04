//! What counts of a request, by rules that change while records live.

use std::fs;

use serde_json::json;

use crate::support::cluster::Setup;
use crate::support::http::{Order, claims};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

const FIRST: &str = "{\"amount\":125,\"sent_at\":\"now\",\"note\":1}";

fn with_rules(rules: &str) -> String {
    policy(&["a"], &format!("{SHORT_LEASES}fingerprint = {{ {rules} }}\n"))
}

/// One node after the other is started again with other rules: meanwhile the nodes disagree about
/// what counts, and still give one verdict about the records that are there.
#[test]
fn a_change_of_rules_makes_no_request_another_while_nodes_are_restarted() {
    run(async {
        let upstream = Upstream::start().await;
        let before = with_rules("ignore = [\"/sent_at\"]");
        let mut cluster = Setup::new(before, upstream.address).start().await;
        let old = Order::new(&fresh_key());
        let first = old.clone().body(FIRST).post(cluster.gateway(0)).await;
        assert_eq!(first.status.as_u16(), 201);

        fs::write(cluster.folder.path().join("new.toml"), with_rules("only = [\"/amount\"]"))
            .unwrap();
        assert_eq!(cluster.stop(2).await, Some(0));
        cluster.start_under("new.toml", 2, &[]);
        cluster.node_ready(2).await;
        let new = Order::new(&fresh_key());
        let second = new.clone().body(FIRST).post(cluster.gateway(2)).await;
        assert_eq!(second.status.as_u16(), 201);

        for node in 0..3 {
            let gateway = cluster.gateway(node);
            // By the old rules only the time of sending may change, by the new ones all but the
            // amount.
            let later = FIRST.replace("now", "later");
            assert!(old.clone().body(&later).post(gateway).await.is_replay(), "{node}");
            assert!(new.clone().body("{\"amount\":125}").post(gateway).await.is_replay(), "{node}");
            let noted = old.clone().body(&FIRST.replace("1}", "2}")).post(gateway).await;
            assert_eq!(noted.json()["differs"], json!(["/note"]), "{node}");
            for order in [&old, &new] {
                let other = order.clone().body(&FIRST.replace("125", "126")).post(gateway).await;
                assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "key-reused"));
                assert_eq!(other.json()["differs"], json!(["/amount"]), "{node}");
            }
        }
        assert_eq!((upstream.executions(&old.key), upstream.executions(&new.key)), (1, 1));
    });
}

/// The claims API compares a request as the gateway does, and a document by the same rules.
#[test]
fn a_claim_is_compared_by_the_rules_of_its_operation() {
    run(async {
        let upstream = Upstream::start().await;
        let rules = with_rules("ignore = [\"/sent_at\"], headers = [\"X-Shop\"]");
        let cluster = Setup::single(rules, upstream.address).start().await;
        let order = Order::new(&fresh_key());
        let answer = order.clone().body(FIRST).post(cluster.gateway(0)).await;
        assert_eq!(answer.status.as_u16(), 201);
        let claim = async |request: serde_json::Value| {
            let body = json!({
                "operation": "POST /orders", "key": order.key, "attempt": "one", "request": request,
            });
            claims(cluster.api(0), "a", "/v1/claims", &body).await.unwrap()
        };
        let request = |body: &str, headers: serde_json::Value| {
            json!({
                "method": "POST", "target": "/orders", "content_type": "application/json",
                "body": body, "headers": headers,
            })
        };
        let again = claim(request(&FIRST.replace("now", "later"), json!([]))).await;
        assert_eq!((again.status.as_u16(), &again.json()["state"]), (200, &json!("completed")));
        let other = claim(request(&FIRST.replace("125", "126"), json!([]))).await;
        assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "key-reused"));
        assert_eq!(other.json()["differs"], json!(["/amount"]));
        let shop = claim(request(FIRST, json!([["X-Shop", "7"]]))).await;
        assert_eq!((shop.status.as_u16(), shop.code().as_str()), (422, "key-reused"));
        assert!(shop.json().get("differs").is_none());
    });
}
