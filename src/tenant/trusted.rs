//! The tenant as a trusted gateway names it, with the secret that proves the gateway.

use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::unauthenticated;
use crate::config::TrustedHeader;
use crate::problem::Problem;

/// The tenant that a trusted gateway names; `None` where the request has neither of its headers.
///
/// The secret is compared by its digest: the time that takes says something about digests only,
/// from which nobody gets back to the secret.
///
/// # Errors
/// `unauthenticated` when one header is missing, when one comes twice, or when the secret is wrong:
/// whoever sends them wants to be believed, so that nothing else in the request counts instead.
pub(super) fn tenant<'a>(
    trusted: &TrustedHeader,
    headers: &'a HeaderMap,
) -> Result<Option<&'a [u8]>, Problem> {
    let named = one_line(headers, &trusted.name)?;
    let secret = one_line(headers, &trusted.secret_header)?;
    match (named, secret) {
        (None, None) => Ok(None),
        (Some(tenant), Some(secret)) => {
            let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
            if digest != trusted.secret_sha256 {
                return Err(unauthenticated("the gateway's secret is not right"));
            }
            Ok(Some(tenant.as_bytes()))
        }
        (Some(_), None) => Err(unauthenticated("the tenant comes without the gateway's secret")),
        (None, Some(_)) => Err(unauthenticated("the gateway's secret comes without a tenant")),
    }
}

fn one_line<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next();
    match lines.next() {
        None => Ok(line),
        Some(_) => Err(unauthenticated("a header of the trusted gateway comes more than once")),
    }
}
