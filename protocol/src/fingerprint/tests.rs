//! Tests of what a fingerprint covers. Those of the canonical form of bodies stand with it.

use super::*;

const BASE: RequestParts<'static> = RequestParts {
    method: "POST",
    target: "/v1/orders?b=2&a=1&b=1",
    content_type: Some(b"application/json"),
    headers: &[],
    body: br#"{"amount": 12.50, "currency": "EUR"}"#,
    encoding: None,
};

fn of(request: RequestParts<'_>) -> Fingerprint {
    print(&Subject::Request(request)).fingerprint
}

fn payload(json: &[u8]) -> Fingerprint {
    print(&Subject::Payload(json)).fingerprint
}

fn print(subject: &Subject<'_>) -> Print {
    let name = crate::RecordName::from_bytes(b"name".to_vec());
    Print::of(subject, &Rules::DEFAULT, &OutlineKey::new(&[7; 32], &name))
}

fn hex(fingerprint: Fingerprint) -> String {
    fingerprint.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json(body: &[u8]) -> Fingerprint {
    of(RequestParts { body, ..BASE })
}

fn raw(body: &[u8]) -> Fingerprint {
    of(RequestParts { content_type: Some(b"application/octet-stream"), body, ..BASE })
}

#[test]
fn each_part_counts() {
    let others = [
        RequestParts { method: "PATCH", ..BASE },
        RequestParts { method: "post", ..BASE },
        RequestParts { target: "/v1/orders/?b=2&a=1&b=1", ..BASE },
        RequestParts { target: "/v1/Orders?b=2&a=1&b=1", ..BASE },
        RequestParts { target: "/v1/orders?b=1&a=1&b=2", ..BASE },
        RequestParts { target: "/v1/orders?b=2&a=1", ..BASE },
        RequestParts { target: "/v1/orders", ..BASE },
        RequestParts { content_type: None, ..BASE },
        RequestParts { content_type: Some(b""), ..BASE },
        RequestParts { content_type: Some(b"text/plain"), ..BASE },
        RequestParts { content_type: Some(b"application/vnd.order+json"), ..BASE },
        RequestParts { body: br#"{"amount": 12.51, "currency": "EUR"}"#, ..BASE },
        RequestParts { body: b"", ..BASE },
        RequestParts { headers: &[ListedHeader { name: "x", values: vec![] }], ..BASE },
    ];
    let mut all: Vec<_> = others.into_iter().map(|request| hex(of(request))).collect();
    all.push(hex(of(BASE)));
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn what_may_lawfully_change_does_not_count() {
    let same = [
        RequestParts { target: "/v1/orders?a=1&b=2&b=1", ..BASE },
        RequestParts { target: "/v1/orders?&b=2&b=1&&a=1&", ..BASE },
        RequestParts { content_type: Some(b"Application/JSON; charset=UTF-8"), ..BASE },
        RequestParts { body: br#"{"currency":"\u0045UR","amount":125e-1}"#, ..BASE },
    ];
    for request in same {
        assert_eq!(of(request), of(BASE), "{request:?}");
    }
    let no_query = RequestParts { target: "/v1/orders", ..BASE };
    assert_eq!(of(RequestParts { target: "/v1/orders?", ..BASE }), of(no_query));
    assert_ne!(of(RequestParts { target: "/v1/orders??", ..BASE }), of(no_query));
}

#[test]
fn bytes_never_move_from_one_part_to_the_next() {
    let pairs = [
        [
            RequestParts { method: "POST", target: "/a", ..BASE },
            RequestParts { method: "POST/", target: "a", ..BASE },
        ],
        [
            RequestParts { target: "/a?b=1&c=2", ..BASE },
            RequestParts { target: "/a?b=1%26c=2", ..BASE },
        ],
        [
            RequestParts { content_type: Some(b"a/b"), body: b"cd", ..BASE },
            RequestParts { content_type: Some(b"a/bc"), body: b"d", ..BASE },
        ],
    ];
    for [one, other] in pairs {
        assert_ne!(of(one), of(other), "{one:?} {other:?}");
    }
}

#[test]
fn json_is_canonical_for_json_types_only() {
    let spaced: &[u8] = b"{ }";
    for content_type in [&b"application/json"[..], b"application/merge-patch+json", b"A/B+JSON;c=d"]
    {
        let of_body = |body| of(RequestParts { content_type: Some(content_type), body, ..BASE });
        assert_eq!(of_body(b"{}"), of_body(spaced));
    }
    for content_type in [None, Some(&b"text/plain"[..]), Some(b"application/x-www-form-urlencoded")]
    {
        let of_body = |body| of(RequestParts { content_type, body, ..BASE });
        assert_ne!(of_body(b"{}"), of_body(spaced));
        assert_eq!(of_body(spaced), of_body(spaced));
    }
}

#[test]
fn the_fields_of_a_form_count_and_not_how_they_are_spelled() {
    let form = |body| {
        let content_type = Some(&b"application/x-www-form-urlencoded; charset=utf-8"[..]);
        of(RequestParts { content_type, body, ..BASE })
    };
    assert_eq!(form(b"amount=5&note=a+b"), form(b"note=a%20b&amount=%35"));
    assert_ne!(form(b"amount=5&amount=6"), form(b"amount=6&amount=5"));
    assert_ne!(form(b"amount=5"), form(b"amount=50"));
    let text = RequestParts { content_type: Some(b"text/plain"), body: b"a=1", ..BASE };
    assert_ne!(form(b"a=1"), of(text));
}

#[test]
fn c37_amounts_beyond_doubles_differ() {
    let pairs = [
        ["9007199254740992", "9007199254740993"],
        ["18446744073709551616", "18446744073709551617"],
        ["1234567890123456789012345678901234567890", "1234567890123456789012345678901234567891"],
    ];
    for pair in pairs {
        let [one, other] = pair.map(|amount| json(format!("{{\"amount\":{amount}}}").as_bytes()));
        assert_ne!(one, other, "{pair:?}");
    }
}

#[test]
fn a_body_that_is_no_json_counts_byte_for_byte() {
    let bodies: [&[u8]; 5] =
        [br#"{"a":1,"a":1}"#, br#"{"a":"\ud83d"}"#, br#"{"a":1"#, b"\xef\xbb\xbf{}", b"[1\xff]"];
    for body in bodies {
        let spaced = [body, b" "].concat();
        assert_eq!(json(body), json(body));
        assert_ne!(json(body), json(&spaced), "{body:?}");
    }
    let deep = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
    let spaced = |depth| [deep(depth), b" ".to_vec()].concat();
    assert_eq!(json(&deep(128)), json(&spaced(128)));
    assert_ne!(json(&deep(129)), json(&spaced(129)));
    assert_ne!(json(&deep(10_000)), json(&spaced(10_000)));
}

#[test]
fn canonical_and_raw_bytes_never_meet() {
    let canonical: &[u8] = br#"{"a":1}"#;
    let as_json = CanonicalBody::of_payload(canonical, &Rules::DEFAULT);
    let mut digests = [as_json, CanonicalBody::Raw(canonical)].map(|body| {
        let mut digest = PartsDigest::new("payload");
        body.put(&mut digest);
        digest.finish()
    });
    assert_ne!(digests[0], digests[1]);
    digests.sort_by_key(|fingerprint| fingerprint.digest);
    assert!(digests.contains(&payload(canonical)));
}

#[test]
fn c47_no_body_and_an_empty_body_are_the_same() {
    let none = of(RequestParts { content_type: None, body: b"", ..BASE });
    let form = b"application/x-www-form-urlencoded";
    for content_type in [&b""[..], b"application/json", b"text/plain", form, b"multipart/form-data"]
    {
        let empty = RequestParts { content_type: Some(content_type), body: b"", ..BASE };
        assert_eq!(of(empty), none);
    }
    assert_ne!(json(b" "), none);
    assert_ne!(json(b"null"), none);
    assert_ne!(raw(b"\0"), none);
}

#[test]
fn listed_headers_count_by_name_and_line() {
    let with = |headers: &[ListedHeader<'_>]| of(RequestParts { headers, ..BASE });
    let header = |name, values: &[&'static [u8]]| ListedHeader { name, values: values.to_vec() };

    let a1_b2 = with(&[header("A", &[b"1"]), header("b", &[b"2"])]);
    assert_eq!(a1_b2, with(&[header("B", &[b" 2\t"]), header("a", &[b"1"])]));

    let a = |values: &[&'static [u8]]| with(&[header("a", values)]);
    let different = [
        a1_b2,
        of(BASE),
        a(&[]),
        a(&[b""]),
        a(&[b"1"]),
        a(&[b"1", b"2"]),
        a(&[b"2", b"1"]),
        a(&[b"1, 2"]),
        a(&[b"12"]),
        with(&[header("a", &[b"2"]), header("b", &[b"1"])]),
    ];
    for (nth, one) in different.iter().enumerate() {
        assert!(!different[..nth].contains(one), "{nth}");
    }
}

#[test]
fn kinds_of_fingerprints_never_meet() {
    let text = "1";
    let fingerprints = [
        Fingerprint::opaque(text).unwrap(),
        payload(text.as_bytes()),
        json(text.as_bytes()),
        raw(text.as_bytes()),
    ];
    for (nth, one) in fingerprints.iter().enumerate() {
        assert!(!fingerprints[..nth].contains(one), "{nth}");
    }
}

#[test]
fn a_payload_is_canonical_json() {
    let payload = |text: &str| payload(text.as_bytes());
    assert_eq!(payload(r#"{"a":[1.0],"b":2}"#), payload(r#" {"b":2e0, "a":[1]}"#));
    assert_ne!(payload(r#"{"a":[1.0],"b":2}"#), payload(r#"{"a":[1.0],"b":3}"#));
}

#[test]
fn an_opaque_fingerprint_is_1_to_128_bytes_as_they_are() {
    assert_eq!(Fingerprint::opaque(""), Err(OpaqueError::Empty));
    assert!(Fingerprint::opaque(&"x".repeat(128)).is_ok());
    assert_eq!(Fingerprint::opaque(&"x".repeat(129)), Err(OpaqueError::TooLong));
    assert_eq!(Fingerprint::opaque(&"é".repeat(65)), Err(OpaqueError::TooLong));
    assert_ne!(Fingerprint::opaque("a"), Fingerprint::opaque(" a"));
    assert_ne!(Fingerprint::opaque("a"), Fingerprint::opaque("A"));
}

/// Pins the rules: a record that is kept was made by them. Where one of these digests changes,
/// [`Fingerprint::VERSION`] has to change too. They were computed by another program.
#[test]
fn golden_digests() {
    let orders = RequestParts { target: "/orders", content_type: None, body: b"", ..BASE };
    let full = RequestParts {
        method: "PATCH",
        target: "/v1/orders/7?b=2&a=1&b=1",
        content_type: Some(b"Application/JSON; charset=utf-8"),
        headers: &[
            ListedHeader { name: "X-B", values: vec![] },
            ListedHeader { name: "x-a", values: vec![b"1", b" 2 "] },
        ],
        body: br#"{"currency":"EUR","amount":12.50}"#,
        encoding: None,
    };
    let document = r#" {"b":1.25e1, "a":[0.10,1000,true,null], "":"\u0000\u00e9"} "#;
    let golden = [
        (
            Fingerprint::opaque("order 1").unwrap(),
            "392f6765a7e13dcedda1d22c43d86cf5540d5affee8655222a28f0ab1e02c229",
        ),
        (
            payload(document.as_bytes()),
            "42db925e0dcb1711a4ab0bacda222296358da63152de09fc70383452387c84d6",
        ),
        (
            payload(br#"{"a":1,"a":1}"#),
            "7d50853a7a83caaf2fe8d59bf8765bfe07536600d6b3c6dca237c3ad1bb11a46",
        ),
        (of(orders), "86a35a390a27484b2d2f91824c13cd2811efb71903654b8ca19e0dd64cab0bd3"),
        (of(full), "0c0bffb38b394bf6ab28ef09a30bf0c748712bc36b8e6e63a34ff4959192a2f4"),
    ];
    for (fingerprint, digest) in golden {
        assert_eq!(fingerprint.version, 1);
        assert_eq!(hex(fingerprint), digest);
    }
}
