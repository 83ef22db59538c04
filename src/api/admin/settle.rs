//! Settles records: what became of an execution, and that an outcome is to be forgotten.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use cluster::{Certainty, SubmitError};
use protocol::command::Verdict;
use protocol::record::{Record, Resolution};
use protocol::{Command, Decided, Fence, Outcome, Timestamp};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Target, Wanted};
use crate::api::Api;
use crate::api::claims::DECIDE_WITHIN;
use crate::api::claims::answer::rendered;
use crate::api::claims::body::{ResponseBody, parse};
use crate::api::claims::response;
use crate::api::claims::submit;
use crate::api::shown::{shown, time};
use crate::config::Role;
use crate::judge::Judge;
use crate::problem::{Code, Executed, Problem};

/// The longest reason, in bytes: it is kept in the record, with up to 32 others.
const REASON_MAX: usize = 500;

/// The body of `resolve`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveBody<'a> {
    record: Option<String>,
    tenant: Option<String>,
    credential: Option<String>,
    operation: Option<String>,
    key: Option<String>,
    sub_account: Option<String>,
    fence: u64,
    #[serde(borrow)]
    verdict: Cow<'a, str>,
    #[serde(borrow)]
    response: Option<ResponseBody<'a>>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(default)]
    force: bool,
}

/// The body of `forget`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetBody<'a> {
    record: Option<String>,
    tenant: Option<String>,
    credential: Option<String>,
    operation: Option<String>,
    key: Option<String>,
    sub_account: Option<String>,
    fence: u64,
    #[serde(borrow)]
    reason: Cow<'a, str>,
}

/// `POST /v1/admin/records/resolve`: says what became of an execution.
pub(in crate::api) async fn resolve<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request, Role::Operator).await?;
    let body: ResolveBody<'_> = parse(&call.body)?;
    let ResolveBody {
        record,
        tenant,
        credential,
        operation,
        key,
        sub_account,
        fence,
        verdict,
        response,
        reason,
        force,
    } = body;
    let mut target =
        Wanted { record, tenant, credential, operation, key, sub_account }.find(call.policy)?;
    target.learn_operation(call.policy, &api.judge, call.deadline).await?;
    let verdict = match (&*verdict, response) {
        ("released", None) => Verdict::Released,
        ("completed", Some(response)) => {
            Verdict::Completed(response::stored(target.matched.operation, &response)?)
        }
        ("released", Some(_)) => return Err(Problem::invalid("a release has no \"response\"")),
        ("completed", None) => {
            return Err(Problem::invalid("\"completed\" needs the \"response\" to store"));
        }
        _ => return Err(Problem::invalid("\"verdict\" must be \"completed\" or \"released\"")),
    };
    let decree = Decree { verdict, reason: reason_of(&reason)?, force };
    let settled = decree.settle(&api.judge, &call, &target, Fence::from_number(fence)).await?;
    tracing::info!(
        by = call.admin.name,
        tenant = target.scope.tenant,
        operation = %target.matched.name,
        fence,
        verdict = decree.word(),
        reason = decree.reason,
        force,
        "record resolved"
    );
    Ok(rendered(&json!({ "state": decree.word(), "fence": settled.as_number() })))
}

/// `POST /v1/admin/records/forget`: removes a completed record; the key is free a few seconds
/// later.
pub(in crate::api) async fn forget<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request, Role::Operator).await?;
    let body: ForgetBody<'_> = parse(&call.body)?;
    let ForgetBody { record, tenant, credential, operation, key, sub_account, fence, reason } =
        body;
    let reason = reason_of(&reason)?;
    let target =
        Wanted { record, tenant, credential, operation, key, sub_account }.find(call.policy)?;
    let (name, seen) = (target.name.clone(), Fence::from_number(fence));
    // It may come twice, so it is repeated when an answer is lost.
    let command = Command::Forget { name, fence: seen };
    let decided = submit::command(&api.judge, command, call.deadline).await?;
    let Outcome::Forgotten { until } = decided.outcome else {
        return Err(refused(&api.judge, &target, &decided, None).await);
    };
    tracing::info!(
        by = call.admin.name,
        tenant = target.scope.tenant,
        operation = %target.matched.name,
        fence,
        reason,
        "record forgotten"
    );
    let free_in_ms = until.since(decided.basis.time).get();
    Ok(rendered(&json!({ "state": "forgotten", "free_in_ms": free_in_ms })))
}

