use super::Life;
use super::life::{
    ANSWER_WITHIN, BEGUN, LEASE, generation, grant, granted, leader_time, name, response,
};
use crate::command::{Basis, Command, Decided, Outcome, Replay};
use crate::execution::{
    Action, Answer, CLAIM_PATIENCE, COPIES_MAX, Event, Failure, ROUNDS_MAX, RecordAt, Upstream,
};
use crate::fingerprint::{Fingerprint, Print};
use crate::lease::{Fence, claim_ttl, send_window};
use crate::record::State;
use crate::time::Millis;

fn send_before() -> u64 {
    BEGUN + send_window(Millis::new(LEASE)).get()
}

#[test]
fn every_refusal_is_the_clients_answer_and_ends_the_execution() {
    let stored = Box::new(Print::from(Fingerprint { version: 1, digest: [8; 32] }));
    let replay = Replay {
        response: response(201),
        newest: None,
        generation: Fence::new(0, 1),
        completed_at: leader_time(1),
        retain_until: None,
    };
    let cases = [
        (
            Outcome::InProgress { lease_until: leader_time(BEGUN + 70) },
            Answer::InProgress { lease_left: Millis::new(70) },
        ),
        (Outcome::Reused { stored: stored.clone() }, Answer::Reused { stored }),
        (Outcome::OtherOperation, Answer::OtherOperation),
        (Outcome::Indeterminate, Answer::Indeterminate),
        (
            Outcome::Forgetting { until: leader_time(BEGUN + 30) },
            Answer::Forgetting { free_in: Millis::new(30) },
        ),
        (Outcome::Replay(Box::new(replay.clone())), Answer::Replay(Box::new(replay))),
    ];
    for (outcome, answer) in cases {
        let mut life = Life::begin();
        life.claims();
        life.reply(outcome);
        life.ends_with(answer);
    }
}

#[test]
fn only_the_reply_to_the_newest_copy_counts() {
    let mut life = Life::begin();
    life.claims();
    let first = life.number;
    // The first copy is not answered in time; a second one is made.
    life.fail(Failure::Indefinite);
    life.sleep();
    life.claims();
    // What the first copy was told comes late. It may have been overtaken since.
    life.reply_to(first, Outcome::InProgress { lease_until: leader_time(BEGUN + 1) });
    life.rests();
    life.reply_to(first, granted(1));
    life.rests();
    life.reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { .. }));
}

#[test]
fn a_claim_goes_on_with_the_print_by_the_records_rules() {
    let print = Print::from(Fingerprint { version: 1, digest: [9; 32] });
    let basis = Basis { index: 77, ..Basis::default() };
    let reprinted = |number| Event::Reprinted { number, basis, print: Box::new(print.clone()) };
    let mut life = Life::begin();
    let first = life.claims();
    life.handle(reprinted(life.number));
    let second = life.claims();
    assert_eq!((&second.print, second.seen.index), (&print, 77));
    assert_eq!((second.holder, second.token), (first.holder, first.token));
    // Told about an older copy, it is of no interest.
    life.handle(reprinted(life.number - 1));
    life.rests();
    life.reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { .. }));

    // A record that is made anew under other rules again and again does not keep a client waiting.
    let mut life = Life::begin();
    for _ in 1..COPIES_MAX {
        life.claims();
        life.handle(reprinted(life.number));
    }
    life.claims();
    life.handle(reprinted(life.number));
    life.ends_with(Answer::ShardUnavailable);
}

#[test]
fn a_new_copy_has_seen_what_the_last_reply_showed() {
    let mut life = Life::begin();
    assert_eq!(life.claims().seen.index, 0);
    life.at(BEGUN + 30).reply(Outcome::Superseded);
    let copy = life.claims();
    assert_eq!(copy.seen.index, 41);
    assert_eq!(copy.seen.time, leader_time(BEGUN + 30));
    life.at(BEGUN + 90).fail(Failure::Indefinite);
    life.sleep();
    let copy = life.claims();
    assert_eq!(copy.seen.index, 41);
    assert_eq!(copy.seen.time, leader_time(life.now));
    assert!(life.now > BEGUN + 90, "a failed copy is followed by a pause");
}

