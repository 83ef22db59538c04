//! The claims API is linearizable for each key: its answers are those of the
//! [`model`](crate::model) in some order in which no call comes before one that had ended when it
//! began.
//!
//! The product repeats a claim by itself when an answer is lost within it. So a claim that took a
//! while may have been granted without anybody having heard of it, before it was answered
//! otherwise; the search tries that too.
//!
//! The search is Wing and Gong's, with what was visited remembered: a set of calls that have
//! happened, and the state that they led to. The model may go on in several ways from one state,
//! and a lease may end at any moment, so the search is over all of them. Histories are short by
//! design; one that is too long, or takes too many steps, is undecided, which is a failure.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Case, Done, Finding};
use crate::client::Certainty;
use crate::model::State;
use crate::operation::{Answer, Verb};

/// The most calls about one key.
const CALLS_MAX: usize = 60;

/// The most states that are visited for one key.
const STATES_MAX: usize = 2_000_000;

/// How old an "in progress" may be, in microseconds.
const STALE_US: u64 = 2_000_000;

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("linearizable");
    for (name, calls) in case.by_name() {
        if calls.iter().any(|done| done.call.verb.is_post()) {
            continue;
        }
        match order(&calls) {
            Order::Found => {}
            Order::None => finding.violated(format!("{name}: {}", told(&calls))),
            Order::Undecided(why) => finding.undecided(format!("{name}: {why}")),
        }
    }
    finding
}

/// Whether there is an order.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Found,
    None,
    Undecided(String),
}

/// One call in the search.
struct Step<'a> {
    done: Cow<'a, Done>,
    invoked: u64,
    /// By when it has happened; never, if it may not have.
    returned: u64,
    /// The place of the step that it can only come before.
    before: Option<usize>,
}

/// The steps of a history.
fn steps<'a>(calls: &[&'a Done]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for done in calls.iter().filter(|done| counts(done)) {
        let stale = if done.answer.code == "key-in-progress" { STALE_US } else { 0 };
        let returned = if done.end == Certainty::Info { u64::MAX } else { done.returned };
        let invoked = done.invoked.saturating_sub(stale);
        steps.push(Step { done: Cow::Borrowed(*done), invoked, returned, before: None });
        if done.may_have_been_granted_unheard() {
            let unheard = Done {
                end: Certainty::Info,
                returned: u64::MAX,
                answer: Answer::default(),
                ..(*done).clone()
            };
            let (invoked, before) = (done.invoked, Some(steps.len() - 1));
            steps.push(Step { done: Cow::Owned(unheard), invoked, returned: u64::MAX, before });
        }
    }
    steps
}

/// Whether a call is part of the search; one that tells nothing and did nothing is not.
fn counts(done: &Done) -> bool {
    let never_sent = done.end == Certainty::Fail && done.answer.status == 0;
    let untold = done.call.verb == Verb::Read && done.answer.is_unavailable();
    !never_sent && !untold
}

fn order(calls: &[&Done]) -> Order {
    let steps = steps(calls);
    let count = calls.iter().filter(|done| counts(done)).count();
    if count > CALLS_MAX {
        return Order::Undecided(format!("{count} calls are too many"));
    }
    let bit = |index: usize| 1_u128 << index;
    let certain = steps.iter().enumerate().filter(|(_, step)| step.returned != u64::MAX);
    let must = certain.fold(0, |set, (index, _)| set | bit(index));
    let mut visited = HashSet::new();
    let mut open = vec![(0, State::new())];
    while let Some((happened, state)) = open.pop() {
        if happened & must == must {
            return Order::Found;
        }
        if visited.len() > STATES_MAX {
            return Order::Undecided("there are too many orders".to_owned());
        }
        let left = || steps.iter().enumerate().filter(|(index, _)| happened & bit(*index) == 0);
        // Nothing may come before a call that has ended when it began.
        let first_end = left().map(|(_, step)| step.returned).min().unwrap_or(u64::MAX);
        let may_come = |step: &Step<'_>| {
            step.invoked <= first_end && step.before.is_none_or(|next| happened & bit(next) == 0)
        };
        for (index, step) in left().filter(|(_, step)| may_come(step)) {
            for next in state.after(&step.done) {
                let reached = (happened | bit(index), next);
                if visited.insert(reached.clone()) {
                    open.push(reached);
                }
            }
        }
    }
    Order::None
}

