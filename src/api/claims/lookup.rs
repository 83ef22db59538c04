//! `GET /v1/claims`: a record as its tenant sees it.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Query, Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::answer::rendered;
use super::{DECIDE_WITHIN, caller, key_given, target};
use crate::api::Api;
use crate::api::shown::{ShownRecord, shown, unnamed_operation};
use crate::judge::Judge;
use crate::problem::{Code, Problem};
use crate::sub_account;

/// What is looked up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    operation: String,
    key: String,
    /// A JSON list of texts.
    sub_account: Option<String>,
}

/// A record with what its tenant calls it.
#[derive(Debug, Serialize)]
struct Named<'a> {
    operation: &'a str,
    key: &'a str,
    #[serde(flatten)]
    record: ShownRecord<'a>,
}

/// `GET /v1/claims?operation=&key=`: reads the record of a key through the log.
pub(in crate::api) async fn read<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let identity = caller(&api, request.headers()).await?;
    let Query(wanted) = Query::<Wanted>::try_from_uri(request.uri())
        .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))?;
    let key = key_given(&wanted.key);
    let target = target(&api.policy, &identity, &wanted.operation, key, |fields| {
        sub_account::listed(fields, wanted.sub_account.as_deref())
    })?;
    let found = api.judge.read(&target.name, Instant::now() + DECIDE_WITHIN).await?;
    let shown = found.record.as_ref().and_then(|record| shown(found.basis.time, record));
    let Some(shown) = shown else {
        return Err(Problem::new(Code::NotFound, "there is no record of this key"));
    };
    // An operation may share its keys with others: the record says whose this one is.
    let operation = found.record.as_ref().and_then(unnamed_operation);
    let operation = operation.unwrap_or(&target.matched.name);
    Ok(rendered(&Named { operation, key: &wanted.key, record: shown }))
}
