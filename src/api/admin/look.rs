//! Looks at records: one by its name, and those that wait to be settled.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Query, Request, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster::Unsettled;
use protocol::{RecordName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Target, Wanted, id, named};
use crate::api::Api;
use crate::api::claims::DECIDE_WITHIN;
use crate::api::claims::answer::rendered;
use crate::api::shown::{ShownRecord, shown, time, unnamed_operation};
use crate::config::Role;
use crate::judge::Judge;
use crate::problem::{Code, Problem};

/// How many records a list has when nobody says, and at most.
const LIST_DEFAULT: usize = 50;
const LIST_MAX: usize = 100;

/// What is listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    limit: Option<usize>,
    after: Option<String>,
}

/// A list, and where the next one begins.
#[derive(Debug, Serialize)]
struct List<'a> {
    records: Vec<Item<'a>>,
    /// `null`: there are no more.
    next: Option<String>,
}

/// A record that waits to be settled.
#[derive(Debug, Serialize)]
struct Item<'a> {
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    record: ShownRecord<'a>,
    /// Until when a release is refused unless it is forced.
    releasable_at: Option<String>,
}

/// What a record is called.
#[derive(Debug, Serialize)]
struct Named<'a> {
    record: String,
    tenant: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    sub_account: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'a str>,
    operation: Option<&'a str>,
    key: &'a str,
}

/// `GET /v1/admin/record`: the record, read through the log.
pub(in crate::api) async fn get<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    api.admins.authenticate(request.headers(), Role::Viewer)?;
    let Query(wanted) = Query::<Wanted>::try_from_uri(request.uri())
        .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))?;
    let target = wanted.find(&api.policy)?;
    let found = api.judge.read(&target.name, Instant::now() + DECIDE_WITHIN).await?;
    let record = found.record.as_ref();
    match record.and_then(|record| item(&target, found.basis.time, record)) {
        Some(item) => Ok(rendered(&item)),
        None => Err(Problem::new(Code::NotFound, "there is no record of this key")),
    }
}

/// `GET /v1/admin/records`: the indeterminate records of all tenants, those that wait longest
/// first.
pub(in crate::api) async fn list<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    api.admins.authenticate(request.headers(), Role::Viewer)?;
    let Query(listed) = Query::<Listed>::try_from_uri(request.uri())
        .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))?;
    let limit = listed.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("\"limit\" must be 1 to {LIST_MAX}")));
    }
    let after = listed.after.as_deref().map(from_cursor).transpose()?;
    let deadline = Instant::now() + DECIDE_WITHIN;
    let found = api.judge.unsettled(after, limit, deadline).await?;
    let next = found.last().filter(|_| found.len() == limit).map(cursor);
    let targets: Vec<_> =
        found.iter().map(|it| named(&api.policy, it.name.clone())).collect::<Result<_, _>>()?;
    let records = found.iter().zip(&targets);
    let records = records.filter_map(|(it, target)| item(target, it.since, &it.record)).collect();
    Ok(rendered(&List { records, next }))
}

fn item<'a>(
    target: &'a Target<'_>,
    now: Timestamp,
    record: &'a protocol::Record,
) -> Option<Item<'a>> {
    let releasable_at = match record {
        protocol::Record::Live(generation) => {
            record.indeterminate_since().map(|_| time(generation.drained_at()))
        }
        protocol::Record::Tombstone(_) => None,
    };
    let mut named = target.named();
    named.operation = named.operation.or(unnamed_operation(record));
    Some(Item { named, record: shown(now, record)?, releasable_at })
}

impl Target<'_> {
    fn named(&self) -> Named<'_> {
        Named {
            record: id(&self.name),
            tenant: &self.scope.tenant,
            sub_account: &self.scope.sub_account,
            credential: self.scope.credential.as_deref(),
            operation: self.scope.operation.as_deref(),
            key: &self.key,
        }
    }
}

/// Where the list after this record begins.
fn cursor(last: &Unsettled) -> String {
    let since = last.since.as_millis().to_be_bytes();
    URL_SAFE_NO_PAD.encode([&since, last.name.as_bytes()].concat())
}

fn from_cursor(cursor: &str) -> Result<(Timestamp, RecordName), Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let parts = bytes.as_deref().and_then(|bytes| bytes.split_first_chunk());
    let (since, name) =
        parts.ok_or_else(|| Problem::invalid("\"after\" is not what a list said is next"))?;
    let since = Timestamp::from_millis(u64::from_be_bytes(*since));
    let name = RecordName::from_bytes(name.to_vec());
    if name.is_too_long() {
        return Err(Problem::invalid("\"after\" is not what a list said is next"));
    }
    Ok((since, name))
}