/// The calls about a key, for whoever looks for what went wrong.
fn told(calls: &[&Done]) -> String {
    let mut text = "no order explains".to_owned();
    for done in calls {
        let (begin, end) = (done.invoked / 1000, done.returned / 1000);
        let answer = &done.answer;
        let said = [&answer.state, &answer.code, &answer.nonce, &answer.error];
        let said: Vec<_> = said.into_iter().filter(|said| !said.is_empty()).collect();
        text += &format!(
            "\n  {begin}..{end} ms call {} node {} {:?}: {:?} {} fence {} {said:?}",
            done.id, done.call.node, done.call.verb, done.end, answer.status, answer.fence
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::Name;

    fn verdict(case: &Case) -> Order {
        order(&case.calls.iter().collect::<Vec<_>>())
    }

    fn read(state: &str, fence: u64, nonce: &str) -> (Certainty, Answer) {
        let (_, answer) = fine(state);
        (Certainty::Ok, Answer { fence, nonce: nonce.to_owned(), ..answer })
    }

    fn replay(nonce: &str) -> (Certainty, Answer) {
        (Certainty::Ok, Answer { status: 200, replayed: true, ..outcome(nonce).1 })
    }

    fn key(operation: &str) -> Name {
        name(operation, "k")
    }

    /// A key's whole life, in order.
    fn life() -> Case {
        let key = key("claims");
        Case::default()
            .call(&key, claim("a", 0), (0, S), granted(1))
            .call(&key, claim("b", 0), (S / 2, S), refused(409, "key-in-progress"))
            .call(&key, claim("c", 1), (S / 2, S), refused(422, "key-reused"))
            .call(&key, complete(1, "n1"), (2 * S, 3 * S), fine("completed"))
            .call(&key, claim("d", 0), (4 * S, 5 * S), replay("n1"))
            .call(&key, Verb::Read, (6 * S, 7 * S), read("completed", 1, "n1"))
    }

    #[test]
    fn a_life_in_order_is_accepted() {
        assert_eq!(verdict(&life()), Order::Found);
        assert!(check(&life()).is_clean());
    }

    #[test]
    fn two_grants_at_once_are_rejected() {
        let case = life().call(&key("claims"), claim("e", 0), (S / 2, 2 * S), granted(2));
        assert_eq!(verdict(&case), Order::None);
        assert_eq!(check(&case).violations.len(), 1);
    }

    #[test]
    fn a_lost_completion_is_rejected() {
        let case = life().call(&key("claims"), claim("e", 0), (8 * S, 9 * S), granted(2));
        assert_eq!(verdict(&case), Order::None);
    }

    #[test]
    fn a_call_whose_answer_was_lost_may_have_happened_or_not() {
        let key = key("claims");
        let lost_claim = Case::default().call(&key, claim("a", 0), (0, S), lost());
        for after in [granted(7), refused(409, "key-in-progress")] {
            let case = lost_claim.clone().call(&key, claim("b", 0), (2 * S, 3 * S), after);
            assert_eq!(verdict(&case), Order::Found);
        }
        let case = lost_claim.call(&key, claim("b", 0), (2 * S, 3 * S), replay("n1"));
        assert_eq!(verdict(&case), Order::None, "nobody completed it");
    }

    #[test]
    fn a_lease_ends_in_time_and_not_before() {
        for (at, order) in [(4 * S, Order::Found), (S / 2, Order::None)] {
            let key = key("claims");
            let case = Case::default().call(&key, claim("a", 0), (0, S / 4), granted(1)).call(
                &key,
                claim("b", 0),
                (at, at + S / 4),
                refused(409, "outcome-indeterminate"),
            );
            assert_eq!(verdict(&case), order, "at {at}");
            let key = self::key("again");
            let case = Case::default()
                .call(&key, claim("a", 0), (0, S / 4), granted(1))
                .call(&key, claim("b", 0), (at, at + S / 4), granted(2))
                .call(&key, complete(1, "n1"), (5 * S, 6 * S), refused(409, "stale-fence"));
            assert_eq!(verdict(&case), order, "at {at}, taken over");
        }
    }

    #[test]
    fn a_claim_that_took_long_may_have_been_granted_unheard() {
        let key = key("claims");
        let case = |until: u64| {
            let spent = refused(409, "outcome-indeterminate");
            Case::default().call(&key, claim("a", 0), (0, until), spent).call(
                &key,
                claim("b", 0),
                (S / 100, S / 50),
                refused(409, "key-in-progress"),
            )
        };
        assert_eq!(verdict(&case(4 * S)), Order::Found);
        assert_eq!(verdict(&case(S / 30)), Order::None, "its lease cannot have ended");
    }

    #[test]
    fn a_lost_answer_lets_no_lease_end_early() {
        let key = key("claims");
        let case = Case::default()
            .call(&key, claim("a", 0), (0, S / 50), granted(1))
            .call(&key, claim("b", 0), (S / 50, S / 40), lost())
            .call(&key, claim("c", 0), (S / 30, S / 20), refused(409, "outcome-indeterminate"));
        assert_eq!(verdict(&case), Order::None);
    }

    #[test]
    fn a_stale_fence_must_change_nothing() {
        let key = key("again");
        let case = Case::default()
            .call(&key, claim("a", 0), (0, S), granted(1))
            .call(&key, claim("b", 0), (4 * S, 5 * S), granted(2))
            .call(&key, complete(1, "n1"), (6 * S, 7 * S), fine("completed"));
        assert_eq!(verdict(&case), Order::None);
    }

    #[test]
    fn what_fails_closed_stays_closed_until_an_operator_comes() {
        let key = key("claims");
        let case = Case::default()
            .call(&key, claim("a", 0), (0, S), granted(1))
            .call(&key, Verb::Unknown { fence: 1 }, (S, 2 * S), fine("indeterminate"))
            .call(&key, claim("b", 0), (3 * S, 4 * S), refused(409, "outcome-indeterminate"));
        let granted = |case: Case| case.call(&key, claim("c", 0), (8 * S, 9 * S), granted(3));
        assert_eq!(verdict(&granted(case.clone())), Order::None);
        let resolve = Verb::Resolve { fence: 1, nonce: None, force: false };
        let (end, answer) = fine("released");
        let released =
            case.call(&key, resolve, (5 * S, 6 * S), (end, Answer { fence: 2, ..answer }));
        assert_eq!(verdict(&granted(released)), Order::Found);
    }

    #[test]
    fn an_in_progress_may_be_two_seconds_old() {
        let at = |at: u64| {
            let key = key("claims");
            let case = Case::default()
                .call(&key, claim("a", 0), (0, S), granted(1))
                .call(&key, complete(1, "n1"), (S, 2 * S), fine("completed"))
                .call(&key, claim("b", 0), (at, at + S), refused(409, "key-in-progress"));
            verdict(&case)
        };
        assert_eq!((at(3 * S), at(5 * S)), (Order::Found, Order::None));
    }

    #[test]
    fn too_many_calls_are_undecided() {
        let key = key("claims");
        let case = (0..61).fold(Case::default(), |case, at| {
            case.call(&key, Verb::Read, (at * S, at * S + 1), refused(404, "not-found"))
        });
        assert!(matches!(verdict(&case), Order::Undecided(_)));
        assert_eq!(check(&case).undecided.len(), 1);
    }
}
