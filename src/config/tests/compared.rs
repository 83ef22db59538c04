//! Settings about what of requests is compared.

use super::*;

#[test]
fn what_is_compared_is_read() {
    let of = |lines: &str| {
        let policy = policy(&operation(lines)).unwrap();
        policy.matching(&Method::POST, "/v1/x").operation.fingerprint.clone()
    };
    assert!(of("").are_default());
    assert!(of("fingerprint = { ignore = [], only = [] }").are_default());
    let rules = of("fingerprint = { ignore = [\"/a/*\", \"query:b\"], headers = [\"X-Shop\"] }");
    assert_eq!(rules.headers().collect::<Vec<_>>(), ["x-shop"]);
    assert_ne!(
        rules,
        of("fingerprint = { only = [\"/a/*\", \"query:b\"], headers = [\"X-Shop\"] }")
    );
    let defaults = "[defaults]\nfingerprint = { only = [\"/a\"] }\n";
    let with_defaults = policy(&(defaults.to_owned() + &operation(""))).unwrap();
    let listed = &with_defaults.matching(&Method::POST, "/v1/x").operation.fingerprint;
    let unlisted = &with_defaults.matching(&Method::POST, "/other").operation.fingerprint;
    assert_eq!((listed, unlisted), (&of("fingerprint = { only = [\"/a\"] }"), listed));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let many = |count: usize| {
        let places: Vec<_> = (0..count).map(|nth| format!("\"/{nth}\"")).collect();
        format!("ignore = [{}]", places.join(","))
    };
    policy(&operation(&format!("fingerprint = {{ {} }}", many(32)))).unwrap();
    for (rules, rule) in [
        ("ignore = [\"sent_at\"]", "no-place"),
        ("ignore = [\"header:x\"]", "no-place"),
        ("only = [\"query:\"]", "no-place"),
        ("only = [\"/a~b\"]", "no-place"),
        ("ignore = [\"\"]", "no-place"),
        ("ignore = [\"/a\"], only = [\"/b\"]", "wrong-value"),
        (&many(33), "wrong-value"),
        ("headers = [\"Authorization\"]", "forbidden-header"),
        ("headers = [\"Connection\"]", "forbidden-header"),
        ("headers = [\"Idempotency-Key\"]", "forbidden-header"),
        ("headers = [\"a b\"]", "wrong-value"),
        ("ignore = \"/a\"", "wrong-type"),
        ("ignored = [\"/a\"]", "unknown-name"),
    ] {
        assert_refused(&operation(&format!("fingerprint = {{ {rules} }}")), rule);
    }
    let own_key = "headers = [\"X-Key\"]\nfingerprint = { headers = [\"x-key\"] }";
    assert_refused(&operation(own_key), "forbidden-header");
}
