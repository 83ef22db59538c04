//! Who is let in besides by an API key: tokens of an issuer whose keys change, and a trusted
//! gateway.

use std::fs;

use http::Method;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, send};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{run, until};

/// The end of every token of these tests: in the year 2100.
const LATE: u64 = 4_102_444_800;

const AUTH: &str = r#"
[auth.jwt]
issuer = "https://id.example"
audience = "payments"
jwks_file = "jwks.json"
tenant_claim = "tid"

[auth.trusted_header]
name = "X-Tenant"
secret_header = "X-Gateway-Secret"
secret_sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"#;

/// The secret of the trusted gateway.
const SECRET: (&str, &str) = ("x-gateway-secret", "hello");

struct Key(Algorithm, EncodingKey);

impl Key {
    fn rsa() -> Self {
        let private = EncodingKey::from_rsa_der(include_bytes!("../keys/rsa.der"));
        Self(Algorithm::RS256, private)
    }

    fn ed() -> Self {
        Self(Algorithm::EdDSA, EncodingKey::from_ed_der(include_bytes!("../keys/ed.der")))
    }

    /// Makes this the issuer's only key.
    fn publish(&self, cluster: &Cluster, kid: &str) {
        let jwk = Jwk::from_encoding_key(&self.1, self.0).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(kid);
        let new = cluster.folder.path().join("new.json");
        fs::write(&new, json!({ "keys": [jwk] }).to_string()).unwrap();
        fs::rename(new, cluster.folder.path().join("jwks.json")).unwrap();
    }

    fn token(&self, kid: &str, tenant: &str, expires: u64) -> String {
        let claims: Value = json!({
            "iss": "https://id.example", "aud": "payments", "sub": "alice", "tid": tenant,
            "exp": expires,
        });
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(self.0) };
        format!("Bearer {}", encode(&header, &claims, &self.1).unwrap())
    }
}

async fn order(cluster: &Cluster, headers: &[(&str, &str)]) -> Answer {
    let sent: Vec<_> = [("idempotency-key", "k")].iter().chain(headers).copied().collect();
    send(cluster.gateway(0), Method::POST, "/orders", &sent, "{}").await.unwrap()
}

async fn started(upstream: &Upstream) -> Cluster {
    let text = policy(&["a", "b"], "") + AUTH;
    let mut cluster = Setup { nodes: 1, ..Setup::new(text, upstream.address) }.prepare();
    Key::rsa().publish(&cluster, "first");
    cluster.start(0, &[]);
    cluster.ready().await;
    cluster
}

#[test]
fn tokens_prove_a_tenant_while_their_issuers_keys_change() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = started(&upstream).await;
        let (first, second) = (Key::rsa(), Key::ed());
        for (tenant, is_replay) in [("a", false), ("a", true), ("b", false)] {
            let token = first.token("first", tenant, LATE);
            let answer = order(&cluster, &[("authorization", &token)]).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, is_replay), "{tenant}");
        }
        for refused in [
            first.token("first", "nobody", LATE),
            first.token("first", "a", 1_700_000_000),
            second.token("first", "a", LATE),
            second.token("second", "a", LATE),
        ] {
            let answer = order(&cluster, &[("authorization", &refused)]).await;
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (401, "unauthenticated"));
        }
        second.publish(&cluster, "second");
        let (old, new) = (first.token("first", "a", LATE), second.token("second", "a", LATE));
        until("the new key is known", || async {
            order(&cluster, &[("authorization", &new)]).await.is_replay()
        })
        .await;
        until("the old key is refused", || async {
            order(&cluster, &[("authorization", &old)]).await.status == 401
        })
        .await;
        fs::write(cluster.folder.path().join("jwks.json"), "{").unwrap();
        let answer = order(&cluster, &[("authorization", &new)]).await;
        assert!(answer.is_replay(), "a broken file changes nothing: {answer:?}");
        assert_eq!(upstream.ledger().len(), 2);
    });
}

#[test]
fn only_a_trusted_gateway_chooses_the_tenant() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = started(&upstream).await;
        for (tenant, is_replay) in [("a", false), ("b", false), ("a", true), ("b", true)] {
            let answer = order(&cluster, &[("x-tenant", tenant), SECRET]).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, is_replay), "{tenant}");
        }
        let key = format!("Bearer {}", crate::support::policy::api_key("a"));
        let key = ("authorization", key.as_str());
        for headers in [
            &[("x-tenant", "b"), key][..],
            &[("x-tenant", "b"), ("x-gateway-secret", "guess"), key],
            &[("x-tenant", "nobody"), SECRET, key],
            &[SECRET, key],
        ] {
            let answer = order(&cluster, headers).await;
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (401, "unauthenticated"));
        }
        assert_eq!(upstream.ledger().len(), 2);
    });
}
