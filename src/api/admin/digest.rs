//! Whether replicas are equal: a digest of what the asked node holds of a shard.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::response::Response;
use cluster::ShardId;
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::api::claims::answer::rendered;
use crate::config::Role;
use crate::judge::Judge;
use crate::problem::{Code, Problem};

/// Which shard is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    shard: u16,
}

/// `GET /v1/admin/cluster/digest?shard=`: a digest of all that the asked node holds of a shard. Two
/// nodes whose `applied_index` is the same must have the same.
pub(in crate::api) async fn digest<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    api.admins.authenticate(request.headers(), Role::Viewer)?;
    let Query(Wanted { shard }) = Query::<Wanted>::try_from_uri(request.uri())
        .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))?;
    let Some(found) = api.judge.digest(ShardId(shard)).await? else {
        return Err(Problem::new(Code::NotFound, "there is no such shard in this process"));
    };
    let digest = found.digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(rendered(&json!({
        "shard": shard, "applied_index": found.applied_index, "digest": digest,
    })))
}