#[test]
fn a_new_copy_is_never_behind_the_shards_own_time() {
    let mut life = Life::begin();
    life.claims();
    // An earlier leader's clock was ahead: by the present one's, a copy would be too old for long.
    let basis = Basis { epoch: 0, index: 41, time: leader_time(BEGUN + 900) };
    let decided = Decided { outcome: Outcome::Superseded, basis };
    life.handle(Event::Reply { number: life.number, reply: Ok(decided) });
    assert_eq!(life.claims().seen, basis);
}

#[test]
fn superseded_copies_are_bounded_and_never_end_the_attempt() {
    let mut life = Life::begin();
    life.claims();
    for _ in 1..COPIES_MAX {
        life.reply(Outcome::Superseded);
        life.claims();
    }
    // No copy is left, but a duplicate of one may still be granted: the execution stays.
    life.reply(Outcome::Superseded);
    life.answers(Answer::ShardUnavailable);
    life.sleep();
    life.reads();
    life.found(Some(generation(5, 5, State::InFlight { lease_until: leader_time(BEGUN) })));
    life.releases();
}

#[test]
fn a_cause_that_lasts_is_not_waited_for() {
    let mut life = Life::begin();
    life.claims();
    life.at(BEGUN + 10).fail(Failure::Lasting);
    life.ends_with(Answer::ShardUnavailable);
}

#[test]
fn a_cause_that_lasts_says_nothing_about_an_older_copy() {
    let mut life = Life::begin();
    life.claims();
    life.fail(Failure::Indefinite);
    life.sleep();
    life.claims();
    life.fail(Failure::Lasting);
    // The first copy may still be granted: the client need not wait for that, the execution must.
    life.answers(Answer::ShardUnavailable);
    life.sleep();
    life.reads();
    life.found(Some(generation(5, 5, State::InFlight { lease_until: leader_time(BEGUN) })));
    life.releases();
}

#[test]
fn the_lease_counts_from_the_first_copy() {
    for (late, may_send) in [(false, true), (true, false)] {
        let mut life = Life::begin();
        life.claims();
        life.fail(Failure::Indefinite);
        life.at(BEGUN + 4_000).handle(Event::Wake);
        life.claims();
        // The grant may be that of the first copy, and its lease has run since then.
        life.reply(granted(1));
        assert!(matches!(life.next(), Action::Connect { .. }));
        life.at(if late { send_before() } else { send_before() - 1 });
        life.upstream(Upstream::Ready);
        if may_send {
            assert_eq!(life.next(), Action::Send);
        } else {
            assert_eq!(life.next(), Action::CloseUpstream);
            life.releases();
        }
    }
}

#[test]
fn the_lease_does_not_count_from_a_copy_that_failed_definitely() {
    let mut life = Life::begin();
    life.claims();
    life.fail(Failure::Definite);
    life.at(BEGUN + 4_000).handle(Event::Wake);
    life.claims();
    life.reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { .. }));
    life.at(send_before() + 3_999).upstream(Upstream::Ready);
    assert_eq!(life.next(), Action::Send);
}

#[test]
fn a_grant_that_came_too_late_is_given_back_before_claiming_again() {
    let mut life = Life::begin_with(2_000, ANSWER_WITHIN);
    life.claims();
    life.at(BEGUN + 750).reply(granted(1));
    life.releases();
    // The release is not definite: another claim could be granted under it.
    life.fail(Failure::Indefinite);
    life.sleep();
    life.releases();
    life.reply(Outcome::Released);
    let copy = life.claims();
    assert_eq!(copy.seen.index, 42, "the new copy has seen the release");
    // The lease of the new round counts from its own first copy.
    life.reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { .. }));
    life.at(life.now + 749).upstream(Upstream::Ready);
    assert_eq!(life.next(), Action::Send);
}

#[test]
fn rounds_of_claiming_are_bounded() {
    let mut life = Life::begin();
    for _ in 0..ROUNDS_MAX {
        life.claims();
        life.reply(Outcome::Spent { grant: grant() });
        life.releases();
        life.reply(Outcome::Stale { record: None });
    }
    life.ends_with(Answer::ShardUnavailable);
}

