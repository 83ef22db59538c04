//! Names never meet: tenants, operations and keys that could be confused by joining their parts.

use crate::support::cluster::Setup;
use crate::support::http::{Order, send};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::run;
use crate::support::upstream::Upstream;

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
