//! Names are told apart by all their parts and by nothing else.

use std::collections::BTreeSet;

use super::*;
use crate::fields::{JsonDocument, JsonPointer};
use crate::key::{NATURAL_MEMBERS_MAX, NATURAL_VALUE_BYTES_MAX};

#[test]
fn c28_parts_of_a_name_cannot_be_confused_by_joining_them() {
    let tenants = ["a", "a:b", "b:c", "c", "a/b", "b", "a%3Ab", "a\nb", "", "a\0b", "\0"];
    let keys = ["a", "a:b", "b:c", "c", "a/b", "b", "a%3Ab", "bc"];
    let mut names = BTreeSet::new();
    let mut made = 0;
    for tenant in tenants {
        for key in keys {
            for operation in [None, Some(""), Some("b"), Some("b:c")] {
                names.insert(name(tenant, &[], None, operation, key));
                names.insert(name(tenant, &[], operation, None, key));
                names.insert(name(tenant, &["a"], None, operation, key));
                names.insert(name(tenant, &["a", "b"], None, operation, key));
                names.insert(name(tenant, &["ab"], None, operation, key));
                names.insert(name(tenant, &["", ""], None, operation, key));
                // Without an operation and without a credential the first two are one name.
                made += if operation.is_none() { 5 } else { 6 };
            }
        }
    }
    assert_eq!(names.len(), made);
}

#[test]
fn a_name_has_the_bytes_that_were_stored_by_every_version_before() {
    let name = name("acme", &["acct_1", ""], Some("web"), None, "k");
    let mut expected = vec![1, 0, 0, 0, 4];
    expected.extend_from_slice(b"acme");
    expected.extend_from_slice(&[0, 0, 0, 2, 0, 0, 0, 6]);
    expected.extend_from_slice(b"acct_1");
    expected.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 3]);
    expected.extend_from_slice(b"web");
    expected.extend_from_slice(&[0, 0, 0, 0, 1, b'k']);
    assert_eq!(name.as_bytes(), expected);
    assert_eq!(RecordName::from_bytes(expected), name);
}

#[test]
fn a_name_gives_back_what_it_was_made_of() {
    for (sub_account, credential, operation) in [
        (&[][..], None, None),
        (&["acct_1", ""][..], Some("web"), Some("POST /v1/orders")),
        (&[][..], Some(""), None),
    ] {
        let name = name("acme", sub_account, credential, operation, "k-1");
        let (scope, key) = name.parts().expect("a name of ours");
        assert_eq!((scope.tenant.as_str(), key.as_str()), ("acme", "k-1"));
        assert_eq!(name.tenant(), Some("acme"));
        assert_eq!(scope.sub_account, sub_account);
        assert_eq!(
            (scope.credential.as_deref(), scope.operation.as_deref()),
            (credential, operation)
        );
        for end in 0..name.as_bytes().len() {
            let cut = RecordName::from_bytes(name.as_bytes()[..end].to_vec());
            assert_eq!(cut.parts(), None, "cut at {end}");
        }
        let longer = [name.as_bytes(), b"x"].concat();
        assert_eq!(RecordName::from_bytes(longer).parts(), None);
    }
    let huge = [&[1][..], &[255; 40]].concat();
    let huge = RecordName::from_bytes(huge);
    assert_eq!((huge.parts(), huge.tenant()), (None, None));
    assert_eq!(RecordName::from_bytes(vec![]).tenant(), None);
}

#[test]
fn natural_keys_are_told_apart_by_every_value_and_from_all_other_keys() {
    let scope = scope("acme", &["a"], None, Some("orders"));
    let lists =
        [r#"["a"]"#, r#"["a","b"]"#, r#"["a,b"]"#, r#"["a\",\"b"]"#, "[1,2]", "[12]", "[1]"];
    let mut names = BTreeSet::new();
    for list in lists {
        let members: Vec<_> = JsonDocument::read(list.as_bytes())
            .and_then(|document| Some(document.elements()?.len()))
            .map(|count| (0..count).map(|_| JsonPointer::parse("/x").unwrap()).collect())
            .unwrap();
        let key = NaturalKey::from_text(list, &members).unwrap();
        let natural = RecordName::natural(&scope, &key);
        assert_eq!(natural.parts(), Some((scope.clone(), list.to_owned())));
        for end in 0..natural.as_bytes().len() {
            assert_eq!(RecordName::from_bytes(natural.as_bytes()[..end].to_vec()).parts(), None);
        }
        names.insert(natural);
        let sent = IdempotencyKey::from_text(list, 255).unwrap();
        names.insert(RecordName::new(&scope, &sent));
    }
    assert_eq!(names.len(), 2 * lists.len());
}

#[test]
fn a_natural_name_has_the_bytes_that_were_stored_by_every_version_before() {
    let member = [JsonPointer::parse("/id").unwrap()];
    let key = NaturalKey::from_text("[\"k\"]", &member).unwrap();
    let name = RecordName::natural(&scope("acme", &[], None, Some("o")), &key);
    let expected = b"\x02\0\0\0\x04acme\0\0\0\0\0\x01\0\0\0\x01o\0\0\0\x01\0\0\0\x03\"k\"";
    assert_eq!(name.as_bytes(), expected);
}

#[test]
fn the_longest_names_in_use_are_not_too_long() {
    let value = format!("\"{}\"", "v".repeat(NATURAL_VALUE_BYTES_MAX - 2));
    let members: Vec<_> =
        (0..NATURAL_MEMBERS_MAX).map(|_| JsonPointer::parse("/x").unwrap()).collect();
    let list = format!("[{}]", vec![value; NATURAL_MEMBERS_MAX].join(","));
    let key = NaturalKey::from_text(&list, &members).unwrap();
    let account = "a".repeat(255);
    let accounts = [account.as_str(); 8];
    let (credential, path) = ("c".repeat(128), "/".repeat(8200));
    let scope = scope(&"t".repeat(128), &accounts, Some(&credential), Some(&path));
    assert!(!RecordName::natural(&scope, &key).is_too_long());
    let long = name(&"t".repeat(128), &[], Some(&"c".repeat(128)), Some(&"/".repeat(8200)), "k");
    assert!(!long.is_too_long());
    assert!(name("t", &[], None, Some(&"/".repeat(NAME_BYTES_MAX)), "k").is_too_long());
}

#[test]
fn a_name_is_not_shown_in_clear() {
    let shown = format!("{:?}", name("acme", &[], None, None, "secret"));
    assert!(!shown.contains("secret") && !shown.contains("acme"), "{shown}");
}

fn name(
    tenant: &str,
    sub_account: &[&str],
    credential: Option<&str>,
    operation: Option<&str>,
    key: &str,
) -> RecordName {
    let key = IdempotencyKey::from_text(key, 255).expect("a key");
    RecordName::new(&scope(tenant, sub_account, credential, operation), &key)
}

fn scope(
    tenant: &str,
    sub_account: &[&str],
    credential: Option<&str>,
    operation: Option<&str>,
) -> Scope {
    Scope {
        tenant: tenant.to_owned(),
        sub_account: sub_account.iter().map(|part| (*part).to_owned()).collect(),
        credential: credential.map(str::to_owned),
        operation: operation.map(str::to_owned),
    }
}
