use std::net::Ipv6Addr;

use super::*;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

fn caller(tenant_header: Option<&HeaderName>) -> Caller<'_> {
    static NO_AUTH: AuthSettings = AuthSettings { jwt: None, trusted_header: None };
    Caller {
        address: CLIENT,
        tenant: Some("acme"),
        tenant_header,
        authorization: true,
        auth: &NO_AUTH,
        read: Vec::new(),
    }
}

fn lines<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

/// Many servers hand `X-Tenant` and `X_Tenant` to a program under one name.
#[test]
fn a_client_cannot_speak_for_the_gateway_by_underscores() {
    let client = headers(&[
        ("idempotency_fence", "999"),
        ("Idempotency_Attempt", "7"),
        ("idempotency_key", "other"),
        ("x_tenant", "other"),
        ("x_forwarded_for", "1.2.3.4"),
        ("x_forwarded-proto", "https"),
        ("my_own", "1"),
    ]);
    let tenant = HeaderName::from_static("x-tenant");
    let sent = request_headers(&client, &caller(Some(&tenant)));
    let odd: Vec<_> = sent.keys().map(HeaderName::as_str).filter(|it| it.contains('_')).collect();
    assert_eq!(odd, ["my_own"]);
    assert_eq!(lines(&sent, "x-tenant"), ["acme"]);
}

#[test]
fn a_client_cannot_name_another_account_by_underscores() {
    let client = headers(&[("stripe_account", "b"), ("stripe-account", "a"), ("my_own", "1")]);
    let read = HeaderName::from_static("stripe-account");
    let sent = request_headers(&client, &Caller { read: vec![&read], ..caller(None) });
    assert_eq!(lines(&sent, "stripe-account"), ["a"]);
    assert!(lines(&sent, "stripe_account").is_empty());
    assert_eq!(lines(&sent, "my_own"), ["1"]);
}

