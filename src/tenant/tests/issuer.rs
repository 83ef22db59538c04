//! An issuer of tokens. Its private keys lie in `tests/keys` and protect nothing.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "payments";

/// The time of the tests, in seconds: 2023-11-14T22:13:20Z.
pub(crate) const NOW: u64 = 1_700_000_000;

/// One of the issuer's keys.
pub(crate) struct Key {
    algorithm: Algorithm,
    private: EncodingKey,
}

impl Key {
    pub(crate) fn rsa() -> Self {
        let private = EncodingKey::from_rsa_der(include_bytes!("../../../tests/keys/rsa.der"));
        Self { algorithm: Algorithm::RS256, private }
    }

    pub(crate) fn ec() -> Self {
        let private = EncodingKey::from_ec_der(include_bytes!("../../../tests/keys/ec.der"));
        Self { algorithm: Algorithm::ES256, private }
    }

    pub(crate) fn ed() -> Self {
        let private = EncodingKey::from_ed_der(include_bytes!("../../../tests/keys/ed.der"));
        Self { algorithm: Algorithm::EdDSA, private }
    }

    /// The public key as an issuer publishes it.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.private, self.algorithm).unwrap();
        with(serde_json::to_value(jwk).unwrap(), "kid", json!(kid))
    }

    pub(crate) fn sign(&self, kid: Option<&str>, claims: &Value) -> String {
        self.sign_as(self.algorithm, kid, claims)
    }

    /// Signs with another algorithm of the key's kind.
    pub(crate) fn sign_as(&self, as_: Algorithm, kid: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(as_) };
        encode(&header, claims, &self.private).unwrap()
    }
}

/// What the issuer says of a caller of the tenant `acme`.
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tid": "acme", "exp": NOW + 300 })
}

/// A set of these keys.
pub(crate) fn jwks(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

pub(crate) fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

pub(crate) fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().unwrap().remove(name);
    object
}
