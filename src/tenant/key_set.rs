//! An issuer's public keys: a JWK Set (RFC 7517), read strictly.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use thiserror::Error;

/// The largest file that is read: room for the keys of a large issuer with their certificates.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The most keys in a set: issuers publish a handful.
const KEYS_MAX: usize = 64;

/// The longest name of a key in bytes, as long as any digest is spelled.
const KID_BYTES_MAX: usize = 256;

/// Lengths of an RSA modulus in bytes: RS256 asks for 2048 bits (RFC 7518, 3.3), and what is longer
/// than 4096 costs more time to verify with than a caller may be given.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// The keys by which an issuer's tokens can be verified, by their `kid`.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet {
    keys: HashMap<String, Arc<VerifyingKey>>,
}

/// A public key, and the only algorithm that it may be used with.
pub(super) struct VerifyingKey {
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Why a file holds no keys.
#[derive(Debug, Error)]
pub(crate) enum KeySetError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is larger than any set.
    #[error("is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// It is not a JWK Set.
    #[error("is not a JWK Set: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has more keys than any set.
    #[error("has more than {KEYS_MAX} keys")]
    TooMany,
    /// Nobody can tell which of two keys is meant.
    #[error("has two keys of one \"kid\" that could be used")]
    Ambiguous,
    /// None of its keys can be used.
    #[error(
        "has no key that can be used: one needs a \"kid\" and must be RSA of 2048 to 4096 bits \
         (RS256), EC P-256 (ES256) or OKP Ed25519 (EdDSA)"
    )]
    Empty,
}

/// A set as it is published.
#[derive(Deserialize)]
struct Published {
    keys: Vec<Jwk>,
}

/// One key as it is published. What is not read here does not matter for verifying.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is not a JWK Set, or nothing in it can be used.
    pub(crate) fn read(path: &Path) -> Result<Self, KeySetError> {
        let mut text = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(KeySetError::TooLarge);
        }
        Self::parse(&text)
    }

    /// Reads a set. Keys of other kinds or for other purposes are left out, since an issuer may
    /// well publish some.
    ///
    /// # Errors
    /// When it is not a JWK Set, or nothing in it can be used.
    fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let published: Published = serde_json::from_slice(text)?;
        if published.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let mut keys = HashMap::new();
        for jwk in published.keys {
            let Some((kid, key)) = jwk.usable() else { continue };
            if keys.insert(kid, Arc::new(key)).is_some() {
                return Err(KeySetError::Ambiguous);
            }
        }
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys }) }
    }

    /// The key of this name.
    pub(super) fn get(&self, kid: &str) -> Option<Arc<VerifyingKey>> {
        self.keys.get(kid).cloned()
    }
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyingKey({:?})", self.algorithm)
    }
}

impl Jwk {
    /// The key with its name, where a token can be verified with it. The algorithm follows from the
    /// key and never from a token, so that no token can have it used with another one.
    fn usable(self) -> Option<(String, VerifyingKey)> {
        let verifies = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let kid = self.kid.clone().filter(|kid| (1..=KID_BYTES_MAX).contains(&kid.len()))?;
        let (algorithm, names, key) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (Algorithm::RS256, &["RS256"][..], self.rsa()?),
            ("EC", Some("P-256")) => (Algorithm::ES256, &["ES256"][..], self.ec()?),
            // RFC 9864 gives EdDSA on this curve a name of its own.
            ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, &["EdDSA", "Ed25519"][..], self.ed()?),
            _ => return None,
        };
        let meant = self.alg.as_deref().is_none_or(|alg| names.contains(&alg));
        (verifies && meant).then_some((kid, VerifyingKey { algorithm, key }))
    }

    fn rsa(&self) -> Option<DecodingKey> {
        let (n, e) = (self.n.as_deref()?, self.e.as_deref()?);
        let modulus = URL_SAFE_NO_PAD.decode(n).ok()?;
        let length = modulus.len() - modulus.iter().take_while(|byte| **byte == 0).count();
        RSA_BYTES.contains(&length).then(|| DecodingKey::from_rsa_components(n, e).ok())?
    }

    fn ec(&self) -> Option<DecodingKey> {
        DecodingKey::from_ec_components(self.x.as_deref()?, self.y.as_deref()?).ok()
    }

    fn ed(&self) -> Option<DecodingKey> {
        DecodingKey::from_ed_components(self.x.as_deref()?).ok()
    }
}

#[cfg(test)]
mod tests;
