use super::*;

fn route(text: &str) -> Route {
    Route::parse(text).unwrap()
}

fn matches(text: &str, path: &str) -> bool {
    route(text).matches(&Method::POST, &RequestPath::new(path))
}

#[test]
fn a_parameter_stands_for_one_whole_segment() {
    let capture = "POST /v1/charges/{id}/capture";
    assert!(matches(capture, "/v1/charges/ch_1/capture"));
    assert!(!matches(capture, "/v1/charges//capture"));
    assert!(!matches(capture, "/v1/charges/a/b/capture"));
    assert!(!matches(capture, "/v1/charges/ch_1/capture/"));
    assert!(!route(capture).matches(&Method::PATCH, &RequestPath::new("/v1/charges/a/capture")));
}

#[test]
fn no_other_spelling_leads_around_a_route() {
    for path in
        ["/v1/%6Frders", "/v1/./orders", "/v1/x/../orders", "/%76%31/orders", "/v1/%2e/orders"]
    {
        assert!(matches("POST /v1/orders", path), "{path}");
    }
    for path in ["/v1/orders/", "/v1%2Forders", "/v1//orders", "/v1/Orders", "/v1/%zzorders"] {
        assert!(!matches("POST /v1/orders", path), "{path}");
    }
    assert!(matches("POST /a%2Fb", "/a%2fb"));
}

#[test]
fn a_malformed_match_is_refused() {
    for (text, error) in [
        ("/v1/orders", RouteError::Form),
        ("POST v1/orders", RouteError::Form),
        ("GET /v1/orders", RouteError::Method),
        ("POST /v1/{id", RouteError::Brace),
        ("POST /v1/x{id}", RouteError::Brace),
        ("POST /v1/{}", RouteError::Brace),
        ("POST /v1/orders?x=1", RouteError::Path),
        ("POST /v1//orders", RouteError::Path),
        ("POST /v1/../orders", RouteError::Path),
        ("POST /v1/%6Frders", RouteError::Path),
        ("POST /v1/or ders", RouteError::Path),
    ] {
        assert_eq!(Route::parse(text), Err(error), "{text}");
    }
    assert!(Route::parse("POST /").is_ok());
    assert!(Route::parse("POST /orders/").is_ok());
}

#[test]
fn routes_are_ambiguous_when_neither_is_more_literal() {
    let ambiguous = |left, right| route(left).ambiguous_with(&route(right));
    assert!(ambiguous("POST /a/{x}", "POST /a/{y}"));
    assert!(ambiguous("POST /a/{x}", "POST /{x}/b"));
    assert!(!ambiguous("POST /a/{x}", "POST /a/b"));
    assert!(!ambiguous("POST /a/{x}", "PATCH /a/{x}"));
    assert!(!ambiguous("POST /a/{x}", "POST /a/{x}/c"));
    assert!(!ambiguous("POST /a/{x}", "POST /a/"));
    assert!(!ambiguous("POST /a/{x}", "POST /b/{x}"));
}

#[test]
fn an_unlisted_operation_is_named_by_method_and_path() {
    assert_eq!(parse_unlisted("POST /v1/x"), Some((Method::POST, "/v1/x")));
    for name in ["orders", "GET /v1/x", "POST v1", "POST /a b", "POST /a?b=c"] {
        assert_eq!(parse_unlisted(name), None, "{name}");
    }
}
