//! What a caller does under a grant, `renew complete release unknown`, and `revise` after it.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use protocol::{Command, Outcome};

use super::body::{CompleteBody, GrantBody, RenewBody, ResponseBody, ReviseBody, grant, parse};
use super::claim::{lease, rest_of_lease};
use super::{Call, answer, response, submit};
use crate::api::Api;
use crate::judge::Judge;
use crate::problem::Problem;

/// `POST /v1/claims/renew`: asks for more time.
pub(in crate::api) async fn renew<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request).await?;
    let started = Instant::now();
    let body: RenewBody<'_> = parse(&call.body)?;
    let target = call.target(&body.operation, &body.key, body.sub_account.as_deref())?;
    let lease = lease(target.matched.operation, &body.lease)?;
    let grant = grant(body.fence, &body.token)?;
    let command = Command::Renew { name: target.name, grant, lease };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    match &decided.outcome {
        Outcome::Renewed { lease_until } => {
            let rest = rest_of_lease(*lease_until, decided.basis.time, started);
            Ok(answer::renewed(grant.fence, rest))
        }
        _ => Err(answer::refused(&decided, target.matched.operation)),
    }
}

/// `POST /v1/claims/complete`: says how the work ended.
pub(in crate::api) async fn complete<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request).await?;
    let body: CompleteBody<'_> = parse(&call.body)?;
    let target = call.target(&body.operation, &body.key, body.sub_account.as_deref())?;
    let grant = grant(body.fence, &body.token)?;
    let response = match (body.response, body.json) {
        (Some(response), None) => response,
        // A bare document stands for a plain success with it.
        (None, Some(json)) => {
            ResponseBody { status: 200, headers: vec![], body_base64: None, json: Some(json) }
        }
        _ => return Err(Problem::invalid("give one of \"response\" and \"json\"")),
    };
    let response = response::stored(target.matched.operation, &response)?;
    let command = Command::Complete { name: target.name, grant, response };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    match &decided.outcome {
        Outcome::Completed => Ok(answer::state("completed")),
        _ => Err(answer::refused(&decided, target.matched.operation)),
    }
}

/// `POST /v1/claims/release`: gives the grant back, since nothing was executed.
pub(in crate::api) async fn release<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request).await?;
    let body: GrantBody<'_> = parse(&call.body)?;
    let target = call.target(&body.operation, &body.key, body.sub_account.as_deref())?;
    let grant = grant(body.fence, &body.token)?;
    let command = Command::Release { name: target.name, grant };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    match &decided.outcome {
        Outcome::Released => Ok(answer::state("released")),
        _ => Err(answer::refused(&decided, target.matched.operation)),
    }
}

/// `POST /v1/claims/unknown`: gives up, since the work may have been executed.
pub(in crate::api) async fn unknown<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request).await?;
    let body: GrantBody<'_> = parse(&call.body)?;
    let target = call.target(&body.operation, &body.key, body.sub_account.as_deref())?;
    let grant = grant(body.fence, &body.token)?;
    let command = Command::Unknown { name: target.name, grant };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    match &decided.outcome {
        Outcome::Unknown { takeover: true } => Ok(answer::state("claimable")),
        Outcome::Unknown { takeover: false } => Ok(answer::state("indeterminate")),
        _ => Err(answer::refused(&decided, target.matched.operation)),
    }
}

/// `POST /v1/claims/revise`: says that the outcome has changed since it was stored.
pub(in crate::api) async fn revise<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request).await?;
    let body: ReviseBody<'_> = parse(&call.body)?;
    let target = call.target(&body.operation, &body.key, body.sub_account.as_deref())?;
    let response = response::stored(target.matched.operation, &body.response)?;
    let operation = target.matched.unnamed_operation();
    let command = Command::Revise { name: target.name, operation, response };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    match &decided.outcome {
        Outcome::Revised { revision } => Ok(answer::revised(*revision)),
        _ => Err(answer::refused(&decided, target.matched.operation)),
    }
}
