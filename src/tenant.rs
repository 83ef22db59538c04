//! Who asks: a tenant, from a verified credential and nothing else.
//!
//! Three things prove a tenant: an API key, a JSON Web Token of the issuer that the policy names,
//! and a header that a trusted gateway set. Where a trusted gateway speaks, nobody else is heard:
//! `Authorization` then belongs to the upstream. An API key and a token come in the same header, so
//! there is never a choice between them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use protocol::Timestamp;
use sha2::{Digest, Sha256};

use token::{Bearer, TOKEN_BYTES_MAX, TokenVerifier};

use crate::config::{Policy, TrustedHeader};
use crate::problem::{Code, Problem};

pub(crate) use key_set::KeySet;

mod key_file;
mod key_set;
mod token;
mod trusted;

/// The longest API key that is looked at, in bytes: longer ones are not worth a digest.
const KEY_BYTES_MAX: usize = 512;

/// What the credential's name of a token's subject begins with. No configured credential's does.
const JWT_PREFIX: &str = "jwt:";

/// The credential's name of everybody for whom the trusted gateway speaks.
const TRUSTED_CREDENTIAL: &str = "trusted-header";

/// Who may ask, and how they prove themselves.
///
/// A look-up of an API key takes the SHA-256 of what was sent, so the time it takes says something
/// about digests only, from which nobody gets back to a key: no comparison needs to take constant
/// time.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    shared: Arc<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the digest of the API key.
    credentials: HashMap<[u8; 32], Credential>,
    names: HashSet<Arc<str>>,
    tokens: Option<TokenVerifier>,
    trusted_header: Option<TrustedHeader>,
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
    /// The credential's name within the tenant: the configured one of an API key, `jwt:` and the
    /// subject of a token, `trusted-header` for all for whom the trusted gateway speaks.
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
    /// The tenants of a policy. The file of keys that it names is followed from now on.
    pub fn new(policy: &Policy) -> Self {
        let mut known = Known {
            tokens: policy.auth.jwt.as_ref().map(TokenVerifier::new),
            trusted_header: policy.auth.trusted_header.clone(),
            ..Known::default()
        };
        for tenant in &policy.tenants {
            let name: Arc<str> = tenant.name.as_str().into();
            known.names.insert(Arc::clone(&name));
            for credential in &tenant.credentials {
                let identity = Identity {
                    tenant: Arc::clone(&name),
                    credential: credential.name.as_str().into(),
                };
                let (gateway, claims) = (credential.gateway, credential.claims);
                let credential_of_key = Credential { identity, gateway, claims };
                known.credentials.insert(credential.api_key_sha256, credential_of_key);
            }
        }
        Self { shared: Arc::new(known) }
    }

    /// The caller that a request's headers prove at `now`.
    ///
    /// # Errors
    /// `unauthenticated` when they prove nobody; `forbidden` when the credential may not be used
    /// for this.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        wanted: Use,
        now: Timestamp,
    ) -> Result<Identity, Problem> {
        let caller = match self.trusted(headers)? {
            Some(caller) => caller,
            None => self.bearer(headers, now).await?,
        };
        let (allowed, use_name) = match wanted {
            Use::Gateway => (caller.gateway, "gateway"),
            Use::Claims => (caller.claims, "claims"),
        };
        if !allowed {
            let detail = format!("the credential may not be used for \"{use_name}\"");
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(caller.identity)
    }

    /// The caller for whom the trusted gateway speaks, where it does.
    fn trusted(&self, headers: &HeaderMap) -> Result<Option<Credential>, Problem> {
        let Some(header) = &self.shared.trusted_header else { return Ok(None) };
        let Some(named) = trusted::tenant(header, headers)? else { return Ok(None) };
        let tenant = str::from_utf8(named).ok().and_then(|name| self.tenant(name));
        let tenant = tenant.ok_or_else(|| unauthenticated("the tenant is not known"))?;
        Ok(Some(gateway_only(tenant, TRUSTED_CREDENTIAL.into())))
    }

    /// The caller of the API key or the token in `Authorization`.
    async fn bearer(&self, headers: &HeaderMap, now: Timestamp) -> Result<Credential, Problem> {
        let secret = bearer(headers)?;
        if secret.len() <= KEY_BYTES_MAX {
            let digest: [u8; 32] = Sha256::digest(secret).into();
            if let Some(credential) = self.shared.credentials.get(&digest) {
                return Ok(credential.clone());
            }
        }
        let token = str::from_utf8(secret).ok().filter(|it| it.matches('.').count() == 2);
        let (Some(tokens), Some(token)) = (&self.shared.tokens, token) else {
            return Err(unauthenticated("the API key is not known"));
        };
        let verified = tokens.verify(token, now).await;
        let Bearer { tenant, subject } =
            verified.map_err(|error| unauthenticated(&error.to_string()))?;
        let tenant = self.tenant(&tenant);
        let tenant = tenant.ok_or_else(|| unauthenticated("the token's tenant is not known"))?;
        Ok(gateway_only(tenant, format!("{JWT_PREFIX}{subject}").into()))
    }

    /// The configured tenant of this name.
    fn tenant(&self, name: &str) -> Option<Arc<str>> {
        self.shared.names.get(name).cloned()
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

/// Whether no configured credential may have this name, since others have.
pub(crate) fn is_reserved(credential: &str) -> bool {
    credential == TRUSTED_CREDENTIAL || credential.starts_with(JWT_PREFIX)
}

/// A caller that is no configured credential. Its tenant's own clients stand behind it, and what
/// the claims API stores is answered to all of them: that takes a credential made for it.
fn gateway_only(tenant: Arc<str>, credential: Arc<str>) -> Credential {
    Credential { identity: Identity { tenant, credential }, gateway: true, claims: false }
}

/// SHA-256 of the secret that the one `Authorization: Bearer` line brings.
///
/// # Errors
/// `unauthenticated` without exactly one such line.
pub(crate) fn bearer_digest(headers: &HeaderMap) -> Result<[u8; 32], Problem> {
    let secret = bearer(headers)?;
    if secret.len() > KEY_BYTES_MAX {
        return Err(unauthenticated("the secret is too long"));
    }
    Ok(Sha256::digest(secret).into())
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
    if key.is_empty() || key.len() > TOKEN_BYTES_MAX {
        return Err(unauthenticated("the credential is empty or too long"));
    }
    Ok(key)
}

pub(crate) fn unauthenticated(detail: &str) -> Problem {
    Problem::new(Code::Unauthenticated, detail)
}

#[cfg(test)]
pub(crate) use tests::issuer;

#[cfg(test)]
mod tests;
