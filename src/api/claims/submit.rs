//! Submits commands until they are decided, by the rules of what may be repeated.

use std::time::{Duration, Instant};

use cluster::{Certainty, SubmitError};
use protocol::fingerprint::Print;
use protocol::{Basis, Claim, Command, Decided, Outcome};

use crate::config::ReplayMode;
use crate::judge::Judge;
use crate::problem::{Executed, Problem};
use crate::subject::Subject;

/// The most copies of one claim, or repeats of one command. Each takes at least a network round
/// trip or [`PAUSE`], so that the deadline ends nearly every call first.
const TRIES_MAX: usize = 64;

/// How long to wait after an answer was lost, so that a connection that breaks at once is not tried
/// in a loop.
const PAUSE: Duration = Duration::from_millis(50);

/// Has a claim about `subject` decided. After an answer that was lost, and after one that says that
/// the copy was too old, a new copy of the same holder goes out: the holder gets the grant that an
/// earlier copy may have got. After one that says that a record which was made by other rules is
/// another request's, the subject is looked at by these; where it is the same, a new copy says so.
///
/// # Errors
/// `shard-unavailable` when it is not decided before `deadline`, `config-mismatch` when it cannot
/// be decided under this process's policy.
pub(super) async fn claim<J: Judge>(
    judge: &J,
    claim: &mut Claim,
    subject: &Subject,
    replay: ReplayMode,
    deadline: Instant,
) -> Result<Decided, Problem> {
    let mut heard: Option<Basis> = None;
    for _ in 0..TRIES_MAX {
        claim.seen = freshest(judge.seen(&claim.name)?, heard);
        // A replica may miss a revision that the log has.
        let applied = match replay {
            ReplayMode::Snapshot => judge.answer_applied(claim),
            _ => None,
        };
        let decided = match applied {
            Some(decided) => Ok(decided),
            None => judge.submit(Command::Claim(claim.clone()), deadline).await,
        };
        match decided {
            Ok(Decided { outcome: Outcome::Superseded, basis }) => heard = Some(basis),
            Ok(decided) => match reprinted(&decided, claim, subject) {
                Some(print) => {
                    claim.print = print;
                    heard = Some(decided.basis);
                }
                None => return Ok(decided),
            },
            Err(error) => wait_or_give_up(error, deadline).await?,
        }
    }
    Err(SubmitError::TimedOut.into())
}

/// Has a command under a grant decided. It does the same however often it is applied, so it is
/// repeated as it is.
///
/// # Errors
/// `shard-unavailable` when it is not decided before `deadline`. The caller has had its grant, so
/// it may have executed.
pub(in crate::api) async fn command<J: Judge>(
    judge: &J,
    command: Command,
    deadline: Instant,
) -> Result<Decided, Problem> {
    for _ in 0..TRIES_MAX {
        match judge.submit(command.clone(), deadline).await {
            Ok(decided) => return Ok(decided),
            Err(error) => wait_or_give_up(error, deadline)
                .await
                .map_err(|problem| problem.with_executed(Executed::Unknown))?,
        }
    }
    Err(Problem::from(SubmitError::TimedOut).with_executed(Executed::Unknown))
}

/// The print by the rules of the record that refused the claim, where by these it is the record's.
fn reprinted(decided: &Decided, claim: &Claim, subject: &Subject) -> Option<Print> {
    match &decided.outcome {
        Outcome::Reused { stored } => subject.reprinted(stored, &claim.print),
        _ => None,
    }
}

/// What is known of a shard from this process and from an answer of the shard's own: the time of
/// the one, the position of whichever has seen more.
fn freshest(seen: Basis, heard: Option<Basis>) -> Basis {
    match heard {
        Some(heard) if (heard.epoch, heard.index) > (seen.epoch, seen.index) => {
            Basis { time: seen.time, ..heard }
        }
        _ => seen,
    }
}

/// Waits a little before the next try; an error when there is none.
async fn wait_or_give_up(error: SubmitError, deadline: Instant) -> Result<(), Problem> {
    // A definite error was tried again already, as long as that could help.
    if error.certainty() == Certainty::Definite || Instant::now() + PAUSE >= deadline {
        return Err(error.into());
    }
    tokio::time::sleep(PAUSE).await;
    Ok(())
}
