//! What the gateway lets a tenant do, before anything is claimed.

use super::client::{Served, keyed};
use super::stub::Stub;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const RATE: &str = "rate_limit = { per_second = 1, burst = 3 }\n";

/// More requests than a burst and the seconds that they take allow.
const MANY: usize = 50;

/// A client that is over its limit gets a refusal that says so and is not stored: the same key runs
/// later.
#[tokio::test]
async fn c59_a_tenant_over_its_rate_is_refused_before_anything_is_claimed() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, RATE).await;
    for number in 0..MANY {
        let key = format!("k{number}");
        let got = served.keyed("POST /orders", &key, "{}").await;
        if got.status() == 200 {
            continue;
        }
        assert_eq!(got.problem(), (429, "rate-limited".into()));
        assert_eq!(got.one("retry-after"), Some("1"));
        let asked = served.judge.kinds().len();
        let mut refused = got;
        while refused.status() == 429 {
            assert_eq!(served.judge.kinds().len(), asked, "nothing was claimed");
            refused = served.keyed("POST /orders", &key, "{}").await;
        }
        assert_eq!((refused.status(), refused.is_replay()), (200, false), "the key was free");
        return;
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn a_tenant_does_not_get_around_its_rate_by_leaving_keys_out() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, RATE).await;
    let refused = async |head: &str| {
        for number in 0..MANY {
            if served.ask(head, "").await.status() == 429 {
                return number;
            }
        }
        MANY
    };
    let known = "GET /orders HTTP/1.1\r\nauthorization: Bearer acme-key";
    assert!(refused(known).await < MANY);
    for nobody in ["GET /orders HTTP/1.1", "GET /orders HTTP/1.1\r\nauthorization: Bearer x"] {
        assert_eq!(refused(nobody).await, MANY, "{nobody}");
    }
}

#[tokio::test]
async fn whoever_is_over_the_rate_learns_nothing_about_its_key() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, RATE).await;
    let statuses = async |key: &str| {
        let mut seen = Vec::new();
        for _ in 0..MANY {
            seen.push(served.ask(&keyed("POST /orders", key), "").await.status());
        }
        seen
    };
    let seen = statuses("not,a,key").await;
    assert!(seen.contains(&429) && seen.contains(&400), "{seen:?}");
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}