/// What an admin decides.
struct Decree<'a> {
    verdict: Verdict,
    reason: &'a str,
    force: bool,
}

impl Decree<'_> {
    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Completed(_) => "completed",
            Verdict::Released => "released",
        }
    }

    /// Has it decided, and returns the fence that it took.
    async fn settle<J: Judge>(
        &self,
        judge: &J,
        call: &Call<'_>,
        target: &Target<'_>,
        fence: Fence,
    ) -> Result<Fence, Problem> {
        let command = Command::Resolve {
            name: target.name.clone(),
            fence,
            verdict: self.verdict.clone(),
            by: call.admin.name.clone(),
            reason: self.reason.to_owned(),
            force: self.force,
        };
        match judge.submit(command, call.deadline).await {
            Ok(Decided { outcome: Outcome::Resolved { fence }, .. }) => Ok(fence),
            Ok(decided) => Err(refused(judge, target, &decided, Some(self)).await),
            Err(error) if error.certainty() == Certainty::Definite => Err(error.into()),
            Err(error) => self.look_for_it(judge, call, target, fence, error).await,
        }
    }

    /// Whether it was decided though its answer was lost: repeating it would meet its own effect.
    async fn look_for_it<J: Judge>(
        &self,
        judge: &J,
        call: &Call<'_>,
        target: &Target<'_>,
        seen: Fence,
        error: SubmitError,
    ) -> Result<Fence, Problem> {
        let unclear = || Problem::from(error.clone()).with_executed(Executed::Unknown);
        let found = judge.read(&target.name, Instant::now() + DECIDE_WITHIN).await;
        let record = found.map_err(|_| unclear())?.record;
        let history = match &record {
            Some(Record::Live(generation)) => &generation.history[..],
            Some(Record::Tombstone(tombstone)) => &tombstone.history[..],
            None => &[],
        };
        let ours = |it: &&Resolution| {
            it.by == call.admin.name
                && it.reason == self.reason
                && it.released == matches!(self.verdict, Verdict::Released)
                && it.fence > seen
        };
        history.last().filter(ours).map(|it| it.fence).ok_or_else(unclear)
    }
}

fn reason_of(reason: &str) -> Result<&str, Problem> {
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > REASON_MAX || reason.contains(char::is_control) {
        let rule = format!("\"reason\" must be 1 to {REASON_MAX} bytes of text in one line");
        return Err(Problem::invalid(rule));
    }
    Ok(reason)
}

/// The problem of a command that changed nothing, with what the record is now.
async fn refused<J: Judge>(
    judge: &J,
    target: &Target<'_>,
    decided: &Decided,
    decree: Option<&Decree<'_>>,
) -> Problem {
    let found = judge.read(&target.name, Instant::now() + DECIDE_WITHIN).await;
    let (now, record) = match found {
        Ok(found) => (found.basis.time, found.record),
        Err(_) => (decided.basis.time, None),
    };
    let Some(record) = record.as_ref().filter(|record| shown(now, record).is_some()) else {
        return Problem::new(Code::NotFound, "there is no record of this key");
    };
    match decided.outcome {
        Outcome::Stale { .. } => Problem::new(
            Code::StaleFence,
            "the record has moved on since it was looked at: look at it again; nothing was changed",
        ),
        _ => conflict(now, record, decree),
    }
}

fn conflict(now: Timestamp, record: &Record, decree: Option<&Decree<'_>>) -> Problem {
    let drained = match (record, record.indeterminate_since()) {
        (Record::Live(generation), Some(_)) => Some(generation.drained_at()),
        _ => None,
    };
    let early = drained.filter(|at| *at > now);
    let detail = match (early, decree) {
        (Some(at), Some(_)) => format!(
            "what the last holder sent may still be executing until {}; a release is refused until \
             then unless it is forced",
            time(at)
        ),
        (_, Some(_)) => "only an indeterminate record can be resolved".to_owned(),
        (_, None) => "only a completed record can be forgotten".to_owned(),
    };
    Problem::new(Code::StateConflict, detail)
}
