//! Who asks: a tenant, from a verified credential and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use crate::config::Policy;
use crate::problem::{Code, Problem};

/// The longest API key that is looked at, in bytes: longer ones are not worth a digest.
const KEY_BYTES_MAX: usize = 512;

/// Every credential of the policy, by the digest of its API key.
///
/// A look-up takes the SHA-256 of what was sent, so the time it takes says something about digests
/// only, from which nobody gets back to a key: no comparison needs to take constant time.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    credentials: Arc<HashMap<[u8; 32], Credential>>,
}

/// One credential and what it may be used for.
#[derive(Clone, Debug)]
struct Credential {
    identity: Identity,
    gateway: bool,
    claims: bool,
}

/// A verified caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The tenant's name.
    pub tenant: Arc<str>,
    /// The credential's name within the tenant.
    pub credential: Arc<str>,
}

/// What a credential is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Calls through the gateway.
    Gateway,
    /// The claims API.
    Claims,
}

impl Tenants {
    /// The credentials of a policy.
    pub fn new(policy: &Policy) -> Self {
        let mut credentials = HashMap::new();
        for tenant in &policy.tenants {
            let name: Arc<str> = tenant.name.as_str().into();
            for credential in &tenant.credentials {
                let identity = Identity {
                    tenant: Arc::clone(&name),
                    credential: credential.name.as_str().into(),
                };
                let (gateway, claims) = (credential.gateway, credential.claims);
                credentials
                    .insert(credential.api_key_sha256, Credential { identity, gateway, claims });
            }
        }
        Self { credentials: Arc::new(credentials) }
    }

    /// The caller that the one `Authorization: Bearer KEY` line proves.
    ///
    /// # Errors
    /// `unauthenticated` without exactly one such line with a known key; `forbidden` when the
    /// credential may not be used for this.
    pub fn authenticate(&self, headers: &HeaderMap, wanted: Use) -> Result<&Identity, Problem> {
        let Some(credential) = self.credentials.get(&bearer_digest(headers)?) else {
            return Err(unauthenticated("the API key is not known"));
        };
        let (allowed, use_name) = match wanted {
            Use::Gateway => (credential.gateway, "gateway"),
            Use::Claims => (credential.claims, "claims"),
        };
        if !allowed {
            let detail = format!("the credential may not be used for \"{use_name}\"");
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(&credential.identity)
    }
}

impl Identity {
    /// The credential's name within the cluster: tenant and credential, each prefixed by its
    /// length, so that no two pairs are the same bytes.
    pub fn qualified(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.tenant.len() + self.credential.len());
        for part in [&self.tenant, &self.credential] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

/// SHA-256 of the secret that the one `Authorization: Bearer` line brings.
///
/// # Errors
/// `unauthenticated` without exactly one such line.
pub(crate) fn bearer_digest(headers: &HeaderMap) -> Result<[u8; 32], Problem> {
    Ok(Sha256::digest(bearer(headers)?).into())
}

/// The secret of the one `Authorization: Bearer` line.
fn bearer(headers: &HeaderMap) -> Result<&[u8], Problem> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let Some(line) = lines.next() else {
        return Err(unauthenticated("no Authorization header"));
    };
    if lines.next().is_some() {
        return Err(unauthenticated("more than one Authorization header"));
    }
    let (scheme, rest) = line.as_bytes().split_at(line.len().min("Bearer ".len()));
    if !scheme.eq_ignore_ascii_case(b"Bearer ") {
        return Err(unauthenticated("the Authorization header is not of the form: Bearer KEY"));
    }
    let key = rest.trim_ascii();
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(unauthenticated("the API key is empty or too long"));
    }
    Ok(key)
}

pub(crate) fn unauthenticated(detail: &str) -> Problem {
    Problem::new(Code::Unauthenticated, detail)
}

#[cfg(test)]
mod tests;
