//! The runs: what each explores. The small ones are finished by a test within seconds; whoever has
//! more time builds larger ones on them.

use super::config::Config;
use super::goal::Goal;
use super::variant::Variant;
use super::witness::Rule;

/// Two executions of one request; one thing takes its time.
pub(crate) const CALM: Config = Config {
    name: "calm",
    delays: 1,
    goals: &[Goal::Replay, Goal::Refusal],
    ..Config::UNDISTURBED
};

/// The second one is another request.
pub(crate) const OTHER_BODY: Config =
    Config { name: "other body", requests: &[0, 1], goals: &[Goal::Refusal], ..CALM };

/// Three executions of one request.
pub(crate) const THREE: Config = Config { name: "three", requests: &[0, 0, 0], delays: 0, ..CALM };

/// Requests to the shard go unanswered, and clients do not wait for a third try.
pub(crate) const LOSS: Config = Config {
    name: "loss",
    warm: false,
    answer_within: 40,
    delays: 0,
    losses: 2,
    goals: &[Goal::GivenUp, Goal::GhostReleased],
    ..CALM
};

/// Requests to the shard arrive twice.
pub(crate) const DUPLICATE: Config = Config { name: "duplicate", delays: 0, duplicates: 1, ..CALM };

/// Requests to the shard are refused without having been proposed.
pub(crate) const REFUSAL: Config = Config { name: "refusal", delays: 0, refusals: 2, ..CALM };

/// Replies travel by themselves, and may come late.
pub(crate) const SLOW: Config =
    Config { name: "slow replies", slow_replies: true, delays: 0, losses: 1, ..CALM };

/// A gateway sleeps past the time at which it wants to be woken.
pub(crate) const NAP: Config = Config { name: "nap", requests: &[0], naps: 1, ..CALM_ALONE };

/// A gateway crashes.
pub(crate) const CRASH: Config =
    Config { name: "crash", warm: false, crashes: 1, goals: &[Goal::LeftOpen], ..CALM };

/// An operator decides what a crash has left open.
pub(crate) const OPERATOR: Config = Config {
    name: "operator",
    delays: 0,
    verdicts: 1,
    goals: &[Goal::OperatorReleased, Goal::OperatorCompleted],
    ..CRASH
};

/// An operator decides what a slow execution has left open, while its client still waits.
pub(crate) const PATIENT: Config = Config {
    name: "patient",
    requests: &[0],
    answer_within: 9_000,
    verdicts: 1,
    goals: &[Goal::OperatorCompleted],
    ..CALM
};

/// Another attempt may take over.
pub(crate) const TAKEOVER: Config =
    Config { name: "takeover", takeover: Some(12_000), goals: &[Goal::TakenOver], ..CALM };

/// Another attempt may take over, and requests to the shard go unanswered.
pub(crate) const TAKEOVER_LOSS: Config =
    Config { name: "takeover, loss", delays: 0, losses: 1, ..TAKEOVER };

/// Another attempt may take over after a crash.
pub(crate) const TAKEOVER_CRASH: Config =
    Config { name: "takeover, crash", delays: 0, crashes: 1, ..TAKEOVER };

/// Clocks differ as much as they may, and a leader is followed by one with another clock.
pub(crate) const SKEW: Config =
    Config { name: "skew", leaders: &[-500, 500], estimates: &[-500, 500], ..CALM_ALONE };

/// The same where requests to the shard go unanswered or are refused, and the client does not wait.
pub(crate) const SKEW_LOSS: Config = Config {
    name: "skew, loss",
    answer_within: 40,
    delays: 0,
    losses: 1,
    refusals: 1,
    goals: &[Goal::GivenUp, Goal::GhostReleased],
    ..SKEW
};

/// The shortest lease and a patient client: grants come too late and the claim is made again.
pub(crate) const RECLAIM: Config = Config {
    name: "reclaim",
    lease: 2_000,
    answer_within: 3_000,
    max_execution: 600,
    goals: &[Goal::ClaimedAgain],
    ..CALM
};

/// The same alone, where requests to the shard go unanswered too.
pub(crate) const RECLAIM_LOSS: Config =
    Config { name: "reclaim, loss", requests: &[0], losses: 1, ..RECLAIM };