#[test]
fn fields_about_the_connection_stay_on_it() {
    let client = headers(&[
        ("host", "shop"),
        ("connection", "close, X-Hop"),
        ("connection", "x-other"),
        ("x-hop", "1"),
        ("x-other", "1"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("proxy-authorization", "Basic x"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("accept", "a/b"),
        ("accept", "c/d"),
        ("cookie", "a=b"),
        ("authorization", "Bearer k"),
    ]);
    let sent = request_headers(&client, &caller(None));
    let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let wanted = [
        "accept",
        "authorization",
        "cookie",
        "forwarded",
        "host",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    assert_eq!(names, wanted);
    assert_eq!(lines(&sent, "accept"), ["a/b", "c/d"]);
    assert_eq!(lines(&sent, "host"), ["shop"]);
}

#[test]
fn a_client_cannot_speak_for_the_gateway() {
    let client = headers(&[
        ("idempotency-fence", "9"),
        ("idempotency-attempt", "9"),
        ("x-tenant", "other"),
        ("x-tenant", "third"),
    ]);
    let tenant_header = HeaderName::from_static("x-tenant");
    let sent = request_headers(&client, &caller(Some(&tenant_header)));
    assert_eq!(lines(&sent, "x-tenant"), ["acme"]);
    assert!(lines(&sent, "idempotency-fence").is_empty());
    assert!(lines(&sent, "idempotency-attempt").is_empty());

    let nobody = Caller { tenant: None, ..caller(Some(&tenant_header)) };
    assert!(lines(&request_headers(&client, &nobody), "x-tenant").is_empty());
}

#[test]
fn a_tenant_header_named_in_connection_is_still_the_gateways_own() {
    let client = headers(&[("connection", "x-tenant, x-forwarded-for"), ("x-tenant", "other")]);
    let tenant_header = HeaderName::from_static("x-tenant");
    let sent = request_headers(&client, &caller(Some(&tenant_header)));
    assert_eq!(lines(&sent, "x-tenant"), ["acme"]);
    assert_eq!(lines(&sent, "x-forwarded-for"), ["192.0.2.7"]);
}

#[test]
fn authorization_is_forwarded_unless_the_policy_drops_it() {
    let client = headers(&[("authorization", "Bearer k")]);
    assert_eq!(lines(&request_headers(&client, &caller(None)), "authorization"), ["Bearer k"]);
    let dropping = Caller { authorization: false, ..caller(None) };
    assert!(lines(&request_headers(&client, &dropping), "authorization").is_empty());
}

#[test]
fn the_way_of_a_request_is_told_after_what_was_told_before() {
    let client = headers(&[
        ("host", "shop:8080"),
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-for", "198.51.100.2"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("forwarded", "for=198.51.100.1"),
        ("via", "1.1 cdn"),
    ]);
    let sent = request_headers(&client, &caller(None));
    assert_eq!(lines(&sent, "x-forwarded-for"), ["198.51.100.1, 198.51.100.2, 192.0.2.7"]);
    assert_eq!(lines(&sent, "x-forwarded-proto"), ["https"]);
    assert_eq!(lines(&sent, "x-forwarded-host"), ["shop.example"]);
    let forwarded = "for=198.51.100.1, for=192.0.2.7;proto=http;host=\"shop:8080\"";
    assert_eq!(lines(&sent, "forwarded"), [forwarded]);
    assert_eq!(lines(&sent, "via"), ["1.1 cdn, 1.1 oncegate"]);
}

#[test]
fn an_ipv6_client_is_quoted_where_the_syntax_asks_for_it() {
    let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let sent = request_headers(&HeaderMap::new(), &Caller { address, ..caller(None) });
    assert_eq!(lines(&sent, "x-forwarded-for"), ["::1"]);
    assert_eq!(lines(&sent, "forwarded"), ["for=\"[::1]\";proto=http"]);
}

fn attempt(fence: u64, generation: u64) -> Attempt {
    let (fence, generation) = (Fence::new(0, fence), Fence::new(0, generation));
    Attempt { fence, generation, attempt_no: 2 }
}

/// The client's own key is to be found nowhere in what the upstream gets.
#[test]
fn a_derived_key_stands_wherever_the_client_sent_its_own() {
    let own = HeaderName::from_static("x-request-key");
    let scope = protocol::Scope {
        tenant: "acme".into(),
        sub_account: Vec::new(),
        credential: None,
        operation: None,
    };
    let key = protocol::IdempotencyKey::from_text("secret-key", 255).unwrap();
    let name = RecordName::new(&scope, &key);
    let sent = |generation| {
        let client = [("x-request-key", "secret-key"), ("x-other", "1")];
        let mut sent = headers(&client);
        let headers = vec![KEY, own.clone(), HeaderName::from_static("x-absent")];
        let key = ForwardedKey::Derived { name: name.clone(), headers };
        protect(&mut sent, &Protected { key, attempt: attempt(7, generation) }, 0);
        sent
    };
    let first = sent(5);
    let derived = lines(&first, "idempotency-key");
    assert_eq!(derived, lines(&first, "x-request-key"));
    assert_eq!(derived[0].len(), 36);
    assert!(!first.contains_key("x-absent"));
    assert!(first.values().all(|value| !value.to_str().unwrap().contains("secret")));
    assert_ne!(derived, lines(&sent(6), "idempotency-key"), "another generation, another key");
}

#[test]
fn a_protected_request_says_what_its_grant_is() {
    let mut sent = headers(&[("accept-encoding", "gzip"), ("idempotency-key", "\"k\"")]);
    let key = ForwardedKey::Raw(HeaderValue::from_static("\"k\""));
    let protected = Protected { key, attempt: attempt(7, 5) };
    protect(&mut sent, &protected, 0);
    assert_eq!(lines(&sent, "idempotency-key"), ["\"k\""]);
    assert_eq!(lines(&sent, "idempotency-fence"), ["7"]);
    assert_eq!(lines(&sent, "idempotency-attempt"), ["2"]);
    assert_eq!(lines(&sent, "accept-encoding"), ["identity"]);
    assert_eq!(lines(&sent, "content-length"), ["0"]);
}

#[test]
fn an_upstream_cannot_speak_for_the_gateway() {
    let answer = headers(&[
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("idempotent-replayed", "true"),
        ("idempotency-outcome", "final"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("location", "/orders/1"),
    ]);
    let seen = answer_headers(answer);
    let mut names: Vec<_> = seen.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["location", "set-cookie"]);
    assert_eq!(lines(&seen, "set-cookie"), ["a=1", "b=2"]);
}

#[test]
fn headers_of_a_trusted_gateway_are_for_us_alone() {
    let name = HeaderName::from_static("x-tenant");
    let auth = AuthSettings {
        jwt: None,
        trusted_header: Some(crate::config::TrustedHeader {
            name: name.clone(),
            secret_header: HeaderName::from_static("x-secret"),
            secret_sha256: [0; 32],
        }),
    };
    let client = headers(&[
        ("x-tenant", "other"),
        ("x-secret", "s"),
        ("x_tenant", "other"),
        ("x_secret", "s"),
        ("x-mine", "1"),
    ]);
    let sent = request_headers(&client, &Caller { auth: &auth, ..caller(None) });
    let left: Vec<_> = sent.keys().map(HeaderName::as_str).filter(|it| it.len() < 9).collect();
    assert_eq!(left.iter().filter(|it| it.contains("tenant") || it.contains("secret")).count(), 0);
    assert_eq!(lines(&sent, "x-mine"), ["1"]);
    let told = request_headers(&client, &Caller { auth: &auth, ..caller(Some(&name)) });
    assert_eq!(lines(&told, "x-tenant"), ["acme"]);
}
