use super::Life;
use super::life::{ANSWER_WITHIN, BEGUN, LEASE, MAX_EXECUTION, granted, leader_time, stored};
use crate::command::Outcome;
use crate::execution::{Action, Answer, Disposition, Doubt, Event, Failure, Upstream};
use crate::lease::send_window;
use crate::time::Millis;

/// When the first renewal is due.
const THIRD: u64 = BEGUN + LEASE / 3;

fn renewed(life: &Life) -> Outcome {
    Outcome::Renewed { lease_until: leader_time(life.now + LEASE) }
}

#[test]
fn an_execution_claims_runs_completes_and_then_answers() {
    let mut life = Life::begin();
    life.claims();
    life.at(BEGUN + 5).reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { attempt_no: 1, fresh: false, .. }));
    life.at(BEGUN + 8).upstream(Upstream::Ready);
    assert_eq!(life.next(), Action::Send);
    // The lease is renewed while the upstream works.
    life.sleep();
    assert_eq!(life.now, THIRD);
    life.renews();
    life.reply(renewed(&life));
    life.at(THIRD + 100).answered(201, stored(201));
    // Nothing reaches the client before the outcome is durable.
    life.completes();
    life.rests();
    life.reply(Outcome::Completed);
    life.ends_with(Answer::Own);
}

#[test]
fn nothing_is_sent_without_a_fresh_permission() {
    let mut life = Life::granted(1);
    let send_before = BEGUN + send_window(Millis::new(LEASE)).get();
    // The connection is not ready in time: the grant is given back without having been used.
    life.sleep();
    assert_eq!(life.now, send_before);
    assert_eq!(life.next(), Action::CloseUpstream);
    life.releases();
    // It becomes ready all the same, and gets no permission.
    life.upstream(Upstream::Ready);
    life.rests();
    life.reply(Outcome::Released);
    life.ends_with(Answer::Unreachable { earlier_may_have_run: false });
}

#[test]
fn renewals_do_not_prolong_the_time_to_send() {
    let mut life = Life::sent(1);
    life.sleep();
    life.renews();
    life.reply(renewed(&life));
    // The pooled connection turns out to have been dead all the time.
    life.at(BEGUN + LEASE).upstream(Upstream::Unsent { pooled: true });
    assert!(matches!(life.next(), Action::Connect { fresh: true, .. }));
    assert_eq!(life.next(), Action::CloseUpstream);
    life.releases();
}

#[test]
fn a_dead_pooled_connection_is_replaced_once() {
    let mut life = Life::sent(1);
    life.upstream(Upstream::Unsent { pooled: true });
    assert!(matches!(life.next(), Action::Connect { fresh: true, .. }));
    life.upstream(Upstream::Ready);
    assert_eq!(life.next(), Action::Send);
    life.upstream(Upstream::Unsent { pooled: true });
    life.releases();
    life.reply(Outcome::Released);
    life.ends_with(Answer::Unreachable { earlier_may_have_run: false });
}

#[test]
fn an_upstream_that_refuses_connections_releases_the_claim() {
    for (attempt_no, earlier_may_have_run) in [(1, false), (2, true)] {
        let mut life = Life::granted(attempt_no);
        life.upstream(Upstream::Unsent { pooled: false });
        life.releases();
        // The client need not wait for a shard that has gone away.
        life.fail(Failure::Indefinite);
        life.answers(Answer::Unreachable { earlier_may_have_run });
        life.sleep();
        life.releases();
        life.reply(Outcome::Released);
        life.ends();
    }
}

#[test]
fn an_answer_before_the_permission_is_ignored() {
    let mut life = Life::granted(1);
    life.answered(201, stored(201));
    life.upstream(Upstream::Broken);
    life.rests();
}

#[test]
fn failing_renewals_do_not_end_the_execution() {
    let mut life = Life::sent(1);
    life.sleep();
    life.renews();
    life.fail(Failure::Indefinite);
    // The outage lasts until after the client's deadline and the end of the lease.
    let tries = life.outage(BEGUN + ANSWER_WITHIN, Failure::Indefinite);
    assert!((8..40).contains(&tries), "renewals are repeated, with pauses: {tries}");
    life.handle(Event::Wake);
    life.answers(Answer::OutcomePending);
    life.at(BEGUN + ANSWER_WITHIN + 1).answered(201, stored(201));
    life.completes();
    life.reply(Outcome::Completed);
    life.ends();
}

