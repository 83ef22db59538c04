//! The claim protocol as a whole: an explicit-state model that drives the real decisions of both
//! sides, and what it must find when one of them is broken. See the `model` module.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

#[path = "model/mod.rs"]
mod model;

use std::num::NonZeroUsize;
use std::time::Duration;

use model::config::Config;
use model::report::{Bound, explore};
use model::runs;
use model::variant::Variant;

/// No run of a test comes near this; one that did would have stopped being small.
const BOUND: Bound = Bound { states: 250_000, time: Duration::from_secs(600) };

/// Tests run side by side already.
const THREADS: NonZeroUsize = NonZeroUsize::MIN;

/// Everything that the run can reach is explored, no rule is broken, and every goal is reached.
fn holds(config: Config) {
    let findings = explore(config, THREADS, BOUND, None);
    println!("{findings}");
    assert!(findings.complete && findings.missed.is_empty(), "{findings}");
}

/// The model notices that a rule is broken.
fn finds(variant: Variant) {
    let (rule, config) = runs::planted(variant);
    let findings = explore(config, THREADS, BOUND, Some(rule.name()));
    println!("{variant:?} {findings}");
    let found = findings.broken.iter().any(|(broken, _)| *broken == rule.name());
    assert!(found, "{variant:?} is not noticed: {findings}");
}

macro_rules! every_rule_holds_in {
    ($($test:ident: $run:ident,)*) => {
        mod every_rule_holds_in {
            $(#[test]
            fn $test() {
                super::holds(super::runs::$run);
            })*
        }
    };
}

macro_rules! the_model_finds {
    ($($test:ident: $variant:ident,)*) => {
        mod the_model_finds {
            $(#[test]
            fn $test() {
                super::finds(super::Variant::$variant);
            })*

            #[test]
            fn every_variant() {
                let tested = [$(super::Variant::$variant),*];
                assert_eq!(tested, super::Variant::ALL);
            }
        }
    };
}

every_rule_holds_in! {
    a_calm_world: CALM,
    a_world_with_two_requests: OTHER_BODY,
    a_world_with_three_clients: THREE,
    a_world_that_loses_replies: LOSS,
    a_world_that_duplicates_requests: DUPLICATE,
    a_world_that_refuses_requests: REFUSAL,
    a_world_of_slow_replies: SLOW,
    a_world_whose_gateways_nap: NAP,
    a_world_whose_gateways_crash: CRASH,
    a_world_with_an_operator: OPERATOR,
    a_world_with_a_patient_client: PATIENT,
    a_world_with_takeover: TAKEOVER,
    a_world_with_takeover_that_loses_replies: TAKEOVER_LOSS,
    a_world_with_takeover_whose_gateways_crash: TAKEOVER_CRASH,
    a_world_of_skewed_clocks: SKEW,
    a_world_of_skewed_clocks_that_loses_replies: SKEW_LOSS,
    a_world_of_late_grants: RECLAIM,
    a_world_of_late_grants_that_loses_replies: RECLAIM_LOSS,
    a_world_of_long_executions: RENEWAL,
    a_world_of_long_executions_that_loses_replies: RENEWAL_LOSS,
    a_world_that_forgets_in_time: RETENTION,
    a_world_with_a_lagging_replica: REPLICA,
    a_world_whose_operator_forgets: FORGET,
}

the_model_finds! {
    a_shard_without_memory: NoMemory,
    a_memory_of_granted_attempts_only: GrantedAttemptsOnly,
    a_claim_stopped_by_time_only: TimeToLiveOnly,
    a_claim_stopped_by_the_watermark_only: WatermarkOnly,
    a_lease_that_ends_without_a_log_event: LeaseEndFrees,
    a_retention_that_ends_without_a_log_event: RetentionEndFrees,
    an_unanswered_claim_that_is_given_up: GivesUp,
    a_claim_given_up_by_its_first_copys_time: GivesUpByFirstCopy,
    an_attempt_that_ends_with_superseded: SupersededIsFinal,
    bytes_that_leave_without_a_look_at_the_clock: SendsLate,
    a_lease_counted_from_the_newest_copy: LeaseFromNewestCopy,
    a_believed_reply_to_an_older_copy: BelievesOldReply,
    a_claim_made_again_on_an_unconfirmed_release: ClaimsAgainUnconfirmed,
    a_release_when_renewals_fail: ReleasesOnFailedRenewal,
    a_gateways_own_answer_on_a_lost_grant: OwnAnswerOnStale,
    an_in_use_answer_stored_as_final: InUseIsFinal,
    fences_counted_per_record: FencePerRecord,
    a_complete_that_overwrites_an_operator: CompleteOverwrites,
    an_operators_decision_without_compare: ResolveWithoutCompare,
    an_operators_release_before_the_drain: ReleasesEarly,
    a_release_that_forgets_the_first_run: ForgetsFirstRun,
    a_released_fence_that_still_counts: UnheldCounts,
    a_tombstone_that_is_removed_too_early: TombstoneTooShort,
    a_forgotten_record_that_is_free_at_once: ForgetsAtOnce,
    an_in_progress_from_a_replica_behind: InProgressFromBehind,
}
