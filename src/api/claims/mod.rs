//! The claims API: `/v1/claims` and what lies under it.
//!
//! A service that runs its work itself claims a key, works, and completes. Every call may be
//! repeated as it is: a claim with the same attempt gets the same grant back, and a command with
//! the same grant does what it did or changes nothing (a grant that was given back is
//! `stale-fence`).

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use protocol::RecordName;

use super::Api;
use crate::config::{Field, Matched, Operation, Policy};
use crate::judge::Judge;
use crate::problem::{Code, Problem};
use crate::record_key::RecordKey;
use crate::sub_account;
use crate::tenant::{Identity, Use};

pub(super) mod answer;
pub(super) mod body;
mod claim;
mod grant;
mod lookup;
pub(super) mod response;
mod subject;
pub(super) mod submit;
#[cfg(test)]
pub(super) mod tests;

pub(super) use claim::claim;
pub(super) use grant::{complete, release, renew, revise, unknown};
pub(super) use lookup::read;

/// The largest request body: the largest stored response, in Base64, with room for its headers.
const BODY_MAX: usize = 2 * 1024 * 1024;

/// How long a client may take to send its body.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a call tries to be decided. A new leader takes two seconds; whoever has waited twice
/// that is told to come again.
pub(super) const DECIDE_WITHIN: Duration = Duration::from_secs(5);

/// A call by a verified caller, its body read.
struct Call<'a> {
    policy: &'a Policy,
    identity: Identity,
    body: Bytes,
    /// Until when it should be decided.
    deadline: Instant,
}

impl<'a> Call<'a> {
    /// A call that asks for a grant: it counts against its tenant's rate.
    async fn receive_claim<J: Judge>(api: &'a Api<J>, request: Request) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let identity = caller(api, &head.headers).await?;
        api.rates.admit(&identity.tenant)?;
        Self::read(api, identity, body).await
    }

    /// A call under a grant, or about a record: it is never refused for being one too many, since
    /// work that is done must be recorded.
    async fn receive<J: Judge>(api: &'a Api<J>, request: Request) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let identity = caller(api, &head.headers).await?;
        Self::read(api, identity, body).await
    }

    /// Reads the body, once the credential is known: nobody unknown has one read.
    async fn read<J>(api: &'a Api<J>, identity: Identity, body: Body) -> Result<Self, Problem> {
        let body = read_body(body).await?;
        Ok(Self { policy: &api.policy, identity, body, deadline: Instant::now() + DECIDE_WITHIN })
    }

    /// The operation and the record that the caller names.
    fn target(
        &self,
        operation: &str,
        key: &str,
        sub_account: Option<&[String]>,
    ) -> Result<Target<'a>, Problem> {
        target(self.policy, &self.identity, operation, key_given(key), |fields| {
            sub_account::given(fields, sub_account.unwrap_or_default())
        })
    }
}

/// Whoever calls, as the headers prove.
async fn caller<J: Judge>(api: &Api<J>, headers: &HeaderMap) -> Result<Identity, Problem> {
    api.tenants.authenticate(headers, Use::Claims, api.judge.wall()).await
}

/// The whole body of a call.
///
/// # Errors
/// When it is too large, too slow, or broken.
pub(super) async fn read_body(body: Body) -> Result<Bytes, Problem> {
    let whole = Limited::new(body, BODY_MAX).collect();
    match tokio::time::timeout(BODY_TIME_MAX, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is larger than {BODY_MAX} bytes");
            Err(Problem::new(Code::BodyTooLarge, detail))
        }
        Ok(Err(_)) => Err(Problem::invalid("the body broke off or is malformed")),
        Err(_elapsed) => Err(Problem::new(Code::BodyTimeout, "the body did not come in time")),
    }
}

/// What a call is about.
struct Target<'a> {
    matched: Matched<'a>,
    name: RecordName,
}

fn target<'a>(
    policy: &'a Policy,
    identity: &Identity,
    operation: &str,
    key: impl FnOnce(&Operation) -> Result<RecordKey, Problem>,
    sub_account: impl FnOnce(&[Field]) -> Result<Vec<String>, Problem>,
) -> Result<Target<'a>, Problem> {
    let matched = policy.named(operation).ok_or_else(|| {
        Problem::invalid("\"operation\" is not the name of an operation that this policy protects")
    })?;
    let key = key(matched.operation)?;
    let sub_account = sub_account(&matched.operation.scope_by)?;
    let scope = matched.scope(&identity.tenant, &identity.credential, sub_account);
    let name = key.name(&scope);
    Ok(Target { matched, name })
}

/// The key that a caller names.
fn key_given(text: &str) -> impl FnOnce(&Operation) -> Result<RecordKey, Problem> {
    |operation| RecordKey::given(operation, text, operation.key_max)
}
