use super::Life;
use super::life::{ANSWER_WITHIN, BEGUN, done, generation, leader_time, response, stored};
use crate::command::{Outcome, Replay};
use crate::execution::{Answer, BACKOFF_MAX, Disposition, Doubt, Event, Failure, Upstream};
use crate::lease::Fence;
use crate::record::{Record, State};

#[test]
fn an_outcome_that_cannot_be_made_durable_is_tried_for_ever() {
    let mut life = Life::sent(1);
    life.answered(201, stored(201));
    life.completes();
    life.fail(Failure::Indefinite);
    life.outage(BEGUN + ANSWER_WITHIN, Failure::Definite);
    life.handle(Event::Wake);
    life.answers(Answer::OutcomeUnknown(Doubt::NotDurable));
    // The machine goes on for as long as the process lives, at a bounded rate.
    let hour = 3_600_000;
    let tries = life.outage(life.now + hour, Failure::Indefinite) as u64;
    let rate = hour / BACKOFF_MAX.get();
    assert!((rate - 20..=rate + 20).contains(&tries), "{tries}");
    life.sleep();
    life.completes();
    // The client has its answer already.
    life.reply(Outcome::Completed);
    life.ends();
}

#[test]
fn bytes_that_left_without_an_answer_are_unknown_and_never_released() {
    let mut life = Life::sent(1);
    life.upstream(Upstream::Broken);
    life.says_unknown();
    life.reply(Outcome::Unknown { takeover: false });
    life.ends_with(Answer::OutcomeUnknown(Doubt::Reset));
}

#[test]
fn an_answer_that_leaves_it_open_is_unknown() {
    let mut life = Life::sent(1);
    life.answered(502, Disposition::Unknown);
    life.says_unknown();
    // The truth does not depend on whether the shard has heard it.
    life.fail(Failure::Indefinite);
    life.answers(Answer::OutcomeUnknown(Doubt::Ambiguous));
    life.sleep();
    life.says_unknown();
    life.reply(Outcome::Unknown { takeover: true });
    life.ends();
}

#[test]
fn a_retryable_answer_is_passed_through_once_the_claim_is_released() {
    let mut life = Life::sent(1);
    life.answered(429, Disposition::Retryable);
    life.releases();
    life.rests();
    life.reply(Outcome::Released);
    life.ends_with(Answer::PassThrough);
}

#[test]
fn a_retryable_answer_is_passed_through_while_the_release_is_repeated() {
    let mut life = Life::sent(1);
    life.answered(429, Disposition::Retryable);
    life.releases();
    life.fail(Failure::Definite);
    life.answers(Answer::PassThrough);
    life.sleep();
    life.releases();
    // The first release was done after all, and the key has moved on.
    life.reply(Outcome::Stale { record: None });
    life.ends();
}

#[test]
fn a_client_whose_decision_is_not_answered_at_all_is_answered_at_its_deadline() {
    let cases = [
        (stored(201), Answer::OutcomeUnknown(Doubt::NotDurable)),
        (Disposition::Retryable, Answer::PassThrough),
        (Disposition::Unknown, Answer::OutcomeUnknown(Doubt::Ambiguous)),
    ];
    for (disposition, answer) in cases {
        let mut life = Life::sent(1);
        life.answered(201, disposition);
        life.next();
        life.sleep();
        assert_eq!(life.now, BEGUN + ANSWER_WITHIN);
        life.answers(answer);
    }
}

#[test]
fn there_is_one_decision_for_a_grant() {
    let mut life = Life::sent(1);
    life.answered(201, stored(201));
    life.completes();
    // Whatever else the connection brings comes too late.
    life.upstream(Upstream::Broken);
    life.upstream(Upstream::Unsent { pooled: false });
    life.answered(429, Disposition::Retryable);
    life.rests();
    life.fail(Failure::Indefinite);
    life.sleep();
    life.completes();
}

#[test]
fn a_lost_grant_is_answered_from_the_record_and_never_with_the_gateways_own_answer() {
    let replay = Answer::Replay(Box::new(Replay {
        response: response(200),
        newest: Some(response(299)),
        generation: Fence::new(0, 3),
        completed_at: leader_time(BEGUN),
        retain_until: Some(leader_time(BEGUN + 1)),
    }));
    let lost = Answer::OutcomeUnknown(Doubt::GrantLost);
    let in_flight = State::InFlight { lease_until: leader_time(BEGUN) };
    let cases: [(Option<Record>, &Answer); 6] = [
        // The outcome of the grant's own generation, which an operator or a takeover has settled.
        (Some(generation(3, 8, done(BEGUN + 1))), &replay),
        // One whose retention has ended just now is no outcome any more.
        (Some(generation(3, 8, done(BEGUN))), &lost),
        // Nor is that of another generation, later or earlier.
        (Some(generation(6, 6, done(BEGUN + 1))), &lost),
        (Some(generation(3, 4, done(BEGUN + 1))), &lost),
        (Some(generation(3, 8, in_flight)), &lost),
        (None, &lost),
    ];
    for (record, answer) in cases {
        for disposition in [stored(201), Disposition::Retryable] {
            let mut life = Life::sent(2);
            life.answered(201, disposition);
            life.next();
            life.reply(Outcome::Stale { record: record.clone().map(Box::new) });
            life.ends_with(answer.clone());
        }
    }
}

#[test]
fn a_refused_unknown_is_answered_from_the_record_too() {
    let mut life = Life::sent(1);
    life.upstream(Upstream::Broken);
    life.says_unknown();
    let record = generation(5, 6, done(BEGUN + 1));
    life.reply(Outcome::Stale { record: Some(Box::new(record)) });
    assert!(matches!(life.next(), crate::execution::Action::Answer(Answer::Replay(_))));
    life.ends();
}

#[test]
fn a_refused_release_of_an_unreached_upstream_says_that_others_may_have_run() {
    let mut life = Life::granted(1);
    life.upstream(Upstream::Unsent { pooled: false });
    life.releases();
    life.reply(Outcome::Stale { record: None });
    life.ends_with(Answer::Unreachable { earlier_may_have_run: true });
}

#[test]
fn an_unused_grant_that_was_lost_to_an_outcome_is_answered_with_it() {
    let mut life = Life::begin();
    life.claims();
    life.reply(Outcome::Spent { grant: super::life::grant() });
    life.releases();
    let record = generation(5, 6, done(BEGUN + 1));
    life.reply(Outcome::Stale { record: Some(Box::new(record)) });
    assert!(matches!(life.next(), crate::execution::Action::Answer(Answer::Replay(_))));
    life.ends();
}
