//! `POST /v1/claims`: asks to be the one who executes.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use protocol::fingerprint::OutlineKey;
use protocol::lease::LEASE_MIN;
use protocol::record::{OnUnknown, Retention, Terms};
use protocol::{Basis, Claim, HolderId, Millis, Outcome, Timestamp, Token};

use super::body::{ClaimBody, duration, parse};
use super::{Call, answer, subject, submit, target};
use crate::api::{Api, metrics};
use crate::config::{Operation, duration_text};
use crate::judge::Judge;
use crate::problem::Problem;

/// The longest attempt id in bytes: room for two UUIDs and a host name.
const ATTEMPT_MAX: usize = 128;

/// `POST /v1/claims`: claims a key for an attempt of the caller's.
pub(in crate::api) async fn claim<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive_claim(&api, request).await?;
    let started = Instant::now();
    let body: ClaimBody<'_> = parse(&call.body)?;
    let key = |operation: &Operation| subject::record_key(&body, operation);
    let target = target(call.policy, &call.identity, &body.operation, key, |fields| {
        subject::sub_account(&body, fields)
    })?;
    let operation = target.matched.operation;
    if body.attempt.is_empty() || body.attempt.len() > ATTEMPT_MAX {
        let detail = format!("\"attempt\" must be 1 to {ATTEMPT_MAX} bytes, chosen by the client");
        return Err(Problem::invalid(detail));
    }
    let key = OutlineKey::new(&api.judge.outline_secret(), &target.name);
    let subject = subject::of(&body, key)?;
    let print = subject.print(&operation.fingerprint)?;
    let mut claim = Claim {
        holder: HolderId::of(&call.identity.qualified(), body.attempt.as_bytes()),
        seen: Basis::default(),
        print,
        lease: match &body.lease {
            Some(text) => lease(operation, text)?,
            None => operation.lease,
        },
        terms: terms(operation, &body)?,
        token: Token::new(rand::random()),
        operation: target.matched.unnamed_operation(),
        name: target.name,
    };
    let replay = operation.replay;
    let decided = submit::claim(&api.judge, &mut claim, &subject, replay, call.deadline).await?;
    metrics::decided(started.elapsed());
    let now = decided.basis.time;
    match decided.outcome {
        Outcome::Granted { grant, attempt_no, lease_until, .. } => {
            metrics::granted();
            let rest = rest_of_lease(lease_until, now, started);
            Ok(answer::granted(&grant, attempt_no, rest))
        }
        Outcome::Replay(replay) => {
            metrics::replayed();
            answer::replayed(operation, *replay, now)
        }
        Outcome::Reused { stored } => Err(Problem::reused(subject.differences(&stored))),
        _ => Err(answer::refused(&decided, operation)),
    }
}

/// What is left of a lease that was asked for at `started` and decided at shard time `now`. It is
/// counted from before the command was sent, so that nobody believes in a lease that is over.
pub(super) fn rest_of_lease(until: Timestamp, now: Timestamp, started: Instant) -> Millis {
    let elapsed = started.elapsed().as_micros().div_ceil(1000);
    until.since(now).minus(Millis::new(u64::try_from(elapsed).unwrap_or(u64::MAX)))
}

/// A lease that a caller asks for: long enough to be of use, and no longer than an execution may
/// take.
///
/// # Errors
/// When it is neither.
pub(super) fn lease(operation: &Operation, text: &str) -> Result<Millis, Problem> {
    let lease = duration("lease", text)?;
    if lease < LEASE_MIN || lease > operation.max_execution {
        return Err(Problem::invalid(format!(
            "\"lease\" must be {} to {}, the operation's max_execution",
            duration_text(LEASE_MIN),
            duration_text(operation.max_execution)
        )));
    }
    Ok(lease)
}

/// The terms of the claim: the operation's, or stricter ones. A caller may ask for less retention,
/// down to what the policy would allow as well, but not for more than the operator has planned for.
fn terms(operation: &Operation, body: &ClaimBody<'_>) -> Result<Terms, Problem> {
    let mut terms = operation.terms();
    if let Some(text) = &body.retention {
        let wanted = duration("retention", text)?;
        let allowed = match terms.retention {
            Retention::For(most) => wanted <= most,
            Retention::Forever => true,
        };
        if !allowed || wanted < operation.retention_min {
            return Err(Problem::invalid(format!(
                "\"retention\" must be {} to the operation's retention",
                duration_text(operation.retention_min)
            )));
        }
        terms.retention = Retention::For(wanted);
    }
    match (body.on_unknown.as_deref(), terms.on_unknown) {
        (None, _) => {}
        (Some("fail_closed"), _) => terms.on_unknown = OnUnknown::FailClosed,
        (Some("takeover"), OnUnknown::Takeover { .. }) => {}
        (Some("takeover"), OnUnknown::FailClosed) => {
            return Err(Problem::invalid(
                "\"on_unknown\" may only be stricter than the operation's \"fail_closed\"",
            ));
        }
        (Some(_), _) => {
            return Err(Problem::invalid("\"on_unknown\" must be \"fail_closed\" or \"takeover\""));
        }
    }
    Ok(terms)
}
