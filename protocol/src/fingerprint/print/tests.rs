//! Tests of what rules let count.

use super::*;
use crate::RecordName;
use crate::fingerprint::{ListedHeader, Place};

const BASE: RequestParts<'static> = RequestParts {
    method: "POST",
    target: "/v1/orders?sent=1&page=2",
    content_type: Some(b"application/json"),
    headers: &[],
    body: br#"{"amount":1,"sent_at":"now","items":[{"sku":"a","note":"x"}]}"#,
    encoding: None,
};

fn key() -> OutlineKey {
    OutlineKey::new(&[7; 32], &RecordName::from_bytes(b"name".to_vec()))
}

fn places(texts: &[&str]) -> Vec<Place> {
    texts.iter().map(|text| Place::parse(text).unwrap()).collect()
}

fn ignoring(texts: &[&str]) -> Rules {
    Rules::ignoring(places(texts), vec![]).unwrap()
}

fn only(texts: &[&str]) -> Rules {
    Rules::only(places(texts), vec![]).unwrap()
}

fn print(request: RequestParts<'_>, rules: &Rules) -> Print {
    Print::of(&Subject::Request(request), rules, &key())
}

fn same(one: RequestParts<'_>, other: RequestParts<'_>, rules: &Rules) -> bool {
    print(one, rules).fingerprint == print(other, rules).fingerprint
}

