//! Clients that were written for a provider, at gateways with that provider's profile.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, send};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

async fn start(profile: &str) -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = policy(&["a"], &format!("{SHORT_LEASES}profile = \"{profile}\"\n"));
    (Setup::new(rest, upstream.address).start().await, upstream)
}

async fn post(gateway: SocketAddr, target: &str, key: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {}", api_key("a"));
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", key)];
    send(gateway, Method::POST, target, &headers, body.to_owned()).await.unwrap()
}

/// Status and code of the gateway's own answer.
fn told(answer: &Answer) -> (u16, &str) {
    let item = answer.header("idempotency-problem").unwrap_or_else(|| panic!("{answer:?}"));
    (answer.status.as_u16(), item.split(';').next().unwrap())
}

#[test]
fn clients_of_stripe_are_answered_in_its_words_by_every_node() {
    run(async {
        let (cluster, upstream) = start("stripe").await;
        let key = fresh_key();
        let first = post(cluster.gateway(0), "/v1/charges", &key, "amount=1200").await;
        assert_eq!(first.status.as_u16(), 201);
        for node in 0..3 {
            let gateway = cluster.gateway(node);
            let again = post(gateway, "/v1/charges", &key, "amount=1200").await;
            assert!(again.is_replay() && again.body == first.body, "{node}: {again:?}");
            let edited = post(gateway, "/v1/charges", &key, "amount=1300").await;
            assert_eq!(told(&edited), (400, "key-reused"), "{node}");
            let elsewhere = post(gateway, "/v1/refunds", &key, "amount=1200").await;
            assert_eq!(told(&elsewhere), (400, "operation-mismatch"), "{node}");
            for refused in [edited, elsewhere] {
                assert_eq!(refused.json()["error"]["type"], "idempotency_error");
                assert_eq!(refused.header("stripe-should-retry"), Some("false"));
            }
        }
        assert_eq!(upstream.executions(&key), 1);

        let lost = fresh_key();
        let reset = "/v1/charges?drop=after";
        let answer = post(cluster.gateway(0), reset, &lost, "amount=1").await;
        assert_eq!(told(&answer), (502, "outcome-unknown"));
        let closed = post(cluster.gateway(1), reset, &lost, "amount=1").await;
        assert_eq!(told(&closed), (409, "outcome-indeterminate"));
        assert_eq!(closed.header("stripe-should-retry"), Some("false"));
        assert_eq!(upstream.executions(&lost), 1);
    });
}

#[test]
fn clients_of_adyen_are_answered_in_its_words_by_every_node() {
    run(async {
        let (cluster, upstream) = start("adyen").await;
        let key = fresh_key();
        let (slow, body) = ("/v71/payments?hold=1500", "{\"reference\":\"order-7\"}");
        let (first, ()) = tokio::join!(post(cluster.gateway(0), slow, &key, body), async {
            until("the first request runs", async || upstream.executions(&key) == 1).await;
            for node in 0..3 {
                let busy = post(cluster.gateway(node), slow, &key, body).await;
                assert_eq!(told(&busy), (409, "key-in-progress"), "{node}");
                assert_eq!(busy.json()["errorCode"], "704");
                assert_eq!(busy.header("transient-error"), Some("true"));
            }
        });
        assert_eq!((first.status.as_u16(), first.header("idempotency-key")), (201, Some(&*key)));
        for node in 0..3 {
            let gateway = cluster.gateway(node);
            let again = post(gateway, slow, &key, body).await;
            assert!(again.is_replay() && again.body == first.body, "{node}: {again:?}");
            assert_eq!(again.header("idempotency-key"), Some(&*key));
            let left: u64 = again.header("idempotency-expires").unwrap().parse().unwrap();
            assert!(Duration::from_secs(left) > Duration::from_secs(6 * 86_400), "{left}");
            let edited = post(gateway, slow, &key, "{\"reference\":\"order-8\"}").await;
            assert_eq!(told(&edited), (422, "key-reused"), "{node}");
            let elsewhere = post(gateway, "/v71/payments/details", &key, body).await;
            assert_eq!(told(&elsewhere), (422, "operation-mismatch"), "{node}");
            assert_eq!(elsewhere.json()["errorCode"], "operation-mismatch");
            assert!(elsewhere.header("transient-error").is_none());
        }
        let longer = post(cluster.gateway(0), slow, &"x".repeat(65), body).await;
        assert_eq!(told(&longer), (400, "key-too-long"));
        assert_eq!(upstream.ledger().len(), 1);
    });
}
