//! The admin API: what `/v1/admin` and the paths under it answer to those who look after the
//! cluster.
//!
//! Its calls see every tenant's records, so they take an admin's token and never a tenant's key.

use std::time::Instant;

use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use protocol::{RecordName, Scope};
use serde::Deserialize;

use super::Api;
use super::claims::{DECIDE_WITHIN, read_body};
use super::shown::unnamed_operation;
use crate::config::{AdminSettings, Isolate, KEY_MAX, Matched, Policy, Role};
use crate::judge::Judge;
use crate::problem::Problem;
use crate::record_key::RecordKey;
use crate::sub_account;

mod cluster;
mod digest;
mod look;
mod settle;
#[cfg(test)]
mod tests;

pub(super) use cluster::{status, transfer};
pub(super) use digest::digest;
pub(super) use look::{get, list};
pub(super) use settle::{forget, resolve};

/// A call by a verified admin, its body read.
struct Call<'a> {
    policy: &'a Policy,
    admin: &'a AdminSettings,
    body: Bytes,
    /// Until when it should be decided.
    deadline: Instant,
}

impl<'a> Call<'a> {
    async fn receive<J>(api: &'a Api<J>, request: Request, needed: Role) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let admin = api.admins.authenticate(&head.headers, needed)?;
        let body = read_body(body).await?;
        Ok(Self { policy: &api.policy, admin, body, deadline: Instant::now() + DECIDE_WITHIN })
    }
}

/// Which record is meant: by the id that a list gives, or by what its tenant calls it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    record: Option<String>,
    tenant: Option<String>,
    /// Where keys are isolated by credential.
    credential: Option<String>,
    operation: Option<String>,
    key: Option<String>,
    /// Where keys belong to sub-accounts: a JSON list of texts.
    sub_account: Option<String>,
}

/// A record's name, and what it is made of.
struct Target<'a> {
    name: RecordName,
    scope: Scope,
    key: String,
    matched: Matched<'a>,
}

impl Wanted {
    fn find<'a>(&self, policy: &'a Policy) -> Result<Target<'a>, Problem> {
        match (&self.record, &self.tenant, &self.operation, &self.key) {
            (Some(id), None, None, None)
                if self.credential.is_none() && self.sub_account.is_none() =>
            {
                named(policy, from_id(id)?)
            }
            (None, Some(tenant), Some(operation), Some(key)) => {
                let matched = policy.of_record(operation);
                let key = RecordKey::given(matched.operation, key, KEY_MAX as usize)?;
                let isolated = matched.operation.isolate == Isolate::Credential;
                if isolated != self.credential.is_some() {
                    return Err(Problem::invalid(match isolated {
                        true => "this operation's keys are isolated: give \"credential\" as well",
                        false => "this operation's keys are not isolated by \"credential\"",
                    }));
                }
                let credential = self.credential.as_deref().unwrap_or_default();
                let fields = &matched.operation.scope_by;
                let sub_account = sub_account::listed(fields, self.sub_account.as_deref())?;
                let scope = matched.scope(tenant, credential, sub_account);
                let name = key.name(&scope);
                if name.is_too_long() {
                    return Err(not_an_id());
                }
                Ok(Target { name, scope, key: key.text(), matched })
            }
            _ => Err(Problem::invalid(
                "say which record: give \"record\", or \"tenant\", \"operation\" and \"key\"",
            )),
        }
    }
}

impl<'a> Target<'a> {
    /// Looks up whose a record is, where its name leaves the operation open: an outcome is held
    /// against the settings of the operation that it is one of.
    async fn learn_operation<J: Judge>(
        &mut self,
        policy: &'a Policy,
        judge: &J,
        deadline: Instant,
    ) -> Result<(), Problem> {
        if self.scope.operation.is_none() {
            let found = judge.read(&self.name, deadline).await?;
            if let Some(operation) = found.record.as_ref().and_then(unnamed_operation) {
                self.matched = policy.of_record(operation);
            }
        }
        Ok(())
    }
}

fn named(policy: &Policy, name: RecordName) -> Result<Target<'_>, Problem> {
    if name.is_too_long() {
        return Err(not_an_id());
    }
    let (scope, key) = name.parts().ok_or_else(not_an_id)?;
    let matched = policy.of_record(scope.operation.as_deref().unwrap_or_default());
    Ok(Target { name, scope, key, matched })
}

/// The id of a record, for those who may see its key.
fn id(name: &RecordName) -> String {
    URL_SAFE_NO_PAD.encode(name.as_bytes())
}

fn from_id(id: &str) -> Result<RecordName, Problem> {
    URL_SAFE_NO_PAD.decode(id).map(RecordName::from_bytes).map_err(|_| not_an_id())
}

fn not_an_id() -> Problem {
    Problem::invalid("\"record\" is not the id of a record")
}