fn json(body: &'static str) -> RequestParts<'static> {
    RequestParts { body: body.as_bytes(), ..BASE }
}

fn form(body: &'static str) -> RequestParts<'static> {
    let content_type = Some(&b"application/x-www-form-urlencoded"[..]);
    RequestParts { content_type, body: body.as_bytes(), ..BASE }
}

#[test]
fn what_is_ignored_may_change_and_nothing_else() {
    let rules = ignoring(&["/sent_at", "/items/*/note", "query:sent", "form:sent"]);
    let changed = r#"{"sent_at":[2],"amount":1,"items":[{"sku":"a"}]}"#;
    assert!(same(json(changed), BASE, &rules));
    assert!(same(RequestParts { target: "/v1/orders?page=2&sent=9", ..BASE }, BASE, &rules));
    for other in [
        json(r#"{"amount":2,"sent_at":"now","items":[{"sku":"a","note":"x"}]}"#),
        json(r#"{"amount":1,"sent_at":"now","items":[{"sku":"b","note":"x"}]}"#),
        RequestParts { target: "/v1/orders?sent=1&page=3", ..BASE },
        RequestParts { target: "/v1/order?sent=1&page=2", ..BASE },
        RequestParts { method: "PATCH", ..BASE },
        RequestParts { content_type: Some(b"application/x+json"), ..BASE },
    ] {
        assert!(!same(other, BASE, &rules), "{other:?}");
    }
    assert!(same(form("a=1&sent=1"), form("sent=2&sen%74=3&a=1"), &rules));
    assert!(!same(form("a=1&sent=1"), form("a=2&sent=1"), &rules));
}

#[test]
fn of_query_and_body_only_that_counts_which_alone_does() {
    let rules = only(&["/amount", "query:page", "form:amount"]);
    assert!(same(json(r#"{"amount":1.0,"other":5}"#), BASE, &rules));
    assert!(same(RequestParts { target: "/v1/orders?page=2", ..BASE }, BASE, &rules));
    for other in [
        json(r#"{"amount":2}"#),
        json("{}"),
        RequestParts { target: "/v1/orders?page=1", ..BASE },
        RequestParts { target: "/v1/orders/?page=2", ..BASE },
        RequestParts { method: "PATCH", ..BASE },
    ] {
        assert!(!same(other, BASE, &rules), "{other:?}");
    }
    assert!(same(form("amount=1&x=2"), form("x=3&amount=1"), &rules));
    assert!(!same(form("amount=1"), form("amount=2"), &rules));
}

/// Rules for one kind of body must not make all bodies of another kind equal.
#[test]
fn a_body_that_the_rules_were_not_made_for_counts_whole() {
    let rules = only(&["/amount"]);
    assert!(!same(form("amount=1"), form("amount=2"), &rules));
    for [one, other] in [["{", "{ "], ["{\"a\":1,\"a\":1}", "{\"a\":1,\"a\":2}"], ["5", "6"]] {
        assert!(!same(json(one), json(other), &rules), "{one}");
    }
    let text = |body| RequestParts { content_type: Some(b"text/plain"), ..json(body) };
    assert!(!same(text("a"), text("b"), &rules));
    let encoded = |body| RequestParts { encoding: Some(b"lzw"), ..json(body) };
    assert!(!same(encoded("a"), encoded("b"), &rules));
    // Where no place is in a body, none was meant to count.
    let rules = only(&["query:page"]);
    assert!(same(json("{}"), json("[]"), &rules));
    assert!(same(form("a=1"), form("a=2"), &rules));
    assert!(same(encoded("a"), encoded("b"), &rules));
    assert!(!same(RequestParts { target: "/v1/orders?page=1", ..BASE }, BASE, &rules));
}

#[test]
fn parts_of_a_form_are_named_too() {
    let multipart = |note: &str| {
        format!(
            "--X\r\nContent-Disposition: form-data; name=amount\r\n\r\n1\r\n--X\r\n\
             Content-Disposition: form-data; name=note\r\n\r\n{note}\r\n--X--\r\n"
        )
    };
    let (one, other) = (multipart("a"), multipart("b"));
    let of = |body, rules: &Rules| {
        let content_type = Some(&b"multipart/form-data; boundary=X"[..]);
        print(RequestParts { content_type, body, ..BASE }, rules).fingerprint
    };
    for (rules, equal) in [
        (ignoring(&["part:note"]), true),
        (only(&["part:amount"]), true),
        (ignoring(&["part:amount", "form:note", "/note"]), false),
        (only(&["part:note"]), false),
        (Rules::DEFAULT, false),
    ] {
        let equals = of(one.as_bytes(), &rules) == of(other.as_bytes(), &rules);
        assert_eq!(equals, equal, "{rules:?}");
    }
}

#[test]
fn what_was_taken_by_other_rules_is_never_equal() {
    let header = [ListedHeader { name: "x", values: vec![] }];
    let listed = Rules::ignoring(vec![], vec!["x".into()]).unwrap();
    let prints = [
        print(BASE, &Rules::DEFAULT),
        print(BASE, &ignoring(&["/none"])),
        print(BASE, &ignoring(&["/none", "/neither"])),
        print(BASE, &ignoring(&["query:none"])),
        print(BASE, &only(&["/none"])),
        print(RequestParts { headers: &header, ..BASE }, &listed),
    ];
    for (nth, one) in prints.iter().enumerate() {
        for other in &prints[..nth] {
            assert_ne!(one.fingerprint, other.fingerprint, "{one:?}");
            assert!(one.rules_differ(other) && !one.rules_differ(one));
        }
    }
    let unknown = Fingerprint { version: Fingerprint::VERSION + 1, digest: [0; 32] };
    assert!(!Print::from(unknown).rules_differ(&prints[1]), "nobody here can take it");
}

#[test]
fn differences_are_those_that_count() {
    let rules = ignoring(&["/sent_at"]);
    let stored = print(BASE, &rules);
    let other = json(r#"{"amount":2,"sent_at":"later","items":[{"sku":"b","note":"x"}]}"#);
    let differences = |request| stored.differences(&Subject::Request(request), &key());
    assert_eq!(differences(other), ["/amount", "/items/0/sku"]);
    assert_eq!(differences(form("a=1")), [""; 0]);
    assert_eq!(differences(RequestParts { method: "PATCH", ..BASE }), [""; 0]);
    let opaque = Print::from(Fingerprint::opaque("x").unwrap());
    assert_eq!(opaque.differences(&Subject::Request(BASE), &key()), [""; 0]);
}

#[test]
fn a_payload_counts_by_its_pointers() {
    let of = |json: &str, rules: &Rules| {
        Print::of(&Subject::Payload(json.as_bytes()), rules, &key()).fingerprint
    };
    let [one, other] = [r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#];
    assert_eq!(of(one, &ignoring(&["/b"])), of(other, &ignoring(&["/b"])));
    assert_eq!(of(one, &only(&["/a"])), of(other, &only(&["/a"])));
    for rules in [Rules::DEFAULT, ignoring(&["/a"]), only(&["/b"]), only(&["query:x"])] {
        assert_ne!(of(one, &rules), of(other, &rules), "{rules:?}");
    }
}
