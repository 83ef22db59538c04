//! Keys that are made of the request, and kept for ever.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Method;
use tokio::time::sleep;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, send};
use crate::support::policy::{SHORT_LEASES, admin, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// Orders by their number and for ever; everything else by the client's keys, for a second.
async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = format!(
        "{SHORT_LEASES}retention = \"1s\"\nshort_retention = true\n\
         retry_budget = {{ attempts = 1, max_backoff = \"500ms\" }}\n\
         [[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n\
         natural_key = [\"/order_id\"]\nretention = \"forever\"\n{}",
        admin("eye", "viewer")
    );
    (Setup::new(policy(&["a", "b"], &rest), upstream.address).start().await, upstream)
}

/// Posts an order; again while the answer is 503, since nothing ran then.
async fn post(gateway: SocketAddr, tenant: &str, target: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {}", api_key(tenant));
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let begin = Instant::now();
    loop {
        let answer = send(gateway, Method::POST, target, &headers, body.to_owned()).await.unwrap();
        if answer.status != 503 || begin.elapsed() > Duration::from_secs(5) {
            return answer;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn one_order_is_placed_once_whoever_sends_it_through_whatever_node() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = "{\"order_id\":\"A-7\",\"item\":\"book\"}";
        let same = " { \"item\" : \"book\", \"order_id\" : \"A-7\" } ";
        let posts = (0..30).map(|index| {
            let body = if index % 2 == 0 { order } else { same };
            post(cluster.gateway(index % 3), "a", "/orders?hold=200", body)
        });
        let answers = futures_util::future::join_all(posts).await;
        let mut ran = 0;
        for answer in &answers {
            match (answer.status.as_u16(), answer.is_replay()) {
                (201, replay) => ran += usize::from(!replay),
                (409, _) => assert_eq!(answer.code(), "key-in-progress"),
                _ => panic!("{answer:?}"),
            }
        }
        assert_eq!((ran, upstream.ledger().len()), (1, 1));
        for node in 0..3 {
            let gateway = cluster.gateway(node);
            let again = post(gateway, "a", "/orders?hold=200", same).await;
            assert!(again.is_replay(), "{node}: {again:?}");
            assert!(again.header("idempotency-expires").is_none(), "it never does");
            let edited = order.replace("book", "pen");
            let edited = post(gateway, "a", "/orders?hold=200", &edited).await;
            assert_eq!((edited.status.as_u16(), edited.code().as_str()), (422, "key-reused"));
            let nameless = post(gateway, "a", "/orders?hold=200", "{\"item\":\"book\"}").await;
            assert_eq!((nameless.status.as_u16(), nameless.code().as_str()), (400, "key-missing"));
        }
        assert_eq!(upstream.ledger().len(), 1);
        // Its number is another order for another tenant, and so is a number that is none.
        assert!(!post(cluster.gateway(0), "b", "/orders?hold=200", order).await.is_replay());
        let number = order.replace("\"A-7\"", "7");
        assert!(!post(cluster.gateway(0), "a", "/orders?hold=200", &number).await.is_replay());
        let text = order.replace("\"A-7\"", "\"7\"");
        assert!(!post(cluster.gateway(0), "a", "/orders?hold=200", &text).await.is_replay());
        assert_eq!(upstream.ledger().len(), 4);
    });
}

#[test]
fn what_is_kept_for_ever_outlives_sweeps_and_restarts() {
    run(async {
        let (mut cluster, upstream) = start().await;
        let order = "{\"order_id\":\"A-7\"}";
        assert_eq!(post(cluster.gateway(0), "a", "/orders", order).await.status, 201);
        let other = Order::new(&fresh_key()).path("/notes");
        assert_eq!(other.post(cluster.gateway(0)).await.status, 201);
        until("the other record is past its retention", async || {
            !other.post(cluster.gateway(0)).await.is_replay()
        })
        .await;
        assert!(post(cluster.gateway(1), "a", "/orders", order).await.is_replay());
        for node in 0..3 {
            cluster.kill(node);
        }
        for node in 0..3 {
            cluster.start(node, &[]);
        }
        cluster.ready().await;
        for node in 0..3 {
            assert!(post(cluster.gateway(node), "a", "/orders", order).await.is_replay(), "{node}");
        }
        assert_eq!(upstream.executions(&other.key), 2);
        assert_eq!(upstream.ledger().len(), 3);
        let path = "/v1/admin/record?tenant=a&operation=orders&key=%5B%22A-7%22%5D";
        let headers = [("authorization", "Bearer eye")];
        let found = send(cluster.api(0), Method::GET, path, &headers, "").await.unwrap().json();
        assert_eq!((&found["state"], &found["expires_in_s"]), (&"completed".into(), &().into()));
        assert_eq!(found["key"], "[\"A-7\"]");
    });
}

#[test]
fn an_order_that_was_refused_is_corrected_under_its_number() {
    run(async {
        let (cluster, upstream) = start().await;
        let refused = post(cluster.gateway(0), "a", "/orders?status=422", "{\"order_id\":7}").await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, ""));
        let corrected = "{\"order_id\":7,\"item\":\"book\"}";
        let placed = post(cluster.gateway(1), "a", "/orders", corrected).await;
        assert_eq!((placed.status.as_u16(), placed.is_replay()), (201, false));
        assert!(post(cluster.gateway(2), "a", "/orders", corrected).await.is_replay());
        assert_eq!(upstream.ledger().len(), 2);
        // Each execution brought the API a key of its own.
        let keys: Vec<_> = upstream.ledger().into_iter().map(|execution| execution.key).collect();
        assert!(keys[0].len() == 36 && keys[1].len() == 36 && keys[0] != keys[1], "{keys:?}");
    });
}