#[test]
fn an_unanswered_claim_is_given_up_only_by_a_late_read() {
    let mut life = Life::begin();
    life.claims();
    let patience = BEGUN + CLAIM_PATIENCE.get();
    life.fail(Failure::Indefinite);
    let copies = life.outage(patience, Failure::Indefinite);
    assert!(copies >= 10, "the client waits while copies go out: {copies}");
    // The client is told to come back; the copies may still be granted.
    life.handle(Event::Wake);
    life.answers(Answer::ShardUnavailable);
    life.rests();
    // The newest copy was made within half a second before that.
    let ttl = claim_ttl(Millis::new(LEASE)).get();
    life.sleep();
    life.reads();
    let newest_ends = life.now - 1;
    assert!((patience - 500..=patience).contains(&(newest_ends - ttl)));
    // A read that fails, or that is stamped at the very end of the last copy's life, says nothing.
    life.fail(Failure::Indefinite);
    life.rests();
    life.handle(Event::Read { number: life.number, reply: Err(Failure::Indefinite) });
    life.sleep();
    life.reads();
    let early = RecordAt { at: leader_time(newest_ends), record: None };
    life.handle(Event::Read { number: life.number, reply: Ok(early) });
    life.rests();
    life.sleep();
    life.reads();
    life.found(None);
    life.ends();
}

#[test]
fn a_read_that_shows_the_execution_as_holder_is_followed_by_a_release() {
    let mut life = unanswered();
    life.sleep();
    life.reads();
    let state = State::Indeterminate { since: leader_time(life.now) };
    life.found(Some(generation(5, 5, state)));
    life.releases();
    life.fail(Failure::Indefinite);
    life.sleep();
    life.releases();
    life.reply(Outcome::Released);
    life.ends();
}

#[test]
fn a_grant_after_the_client_was_told_to_come_back_is_never_used() {
    let mut life = unanswered();
    life.reply(granted(1));
    life.releases();
    life.reply(Outcome::Released);
    life.ends();
}

#[test]
fn a_refusal_settles_an_unanswered_claim() {
    let mut life = unanswered();
    life.reply(Outcome::InProgress { lease_until: leader_time(life.now) });
    life.ends();
}

#[test]
fn superseded_does_not_settle_an_unanswered_claim() {
    let mut life = unanswered();
    life.reply(Outcome::Superseded);
    life.rests();
    life.sleep();
    life.reads();
}

#[test]
fn a_claim_that_was_never_submitted_is_given_up_at_once() {
    let mut life = Life::begin();
    life.claims();
    life.fail(Failure::Definite);
    life.outage(BEGUN + CLAIM_PATIENCE.get(), Failure::Definite);
    life.handle(Event::Wake);
    life.ends_with(Answer::ShardUnavailable);
}

#[test]
fn a_short_deadline_of_the_client_ends_its_patience() {
    let mut life = Life::begin_with(LEASE, 1_000);
    life.claims();
    life.at(BEGUN + 999).handle(Event::Wake);
    life.rests();
    life.sleep();
    assert_eq!(life.now, BEGUN + 1_000);
    life.answers(Answer::ShardUnavailable);
}

#[test]
fn a_spent_claim_is_released_and_made_again() {
    let mut life = Life::begin();
    life.claims();
    life.fail(Failure::Indefinite);
    life.at(BEGUN + 3_000).handle(Event::Wake);
    life.claims();
    life.reply(Outcome::Spent { grant: grant() });
    assert_eq!(life.submits(), Command::Release { name: name(), grant: grant() });
    life.reply(Outcome::Released);
    life.claims();
    // The lease of the new round has nothing to do with the copies of the one before.
    life.reply(granted(1));
    assert!(matches!(life.next(), Action::Connect { .. }));
    life.at(send_before() + 2_999).upstream(Upstream::Ready);
    assert_eq!(life.next(), Action::Send);
}

/// One whose client has been told to come back while the newest copy is on its way.
fn unanswered() -> Life {
    let mut life = Life::begin();
    life.claims();
    life.at(BEGUN + CLAIM_PATIENCE.get()).handle(Event::Wake);
    life.answers(Answer::ShardUnavailable);
    life
}
