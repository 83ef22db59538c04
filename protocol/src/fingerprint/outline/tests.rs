//! Tests of what an outline tells, and of what it does not.

use super::*;
use crate::fingerprint::json::canonical_json;
use crate::{IdempotencyKey, Scope};

fn key(secret: u8, record: &str) -> OutlineKey {
    let scope =
        Scope { tenant: "acme".into(), sub_account: vec![], credential: None, operation: None };
    let name = RecordName::new(&scope, &IdempotencyKey::from_text(record, 255).unwrap());
    OutlineKey::new(&[secret; 32], &name)
}

fn outline(document: &str) -> Outline {
    Outline::of(&key(1, "k"), &canonical_json(document.as_bytes()).unwrap())
}

fn differences(one: &str, other: &str) -> Vec<String> {
    let other = canonical_json(other.as_bytes()).unwrap();
    outline(one).differences(&key(1, "k"), &other)
}

#[track_caller]
fn assert_differ(one: &str, other: &str, pointers: &[&str]) {
    assert_eq!(differences(one, other), pointers, "{one} {other}");
}

#[test]
fn changed_and_new_members_are_named() {
    let order = r#"{"amount":{"value":12.5,"currency":"EUR"},"items":[{"sku":"a"},{"sku":"b"}]}"#;
    assert_differ(order, order, &[]);
    for (from, to, pointers) in [
        ("12.5", "13", &["/amount/value"][..]),
        ("EUR", "USD", &["/amount/currency"]),
        ("\"b\"", "\"c\"", &["/items/1/sku"]),
        ("\"b\"", "null", &["/items/1/sku"]),
        ("{\"sku\":\"a\"},", "", &["/items", "/items/0/sku"]),
        ("]}", "],\"note\":1}", &["/note"]),
        ("]}", "],\"note\":{\"a\":{\"b\":1}}}", &["/note"]),
        ("]}", ",7]}", &["/items/2"]),
        ("12.5", "13,\"tip\":1", &["/amount/tip", "/amount/value"]),
    ] {
        assert_differ(order, &order.replacen(from, to, 1), pointers);
    }
    assert_differ("1", "2", &[""]);
    assert_differ("{\"a/b\":{\"~\":1}}", "{\"a/b\":{\"~\":2}}", &["/a~1b/~0"]);
    assert_differ("{\"\":1,\"\\n\\u0001é\":1}", "{\"\":2,\"\\n\\u0001é\":2}", &["/", "/\n\u{1}é"]);
}

#[test]
fn an_object_is_named_where_members_of_it_are_missing() {
    assert_differ("{\"a\":1,\"b\":2}", "{\"a\":1}", &[""]);
    assert_differ("{\"a\":1,\"b\":2}", "{\"a\":3}", &["", "/a"]);
    assert_differ("{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", &["", "/c"]);
    assert_differ("{\"o\":{\"a\":1,\"b\":2},\"p\":1}", "{\"o\":{\"a\":1},\"p\":1}", &["/o"]);
    assert_differ("{\"a\":null}", "{}", &[""]);
}

#[test]
fn where_an_outline_ends_the_value_around_is_named() {
    let deep = |value: &str| format!("{{\"a\":{{\"b\":{{\"c\":{{\"d\":{{\"e\":{value}}}}}}}}}}}");
    assert_differ(&deep("1"), &deep("2"), &["/a/b/c/d"]);
    let long = |value: &str| format!("{{\"a\":{{\"{}\":{value}}}}}", "x".repeat(300));
    assert_differ(&long("1"), &long("2"), &["/a"]);
    let wide = |value: &str| {
        let elements: Vec<_> = (0..100).map(|nth| format!("{{\"n\":{nth}}}")).collect();
        format!("{{\"list\":[{},{value}],\"z\":1}}", elements.join(","))
    };
    assert_eq!(outline(&wide("1")).0.len(), MEMBERS_MAX * ENTRY_BYTES);
    assert_differ(&wide("1"), &wide("2"), &["/list"]);
    assert_differ(&wide("1"), &wide("1").replace("\"n\":7}", "\"n\":8}"), &["/list/7"]);
    assert_differ(&wide("1"), &wide("1").replace("\"z\":1", "\"z\":2"), &["/z"]);
    // What the outline may have had no room for is not called new.
    assert_differ(&wide("1"), "{\"list\":[],\"new\":1}", &["/list"]);
}

#[test]
fn an_answer_names_so_many_and_no_more() {
    let object = |value: u8, width: usize| {
        let members: Vec<_> = (10..60).map(|nth| format!("\"{:x>width$}\":{value}", nth)).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(differences(&object(1, 2), &object(2, 2)).len(), NAMED_MAX);
    let long = differences(&object(1, 200), &object(2, 200));
    assert_eq!(long.iter().map(String::len).collect::<Vec<_>>(), [201; 5]);
}

#[test]
fn a_small_document_has_a_small_outline() {
    assert_eq!(outline("{\"amount\":12.5,\"currency\":\"EUR\"}").0.len(), 3 * ENTRY_BYTES);
}

#[test]
fn without_the_key_an_outline_tells_nothing() {
    let document = canonical_json(b"{\"amount\":1}").unwrap();
    let ours = Outline::of(&key(1, "k"), &document);
    for other in [key(2, "k"), key(1, "j")] {
        let theirs = Outline::of(&other, &document);
        let shared = ours.0.chunks(4).filter(|short| theirs.0.chunks(4).any(|it| it == *short));
        assert_eq!(shared.count(), 0, "values of two records can be compared");
        assert_eq!(ours.differences(&other, b"{\"amount\":2}"), [""; 0]);
    }
}

#[test]
fn equal_values_of_one_document_have_different_hashes() {
    let entries = outline("{\"a\":1,\"b\":1}").0;
    assert_ne!(entries[12..16], entries[20..24]);
}
