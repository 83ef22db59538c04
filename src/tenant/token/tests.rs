use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tenant::tests::issuer::{AUDIENCE, ISSUER, Key, NOW, claims, jwks, with, without};

struct Bench {
    verifier: TokenVerifier,
    _folder: TempDir,
}

impl Bench {
    /// A verifier with a key of every kind.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let jwks_file = folder.path().join("jwks.json");
        let keys = [Key::rsa().jwk("rsa"), Key::ec().jwk("ec"), Key::ed().jwk("ed")];
        std::fs::write(&jwks_file, jwks(&keys)).unwrap();
        let settings = JwtSettings {
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            jwks_file,
            tenant_claim: "tid".to_owned(),
        };
        Self { verifier: TokenVerifier::new(&settings), _folder: folder }
    }

    async fn verify(&self, token: &str) -> Result<Bearer, TokenError> {
        self.verifier.verify(token, Timestamp::from_millis(NOW * 1000)).await
    }

    /// What becomes of these claims, rightly signed.
    async fn claims(&self, claims: &Value) -> Result<Bearer, TokenError> {
        self.verify(&Key::ec().sign(Some("ec"), claims)).await
    }
}

fn alice() -> Bearer {
    Bearer { tenant: "acme".to_owned(), subject: "alice".to_owned() }
}

#[tokio::test]
async fn a_token_of_every_kind_of_key_proves_its_tenant_and_subject() {
    let bench = Bench::new();
    for (key, kid) in [(Key::rsa(), "rsa"), (Key::ec(), "ec"), (Key::ed(), "ed")] {
        let token = key.sign(Some(kid), &claims());
        assert_eq!(bench.verify(&token).await, Ok(alice()), "{kid}");
    }
}

#[tokio::test]
async fn a_key_is_used_with_its_own_algorithm_only() {
    let bench = Bench::new();
    let wrong = Err(TokenError::Signature);
    for other in [Algorithm::RS384, Algorithm::RS512, Algorithm::PS256] {
        let token = Key::rsa().sign_as(other, Some("rsa"), &claims());
        assert_eq!(bench.verify(&token).await, wrong, "{other:?}");
    }
    // A key of one kind under the name of another's.
    for (key, kid) in [(Key::ec(), "rsa"), (Key::ed(), "ec"), (Key::rsa(), "ed")] {
        assert_eq!(bench.verify(&key.sign(Some(kid), &claims())).await, wrong, "{kid}");
    }
    // The public key as the secret of a symmetric algorithm.
    let public = serde_json::to_vec(&Key::rsa().jwk("rsa")).unwrap();
    let header = Header { kid: Some("rsa".to_owned()), ..Header::new(Algorithm::HS256) };
    let secret = EncodingKey::from_secret(&public).unwrap();
    let token = encode(&header, &claims(), &secret).unwrap();
    assert_eq!(bench.verify(&token).await, wrong);
}

#[tokio::test]
async fn an_unsigned_token_proves_nothing() {
    let bench = Bench::new();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for algorithm in ["none", "None", "NONE", "nOnE"] {
        let head = part(json!({ "alg": algorithm, "kid": "ec" }));
        let token = format!("{head}.{}.", part(claims()));
        assert_eq!(bench.verify(&token).await, Err(TokenError::Malformed), "{algorithm}");
    }
    let head = part(json!({ "alg": "ES256", "kid": "ec" }));
    let token = format!("{head}.{}.", part(claims()));
    assert_eq!(bench.verify(&token).await, Err(TokenError::Signature));
}

#[tokio::test]
async fn a_token_that_was_changed_proves_nothing() {
    let bench = Bench::new();
    let token = Key::ec().sign(Some("ec"), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let forged = with(claims(), "tid", json!("other")).to_string();
    let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(forged), parts[2]);
    assert_eq!(bench.verify(&forged).await, Err(TokenError::Signature));
    for left in 0..parts[2].len() {
        let cut = format!("{}.{}.{}", parts[0], parts[1], &parts[2][..left]);
        assert!(bench.verify(&cut).await.is_err(), "{left} characters of the signature");
    }
    for malformed in ["", "..", "a.b.c", "e30.e30.e30"] {
        assert_eq!(bench.verify(malformed).await, Err(TokenError::Malformed), "{malformed}");
    }
}

#[tokio::test]
async fn the_key_is_the_issuers_and_never_the_tokens() {
    let bench = Bench::new();
    assert_eq!(bench.verify(&Key::ec().sign(None, &claims())).await, Err(TokenError::Unnamed));
    let unknown = Key::ec().sign(Some("other"), &claims());
    assert_eq!(bench.verify(&unknown).await, Err(TokenError::UnknownKey));
}

#[tokio::test]
async fn a_token_is_good_within_its_time_and_a_little_around_it() {
    let bench = Bench::new();
    let leeway = LEEWAY.get() / 1000;
    let expired = Err(TokenError::Expired);
    for (exp, wanted) in [
        (json!(NOW - leeway), expired.clone()),
        (json!(NOW - leeway + 1), Ok(alice())),
        (json!((NOW - leeway) as f64 + 0.5), Ok(alice())),
        (json!(u64::MAX), Ok(alice())),
        (json!((NOW + 300).to_string()), expired.clone()),
        (json!(null), expired.clone()),
        (json!(-1), expired.clone()),
        (json!([NOW + 300]), Err(TokenError::Malformed)),
    ] {
        assert_eq!(bench.claims(&with(claims(), "exp", exp.clone())).await, wanted, "{exp}");
    }
    assert_eq!(bench.claims(&without(claims(), "exp")).await, expired);
    let early = Err(TokenError::Early);
    for (nbf, wanted) in [
        (json!(NOW + leeway), Ok(alice())),
        (json!(NOW + leeway + 1), early.clone()),
        (json!("soon"), early.clone()),
        (json!(null), early),
    ] {
        assert_eq!(bench.claims(&with(claims(), "nbf", nbf.clone())).await, wanted, "{nbf}");
    }
}

#[tokio::test]
async fn issuer_audience_subject_and_tenant_are_required_as_they_are() {
    let bench = Bench::new();
    let many = json!(["others", AUDIENCE]);
    assert_eq!(bench.claims(&with(claims(), "aud", many)).await, Ok(alice()));
    let long = "s".repeat(SUBJECT_BYTES_MAX + 1);
    for (name, error, values) in [
        ("iss", TokenError::Issuer, [json!("https://id.example/"), json!([ISSUER]), json!(1)]),
        ("aud", TokenError::Audience, [json!("payment"), json!(["x"]), json!({ "payments": 1 })]),
        ("sub", TokenError::Subject, [json!(""), json!(long), json!("a\nb")]),
        ("tid", TokenError::Tenant, [json!(1), json!(["acme"]), json!(null)]),
    ] {
        assert_eq!(bench.claims(&without(claims(), name)).await, Err(error), "{name}");
        for value in values {
            let changed = with(claims(), name, value.clone());
            assert_eq!(bench.claims(&changed).await, Err(error), "{name} {value}");
        }
    }
}
