//! Who a gateway believes: a trusted gateway in front of it, and tokens.

use std::fs;

use super::client::{Served, keyed};
use super::stub::Stub;
use crate::tenant::issuer::{AUDIENCE, ISSUER, Key, claims, jwks, with};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";

/// A trusted gateway whose secret is `hello`.
pub(super) const TRUSTED: &str = r#"
[auth.trusted_header]
name = "X-Tenant"
secret_header = "X-Gateway-Secret"
secret_sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

[[tenant]]
name = "other"
credentials = []
"#;

/// A head by which the trusted gateway speaks for a tenant.
pub(super) fn trusted(line: &str, tenant: &str, key: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nx-tenant: {tenant}\r\nx-gateway-secret: hello\r\nidempotency-key: {key}"
    )
}

#[tokio::test]
async fn a_trusted_gateway_speaks_for_tenants_and_the_upstream_gets_authorization() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, TRUSTED).await;
    for tenant in ["acme", "other"] {
        let head = trusted("POST /orders", tenant, "k") + "\r\nauthorization: Basic of-upstream";
        for is_replay in [false, true] {
            let got = served.ask(&head, "{}").await;
            assert_eq!((got.status(), got.is_replay()), (201, is_replay), "{tenant}");
        }
    }
    let seen = stub.seen();
    assert_eq!(seen.len(), 2);
    for one in &seen {
        assert_eq!(one.one("authorization"), Some("Basic of-upstream"));
        assert_eq!((one.one("x-tenant"), one.one("x-gateway-secret")), (None, None));
    }
}

#[tokio::test]
async fn a_client_never_chooses_its_tenant() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, TRUSTED).await;
    for lines in [
        "x-tenant: other",
        "x-tenant: acme",
        "x-tenant: other\r\nx-gateway-secret: guess",
        "x-gateway-secret: hello",
        "x-tenant: other\r\nx-tenant: acme\r\nx-gateway-secret: hello",
        "x-tenant: nobody\r\nx-gateway-secret: hello",
    ] {
        // Its own good API key does not help a request that wants to be believed otherwise.
        let head = format!("{}\r\n{lines}", keyed("POST /orders", "k"));
        let got = served.ask(&head, "{}").await;
        assert_eq!(got.problem(), (401, "unauthenticated".into()), "{lines}");
    }
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn the_upstream_never_sees_the_headers_of_a_trusted_gateway() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, TRUSTED).await;
    let claimed = "x-tenant: other\r\nx-gateway-secret: hello\r\nx_tenant: other\r\n\
                   x-gateway_secret: hello";
    for line in ["GET /orders", "POST /orders", "PUT /orders/1"] {
        let got = served.ask(&format!("{line} HTTP/1.1\r\n{claimed}"), "").await;
        assert_eq!(got.status(), 201);
    }
    // Nor when they are wrong: what passes through is not looked at.
    let wrong = "GET /orders HTTP/1.1\r\nx-tenant: other\r\nx-gateway-secret: wrong";
    assert_eq!(served.ask(wrong, "").await.status(), 201);
    let seen = stub.seen();
    assert_eq!(seen.len(), 4);
    for one in seen {
        let head = one.head.to_ascii_lowercase().replace('_', "-");
        assert!(!head.contains("x-tenant") && !head.contains("x-gateway-secret"), "{head}");
    }
}

#[tokio::test]
async fn the_upstream_may_be_told_the_tenant_under_the_same_name() {
    let stub = Stub::answering(CREATED).await;
    let defaults = "[defaults]\nforward = { tenant_header = \"X-Tenant\" }\n";
    let served = Served::new(&stub, &format!("{defaults}{TRUSTED}")).await;
    assert_eq!(served.ask(&trusted("POST /orders", "other", "k"), "{}").await.status(), 201);
    assert_eq!(served.keyed("POST /orders", "k", "{}").await.status(), 201);
    let unverified = "GET /orders HTTP/1.1\r\nx-tenant: other\r\nx-gateway-secret: hello";
    assert_eq!(served.ask(unverified, "").await.status(), 201);
    let tenants: Vec<_> =
        stub.seen().iter().map(|one| one.one("x-tenant").map(str::to_owned)).collect();
    assert_eq!(tenants, [Some("other".to_owned()), Some("acme".to_owned()), None]);
}

#[tokio::test]
async fn a_token_is_a_credential_of_its_subject() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    fs::write(&file, jwks(&[Key::ec().jwk("k")])).unwrap();
    let policy = format!(
        "[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\ntenant_claim = \"tid\"\n\
         jwks_file = \"{}\"\n[[operation]]\nmatch = \"POST /apart\"\nisolate = \"credential\"\n",
        file.display()
    );
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, &policy).await;
    let head = |path: &str, subject: &str| {
        let token = Key::ec().sign(Some("k"), &with(claims(), "sub", subject.into()));
        format!("POST {path} HTTP/1.1\r\nauthorization: Bearer {token}\r\nidempotency-key: k")
    };
    for (path, subject, is_replay) in [
        ("/shared", "alice", false),
        ("/shared", "bob", true),
        ("/apart", "alice", false),
        ("/apart", "bob", false),
        ("/apart", "web", false),
        ("/apart", "alice", true),
    ] {
        let got = served.ask(&head(path, subject), "{}").await;
        assert_eq!((got.status(), got.is_replay()), (201, is_replay), "{path} {subject}");
    }
    // The credential `web` of the tenant is another one than the subject `web`.
    let got = served.keyed("POST /apart", "k", "{}").await;
    assert_eq!((got.status(), got.is_replay()), (201, false));
    let expired = Key::ec().sign(Some("k"), &with(claims(), "exp", 1.into()));
    let head = format!("POST /shared HTTP/1.1\r\nauthorization: Bearer {expired}\r\n");
    let got = served.ask(&(head + "idempotency-key: k"), "{}").await;
    assert_eq!(got.problem(), (401, "unauthenticated".into()));
}
