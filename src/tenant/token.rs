//! JSON Web Tokens (RFC 7519) of the one issuer that the policy names.
//!
//! Only RS256, ES256 and EdDSA are taken, each with keys of its own kind: the key, found by `kid`,
//! says which. Time is an argument; the claims are checked here, each of them required but `nbf`.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use protocol::{Millis, Timestamp};
use serde_json::{Map, Value};
use thiserror::Error;

use super::key_file::KeyFile;
use crate::config::JwtSettings;

/// The longest token that is looked at, in bytes: as long as servers let a header line be.
pub(super) const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// By how much the issuer's clock and ours may differ.
const LEEWAY: Millis = Millis::from_secs(30);

/// The longest subject in bytes: OpenID Connect allows 255.
const SUBJECT_BYTES_MAX: usize = 255;

/// Verifies the tokens of one issuer.
#[derive(Debug)]
pub(super) struct TokenVerifier {
    settings: JwtSettings,
    keys: KeyFile,
}

/// What a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bearer {
    /// The tenant that the token names. It need not be one of ours.
    pub(super) tenant: String,
    /// Who the issuer says the caller is.
    pub(super) subject: String,
}

/// Why a token is refused. Nothing of the token stands in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum TokenError {
    /// It is no signed token, or a part of it cannot be read.
    #[error("the token is malformed")]
    Malformed,
    /// It does not name its key.
    #[error("the token names no key (kid)")]
    Unnamed,
    /// The key that it names is not one of the issuer's.
    #[error("the token's key is not known")]
    UnknownKey,
    /// It is signed by another algorithm than its key is for, by another key, or it was changed.
    #[error("the token's signature or algorithm is not its key's")]
    Signature,
    /// It is over.
    #[error("the token has expired, or does not say when it does")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    Early,
    /// Somebody else made it.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// It does not say who the caller is.
    #[error("the token needs a subject (sub) of 1 to {SUBJECT_BYTES_MAX} printable bytes")]
    Subject,
    /// It does not say which tenant the caller belongs to.
    #[error("the token names no tenant")]
    Tenant,
}

impl TokenVerifier {
    /// A verifier with the keys of the settings' file, which it follows from now on.
    pub(super) fn new(settings: &JwtSettings) -> Self {
        let keys = KeyFile::follow(settings.jwks_file.clone());
        Self { settings: settings.clone(), keys }
    }

    /// What `token` proves at `now`.
    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Result<Bearer, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        let kid = header.kid.ok_or(TokenError::Unnamed)?;
        let key = self.keys.key(&kid).await.ok_or(TokenError::UnknownKey)?;
        let claims = decode::<Map<String, Value>>(token, &key.key, &signature_only(key.algorithm));
        let claims = claims.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => TokenError::Signature,
            _ => TokenError::Malformed,
        })?;
        self.check(&claims.claims, now)
    }

    fn check(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Bearer, TokenError> {
        let instant = |name: &str| claims.get(name).map(|value| value.as_f64());
        let seconds = |at: Timestamp| at.as_millis() as f64 / 1000.0;
        let (early, late) = (now.minus(LEEWAY).unwrap_or(Timestamp::ZERO), now.plus(LEEWAY));
        // Anything that is not a number fails both comparisons.
        if !instant("exp").flatten().is_some_and(|exp| seconds(early) < exp) {
            return Err(TokenError::Expired);
        }
        if !instant("nbf").is_none_or(|nbf| nbf.is_some_and(|nbf| nbf <= seconds(late))) {
            return Err(TokenError::Early);
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(self.settings.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        if !claims.get("aud").is_some_and(|aud| is_for(aud, &self.settings.audience)) {
            return Err(TokenError::Audience);
        }
        let subject = text("sub").filter(|it| is_subject(it)).ok_or(TokenError::Subject)?;
        let tenant = text(&self.settings.tenant_claim).ok_or(TokenError::Tenant)?;
        Ok(Bearer { tenant: tenant.to_owned(), subject: subject.to_owned() })
    }
}

/// Checks the signature by this algorithm and nothing else: the library would read a clock of its
/// own, and takes a list of issuers for one.
fn signature_only(algorithm: jsonwebtoken::Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

/// Whether an `aud` names us: it is one text or a list of them (RFC 7519, 4.1.3).
fn is_for(aud: &Value, audience: &str) -> bool {
    let is_us = |value: &Value| value.as_str() == Some(audience);
    aud.as_array().map_or_else(|| is_us(aud), |list| list.iter().any(is_us))
}

fn is_subject(subject: &str) -> bool {
    (1..=SUBJECT_BYTES_MAX).contains(&subject.len()) && !subject.contains(char::is_control)
}

#[cfg(test)]
mod tests;
