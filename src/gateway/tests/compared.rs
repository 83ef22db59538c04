//! What makes a request another one: the rules of its operation, and what a client is told.

use serde_json::{Value, json};

use super::client::{Got, Served, keyed};
use super::judge::Kind;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

/// A policy of one operation with these rules.
fn operations(rules: &str) -> String {
    format!("[[operation]]\nmatch = \"POST /payments\"\nname = \"payments\"\n{rules}\n")
}

async fn served(rules: &str) -> (Stub, Served) {
    let stub = Stub::always(vec![Step::Write(CREATED.into())]).await;
    let served = Served::new(&stub, &operations(rules)).await;
    (stub, served)
}

/// Posts a JSON body with these further lines.
async fn post(served: &Served, target: &str, lines: &str, body: &str) -> Got {
    let line = format!("POST /payments{target}");
    let head = format!("{}\r\ncontent-type: application/json{lines}", keyed(&line, "k"));
    served.ask(&head, body).await
}

fn differs(got: &Got) -> Value {
    assert_eq!(got.problem(), (422, "key-reused".into()));
    let problem: Value = serde_json::from_slice(&got.body).unwrap();
    problem["differs"].clone()
}

#[tokio::test]
async fn what_is_ignored_may_change_and_what_is_listed_may_not() {
    let rules =
        "fingerprint = { ignore = [\"/sent_at\", \"query:trace\"], headers = [\"X-Shop\"] }";
    let (stub, served) = served(rules).await;
    let shop = "\r\nx-shop: 1";
    let first = post(&served, "?trace=1", shop, "{\"a\":1,\"sent_at\":1}").await;
    assert_eq!((first.status(), first.is_replay()), (201, false));
    assert!(post(&served, "?trace=2", shop, "{\"a\":1,\"sent_at\":2}").await.is_replay());
    assert!(post(&served, "", "\r\nX-SHOP:  1 ", "{\"a\":1}").await.is_replay());
    for (target, lines, body) in [
        ("", shop, "{\"a\":2}"),
        ("?page=1", shop, "{\"a\":1}"),
        ("", "\r\nx-shop: 2", "{\"a\":1}"),
        ("", "", "{\"a\":1}"),
        ("", "\r\nx-shop: 1\r\nx-shop: 1", "{\"a\":1}"),
    ] {
        let got = post(&served, target, lines, body).await;
        assert_eq!(got.problem(), (422, "key-reused".into()), "{target} {lines} {body}");
    }
    // A connection may not take away what the verdict rests on.
    let hidden = post(&served, "", "\r\nx-shop: 1\r\nconnection: x-shop", "{\"a\":1}").await;
    assert_eq!(hidden.problem(), (400, "invalid-request".into()));
    assert_eq!(stub.seen().len(), 1);
}

/// The records of an earlier policy are compared by its rules, in both directions of the change.
#[tokio::test]
async fn a_change_of_rules_makes_no_request_another() {
    let all = ["", "fingerprint = { ignore = [\"/b\"] }", "fingerprint = { only = [\"/a\"] }"];
    for before in all {
        for after in all {
            let (stub, old) = served(before).await;
            let body = "{\"a\":1,\"b\":1}";
            assert_eq!(post(&old, "", "", body).await.status(), 201);
            let rules = operations(after);
            let new = Served::asking(old.judge.clone(), stub.address, &rules).await;
            let again = post(&new, "", "", "{\"b\":1.0, \"a\":1}").await;
            assert!(again.is_replay(), "{before} {after}: {}", again.head);
            let copies = new.judge.submitted(Kind::Claim);
            assert_eq!(copies, if before == after { 2 } else { 3 }, "{before} {after}");
            // By the rules of the record `b` counts, or does not, whatever they are now.
            let other = post(&new, "", "", "{\"a\":1,\"b\":2}").await;
            assert_eq!(other.is_replay(), !before.is_empty(), "{before} {after}");
            assert_eq!(
                differs(&post(&new, "", "", "{\"a\":2}").await)[0],
                match before {
                    "" => "",
                    _ => "/a",
                }
            );
            assert_eq!(stub.seen().len(), 1);
        }
    }
}

#[tokio::test]
async fn c46_what_differs_is_named_and_its_value_is_not() {
    let (stub, served) = served("").await;
    let body = "{\"amount\":125,\"card\":{\"last4\":\"4242\",\"name\":\"Ada\"},\"note\":null}";
    assert_eq!(post(&served, "", "", body).await.status(), 201);
    for (from, to, pointers) in [
        ("125", "126", json!(["/amount"])),
        ("4242", "4243", json!(["/card/last4"])),
        (",\"note\":null", "", json!([""])),
        ("125", "126,\"tip\":1", json!(["/amount", "/tip"])),
    ] {
        let other = post(&served, "", "", &body.replace(from, to)).await;
        assert_eq!(differs(&other), pointers);
        let mut told: Value = serde_json::from_slice(&other.body).unwrap();
        // It is drawn at random, and may hold any digits.
        told.as_object_mut().unwrap().remove("instance");
        let text = told.to_string();
        assert!(!text.contains("125") && !text.contains("4242") && !text.contains("Ada"), "{text}");
    }
    // Where something else than the body differs, no member is named.
    assert_eq!(differs(&post(&served, "?x=1", "", body).await), Value::Null);
    assert_eq!(differs(&post(&served, "", "", "no JSON").await), Value::Null);
    assert!(post(&served, "", "", body).await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}
