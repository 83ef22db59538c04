//! What must be reachable in a run, or it has not explored what it is meant to.

use protocol::record::State;

use super::gateway::{Gateway, Stage, Told};
use super::shard::live;
use super::world::World;

/// Something worth reaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// Two clients are told the outcome.
    Replay,
    /// A client is refused.
    Refusal,
    /// The key runs again, as a new generation.
    SecondGeneration,
    /// Another attempt has taken over and completed.
    TakenOver,
    /// A client is told that nobody knows, and then the outcome is stored all the same.
    LateCompletion,
    /// A claim is given up, since nothing of it can be granted any more.
    GivenUp,
    /// A claim that was given up turns out to be granted, and is given back.
    GhostReleased,
    /// An execution claims again after its own release.
    ClaimedAgain,
    /// An operator has released the key and it runs again.
    OperatorReleased,
    /// An operator has said what the outcome is, and a client is told it.
    OperatorCompleted,
    /// The key has been used and is absent again.
    Absent,
    /// A lease is prolonged.
    Renewed,
    /// A process is gone, and its execution's outcome is left open.
    LeftOpen,
}

impl Goal {
    /// Names the goal in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Replay => "reach: a replay",
            Self::Refusal => "reach: a refusal",
            Self::SecondGeneration => "reach: a second generation that runs",
            Self::TakenOver => "reach: a takeover that completes",
            Self::LateCompletion => {
                "reach: an outcome after the client was told that it is unknown"
            }
            Self::GivenUp => "reach: a claim that is given up",
            Self::GhostReleased => "reach: an unanswered claim that is found granted, and released",
            Self::ClaimedAgain => "reach: a second round of claiming that runs",
            Self::OperatorReleased => "reach: a key that runs again after an operator's release",
            Self::OperatorCompleted => "reach: an operator's outcome that a client is told",
            Self::Absent => "reach: a key that is absent again",
            Self::Renewed => "reach: a lease that is prolonged",
            Self::LeftOpen => "reach: an outcome that is left open by a crash",
        }
    }

    /// Whether the world is there.
    pub(crate) fn is_reached(self, world: &World) -> bool {
        let record = live(world.shard.record.as_ref());
        let told =
            |told| world.gateways.iter().filter(|gateway| gateway.told == Some(told)).count();
        let any = |is: fn(&Gateway) -> bool| world.gateways.iter().any(is);
        let done = record.and_then(|record| match record.state {
            State::Done { by_operator, .. } => Some(by_operator),
            _ => None,
        });
        match self {
            Self::Replay => told(Told::Outcome) > 1,
            Self::Refusal => told(Told::Refused) > 0,
            Self::SecondGeneration => world.witness.generations_executed() > 1,
            Self::TakenOver => {
                done == Some(false) && record.is_some_and(|record| record.attempts > 1)
            }
            Self::LateCompletion => done == Some(false) && told(Told::Unknown) > 0,
            Self::GivenUp => {
                any(|gateway| gateway.has_not_run()) && !world.witness.any_given_back()
            }
            Self::GhostReleased => {
                any(|gateway| gateway.has_not_run()) && world.witness.any_given_back()
            }
            Self::ClaimedAgain => any(|gateway| gateway.rounds > 1 && gateway.request.is_some()),
            Self::OperatorReleased => {
                world.witness.any_released() && world.witness.generations_executed() > 1
            }
            Self::OperatorCompleted => done == Some(true) && told(Told::Outcome) > 0,
            Self::Absent => world.shard.record.is_none() && world.shard.grants > 0,
            Self::Renewed => record.is_some_and(|record| match record.state {
                State::InFlight { lease_until } => {
                    lease_until > record.granted_at.plus(record.lease)
                }
                _ => false,
            }),
            Self::LeftOpen => {
                any(|gateway| gateway.stage == Stage::Crashed)
                    && record.is_some_and(|record| {
                        matches!(record.state, State::Indeterminate { .. } | State::Over { .. })
                    })
            }
        }
    }
}

impl Gateway {
    fn has_not_run(&self) -> bool {
        self.stage == Stage::Finished && self.told == Some(Told::NotRun)
    }
}