#[test]
fn a_refused_renewal_ends_the_renewals_and_not_the_execution() {
    let mut life = Life::sent(1);
    life.sleep();
    life.renews();
    life.reply(Outcome::Stale { record: None });
    life.rests();
    life.sleep();
    assert_eq!(life.now, BEGUN + ANSWER_WITHIN, "nothing is due before the client's deadline");
    life.answers(Answer::OutcomePending);
    life.answered(201, stored(201));
    life.completes();
}

#[test]
fn the_longest_execution_ends_as_unknown_with_the_connection_open() {
    let mut life = renewing_until_timed_out();
    life.reply(Outcome::Unknown { takeover: false });
    // The last renewal was asked for at most a third of a lease ago.
    life.sleep();
    let timed_out = BEGUN + MAX_EXECUTION;
    assert!(life.now > timed_out + LEASE / 2 && life.now <= timed_out + LEASE);
    assert_eq!(life.next(), Action::CloseUpstream);
    life.ends();
}

#[test]
fn a_late_whole_answer_still_completes() {
    // Whether it comes before or after the shard has heard that the outcome is unknown.
    for unknown_is_definite in [false, true] {
        let mut life = renewing_until_timed_out();
        if unknown_is_definite {
            life.reply(Outcome::Unknown { takeover: false });
        }
        life.at(life.now + 100).answered(201, stored(201));
        life.completes();
        life.reply(Outcome::Completed);
        life.ends();
    }
}

#[test]
fn a_late_answer_that_is_no_outcome_changes_nothing() {
    for disposition in [Disposition::Retryable, Disposition::Unknown] {
        let mut life = renewing_until_timed_out();
        life.answered(503, disposition);
        life.rests();
        life.fail(Failure::Indefinite);
        life.sleep();
        life.says_unknown();
        life.reply(Outcome::Unknown { takeover: false });
        life.ends();
    }
    let mut life = renewing_until_timed_out();
    life.reply(Outcome::Unknown { takeover: false });
    life.upstream(Upstream::Broken);
    life.ends();
}

#[test]
fn the_connection_is_closed_when_the_lease_has_ended_long_ago() {
    let mut life = Life::sent(1);
    life.sleep();
    life.renews();
    life.reply(Outcome::Stale { record: None });
    life.sleep();
    life.answers(Answer::OutcomePending);
    life.sleep();
    assert_eq!(life.now, BEGUN + MAX_EXECUTION);
    life.says_unknown();
    assert_eq!(life.next(), Action::CloseUpstream);
    life.reply(Outcome::Unknown { takeover: false });
    life.ends();
}

#[test]
fn an_in_use_answer_to_a_second_attempt_is_unknown() {
    for status in [409, 425] {
        let mut life = Life::sent(2);
        life.answered(status, stored(status));
        life.says_unknown();
        life.reply(Outcome::Unknown { takeover: true });
        life.ends_with(Answer::OutcomeUnknown(Doubt::Ambiguous));
    }
    // To the first attempt it is an answer like any other.
    let mut life = Life::sent(1);
    life.answered(409, stored(201));
    life.completes();
    // Nor does a late one complete a second attempt.
    let mut life = timed_out(Life::sent(2));
    life.answered(409, stored(409));
    life.rests();
}

fn renewing_until_timed_out() -> Life {
    timed_out(Life::sent(1))
}

/// One whose upstream has not answered in time, though every renewal was granted.
fn timed_out(mut life: Life) -> Life {
    let ends = BEGUN + MAX_EXECUTION;
    loop {
        life.sleep();
        if life.now == ends {
            life.says_unknown();
            life.rests();
            return life;
        }
        if life.now == BEGUN + ANSWER_WITHIN {
            life.answers(Answer::OutcomePending);
        } else {
            life.renews();
            life.reply(renewed(&life));
        }
    }
}
