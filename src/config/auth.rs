//! Reads `[auth]`: how callers prove their tenant besides by an API key.

use std::ops::Range;
use std::path::{Path, PathBuf};

use http::HeaderName;

use super::finding::Findings;
use super::policy::{Keys, digest, only_one};
use super::section::{Located, Section};
use super::{Field, Operation, operation};
use crate::tenant::KeySet;

/// The longest issuer, audience or claim name in bytes: a long URL.
const TEXT_MAX: usize = 1024;

/// `[auth]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Which JSON Web Tokens are taken; `None`: none.
    pub jwt: Option<JwtSettings>,
    /// The header in which a trusted gateway names the tenant; `None`: no header does.
    pub trusted_header: Option<TrustedHeader>,
}

/// Whose JSON Web Tokens are taken, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// What the claim `iss` must be.
    pub issuer: String,
    /// What the claim `aud` must be or contain.
    pub audience: String,
    /// The file of the issuer's public keys, a JWK Set (RFC 7517).
    pub jwks_file: PathBuf,
    /// The claim that names the tenant.
    pub tenant_claim: String,
}

/// The header in which a trusted gateway names the tenant, and the one that proves that it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedHeader {
    /// The header that names the tenant.
    pub name: HeaderName,
    /// The header that holds the shared secret.
    pub secret_header: HeaderName,
    /// SHA-256 of the shared secret.
    pub secret_sha256: [u8; 32],
}

impl AuthSettings {
    /// The header fields that only a trusted gateway may set. No upstream sees them.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.trusted_header.iter().flat_map(|it| [&it.name, &it.secret_header])
    }
}

/// Reads `[auth]`. `keys` is every secret so far.
pub(super) fn read(policy: &Section<'_>, keys: &mut Keys) -> Option<AuthSettings> {
    let auth = optional(policy, "auth", |section| {
        let jwt = optional(section, "jwt", jwt);
        let trusted_header = optional(section, "trusted_header", |table| trusted(table, keys));
        section.finish();
        Some(AuthSettings { jwt: jwt?, trusted_header: trusted_header? })
    });
    auth.map(Option::unwrap_or_default)
}

/// Refuses operations that read or write the headers of a trusted gateway: one header would say two
/// things, and is gone before the upstream sees it. Each comes with its place in the file.
pub(super) fn check_headers(
    findings: &Findings<'_>,
    auth: &AuthSettings,
    operations: &[(Range<usize>, &Operation)],
) {
    let Some(trusted) = &auth.trusted_header else { return };
    for (at, operation) in operations {
        let is_key = |name: &HeaderName| operation.headers.contains(name);
        if is_key(&trusted.name) || is_key(&trusted.secret_header) {
            let message = "the header of a key cannot be one of the \"trusted_header\" in [auth]";
            findings.error(at, "forbidden-header", message);
        }
        let scopes = |name: &HeaderName| operation.scope_by.contains(&Field::Header(name.clone()));
        if scopes(&trusted.name) || scopes(&trusted.secret_header) {
            let message = "\"scope_by\" cannot read a header of the \"trusted_header\" in [auth]";
            findings.error(at, "forbidden-header", message);
        }
        // The upstream may be told the tenant in the very header that the trusted gateway uses.
        if operation.forward.tenant_header.as_ref() == Some(&trusted.secret_header) {
            let message = "\"tenant_header\" cannot be the \"secret_header\" in [auth]";
            findings.error(at, "forbidden-header", message);
        }
    }
}

/// A table that may be absent, which is not the same as one that cannot be read.
fn optional<T>(
    section: &Section<'_>,
    name: &'static str,
    read: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Option<Option<T>> {
    match section.table(name) {
        Some(table) => read(&table).map(Some),
        None => (!section.has(name)).then_some(None),
    }
}

fn jwt(section: &Section<'_>) -> Option<JwtSettings> {
    let issuer = text(section, "issuer");
    let audience = text(section, "audience");
    let tenant_claim = text(section, "tenant_claim");
    let jwks_file = text(section, "jwks_file").and_then(|file| key_file(section, &file));
    section.finish();
    Some(JwtSettings {
        issuer: issuer?.value,
        audience: audience?.value,
        jwks_file: jwks_file?,
        tenant_claim: tenant_claim?.value,
    })
}

/// The file of keys, relative to the policy's own. A file that cannot be used now would leave every
/// token refused, so it is read here already.
fn key_file(section: &Section<'_>, file: &Located<String>) -> Option<PathBuf> {
    let folder = section.findings.file().parent().unwrap_or(Path::new(""));
    let path = folder.join(&file.value);
    match KeySet::read(&path) {
        Ok(_) => Some(path),
        Err(error) => {
            let message = format!("\"jwks_file\" \"{}\": {error}", file.value);
            section.findings.error(&file.at, "jwks-file", message);
            None
        }
    }
}

fn trusted(section: &Section<'_>, keys: &mut Keys) -> Option<TrustedHeader> {
    let name = header(section, "name");
    let secret_header = header(section, "secret_header");
    let secret = digest(section, "secret_sha256");
    if let (Some(name), Some(secret)) = (&name, &secret_header)
        && name == secret
    {
        section.wrong_value("secret_header", "must be another header than \"name\"");
    }
    if let Some(secret) = &secret {
        only_one(section, keys, secret, "[auth] \"trusted_header\"".to_owned());
    }
    section.finish();
    Some(TrustedHeader { name: name?, secret_header: secret_header?, secret_sha256: secret?.value })
}

fn text(section: &Section<'_>, name: &'static str) -> Option<Located<String>> {
    let text = section.require(name, section.text(name))?;
    if text.value.is_empty() || text.value.len() > TEXT_MAX {
        section.wrong_value(name, &format!("must be a text of 1 to {TEXT_MAX} bytes"));
        return None;
    }
    Some(text.map(str::to_owned))
}

fn header(section: &Section<'_>, setting: &'static str) -> Option<HeaderName> {
    let text = section.require(setting, section.text(setting))?;
    let name = text.value.parse::<HeaderName>().ok();
    match name.filter(|name| operation::is_free_header(name) && !tells_the_way(name)) {
        Some(name) => Some(name),
        None => {
            let message = format!("\"{}\" cannot be the header of a trusted gateway", text.value);
            section.findings.error(&text.at, "forbidden-header", message);
            None
        }
    }
}

/// Whether a header is one that oncegate itself reads or writes, or that says which way a request
/// took.
fn tells_the_way(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "forwarded" | "via")
        || name.starts_with("x-forwarded-")
        || name.starts_with("idempoten")
}

#[cfg(test)]
mod tests;
