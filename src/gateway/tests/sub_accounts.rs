//! End customers of one tenant, kept apart by fields of their requests.

use super::client::{Served, keyed};
use super::stub::Stub;

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";

const OPERATIONS: &str = r#"
[defaults]
scope_by = ["header:Account", "json:/merchant", "query:shop"]
"#;

fn head(target: &str, more: &str) -> String {
    keyed(&format!("POST {target}"), "k") + "\r\ncontent-type: application/json" + more
}

#[tokio::test]
async fn every_value_of_every_field_has_keys_of_its_own() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, OPERATIONS).await;
    let customers = [
        ("/orders", "", "{}"),
        ("/orders", "\r\naccount: a", "{}"),
        ("/orders", "\r\naccount: b", "{}"),
        ("/orders", "", r#"{"merchant":"a"}"#),
        ("/orders", "\r\naccount: a", r#"{"merchant":"a"}"#),
        ("/orders?shop=a", "", "{}"),
        ("/orders?shop=a%2Cb", "", "{}"),
    ];
    for round in 0..2 {
        for (target, more, body) in customers {
            let got = served.ask(&head(target, more), body).await;
            let what = format!("{target} {more} {body}");
            assert_eq!((got.status(), got.is_replay()), (201, round > 0), "{what}");
        }
    }
    assert_eq!(stub.seen().len(), customers.len());
    // The empty value is that of a missing field.
    for (target, more, body) in [
        ("/orders", "\r\naccount:", "{}"),
        ("/orders", "", r#"{"merchant":null}"#),
        ("/orders", "", r#"{"merchant":""}"#),
        ("/orders?shop=", "", "{}"),
    ] {
        let got = served.ask(&head(target, more), body).await;
        let same_request = more.starts_with("\r\naccount");
        let wanted = if same_request { (201, true) } else { (422, false) };
        assert_eq!((got.status(), got.is_replay()), wanted, "{target} {more} {body}");
    }
}

#[tokio::test]
async fn a_field_that_could_be_read_in_two_ways_is_refused_before_anything_is_claimed() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, OPERATIONS).await;
    for (target, more, body) in [
        ("/orders", "\r\naccount: a\r\naccount: a", "{}"),
        ("/orders", "\r\naccount: a\r\nconnection: account", "{}"),
        ("/orders?shop=a&shop=a", "", "{}"),
        ("/orders", "", r#"{"merchant":["a"]}"#),
        ("/orders", "", r#"{"merchant":"a","merchant":"b"}"#),
        ("/orders", "", "{"),
    ] {
        let got = served.ask(&head(target, more), body).await;
        assert_eq!(got.problem(), (400, "invalid-request".into()), "{target} {more} {body}");
    }
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}