/// Executions that take long enough for a renewal.
pub(crate) const RENEWAL: Config = Config {
    name: "renewal",
    max_execution: 2_000,
    goals: &[Goal::Renewed, Goal::LateCompletion],
    ..CALM
};

/// The same alone, where requests to the shard go unanswered too.
pub(crate) const RENEWAL_LOSS: Config =
    Config { name: "renewal, loss", requests: &[0], losses: 1, ..RENEWAL };

/// Outcomes are kept for a short time.
pub(crate) const RETENTION: Config = Config {
    name: "retention",
    retention: Some(1_500),
    goals: &[Goal::SecondGeneration, Goal::Absent],
    ..CALM
};

/// A replica that lags behind answers too.
pub(crate) const REPLICA: Config =
    Config { name: "replica", delays: 0, catch_ups: 1, goals: &[Goal::Replay], ..CALM };

/// An operator removes an outcome, while a replica that lags behind answers too.
pub(crate) const FORGET: Config =
    Config { name: "forget", warm: false, forgets: 1, goals: &[Goal::SecondGeneration], ..REPLICA };

/// One execution alone, for runs that are large for other reasons.
const CALM_ALONE: Config = Config { requests: &[0], goals: &[], ..CALM };

/// The smallest run that shows a variant, and the rule that it breaks there.
pub(crate) fn planted(variant: Variant) -> (Rule, Config) {
    let calm = Config { warm: false, goals: &[], ..CALM };
    let loss = Config { losses: 1, ..calm };
    let takeover = Config { takeover: Some(12_000), crashes: 1, ..calm };
    let patient = Config { goals: &[], ..PATIENT };
    let (rule, config) = match variant {
        Variant::NoMemory
        | Variant::GrantedAttemptsOnly
        | Variant::TimeToLiveOnly
        | Variant::WatermarkOnly
        | Variant::TombstoneTooShort
        | Variant::GivesUpByFirstCopy
        | Variant::SupersededIsFinal => (Rule::NoGhost, loss),
        Variant::LeaseEndFrees => (Rule::NoGhost, Config { losses: 1, ..takeover }),
        Variant::RetentionEndFrees => {
            (Rule::NoGhost, Config { retention: Some(500), delays: 0, ..loss })
        }
        Variant::GivesUp => (Rule::NoGhost, calm),
        Variant::SendsLate => (Rule::SentUnderLease, calm),
        Variant::LeaseFromNewestCopy => {
            (Rule::SentUnderLease, Config { requests: &[0], leaders: &[-500, 500], ..loss })
        }
        Variant::BelievesOldReply => (Rule::NoGhost, Config { slow_replies: true, ..loss }),
        Variant::ClaimsAgainUnconfirmed => {
            (Rule::GivenBackNeverRan, Config { goals: &[], ..RECLAIM_LOSS })
        }
        Variant::ReleasesOnFailedRenewal => {
            (Rule::GivenBackNeverRan, Config { goals: &[], ..RENEWAL_LOSS })
        }
        Variant::OwnAnswerOnStale => (Rule::OneAnswer, patient),
        Variant::CompleteOverwrites => (Rule::OperatorStands, patient),
        Variant::ResolveWithoutCompare => {
            let twice = Config { crashes: 2, verdicts: 1, duplicates: 1, delays: 0, ..calm };
            (Rule::OperatorStands, twice)
        }
        Variant::ReleasesEarly => (Rule::ReleasedIsDrained, Config { verdicts: 1, ..calm }),
        Variant::InUseIsFinal => (Rule::RealOutcome, takeover),
        Variant::FencePerRecord => (Rule::FencesGrow, calm),
        Variant::ForgetsFirstRun => (Rule::GivenBackNeverRan, takeover),
        Variant::UnheldCounts => {
            (Rule::StaleChangesNothing, Config { duplicates: 1, delays: 0, ..takeover })
        }
        Variant::ForgetsAtOnce => {
            (Rule::OwnReplay, Config { requests: &[0, 0, 0], goals: &[], ..FORGET })
        }
        Variant::InProgressFromBehind => (Rule::NoGhost, Config { catch_ups: 1, ..calm }),
    };
    (rule, Config { variant: Some(variant), ..config })
}
