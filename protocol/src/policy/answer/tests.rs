//! Tests of what answers mean, for every status, against a table that is written out.

use super::*;
use AnswersFrom::{Application, Proxy};
use Effect::{Release, Store, Unknown};

const ALL: std::ops::RangeInclusive<u16> = 100..=599;
const EFFECTS: [(&str, Effect); 3] = [("store", Store), ("release", Release), ("unknown", Unknown)];
const WORDS: [(&str, Effect); 3] = [("final", Store), ("retryable", Release), ("unknown", Unknown)];

/// First and last status of a row, what its statuses mean where the application answers, where a
/// proxy may, and where a proxy may and says when to come again; whether a class reaches them.
const TABLE: [(u16, u16, Effect, Effect, Effect, bool); 24] = [
    (100, 199, Unknown, Unknown, Unknown, false),
    (200, 299, Store, Store, Store, true),
    (300, 306, Store, Store, Store, true),
    (307, 308, Release, Release, Release, false),
    (309, 399, Store, Store, Store, true),
    (400, 400, Store, Store, Store, true),
    (401, 401, Release, Release, Release, false),
    (402, 406, Store, Store, Store, true),
    (407, 407, Release, Release, Release, false),
    (408, 408, Unknown, Unknown, Unknown, false),
    (409, 420, Store, Store, Store, true),
    (421, 421, Release, Release, Release, false),
    (422, 424, Store, Store, Store, true),
    (425, 425, Release, Release, Release, false),
    (426, 428, Store, Store, Store, true),
    (429, 429, Release, Release, Release, false),
    (430, 499, Store, Store, Store, true),
    (500, 500, Store, Unknown, Unknown, true),
    (501, 501, Unknown, Unknown, Unknown, false),
    (502, 502, Unknown, Unknown, Unknown, false),
    (503, 503, Release, Unknown, Release, false),
    (504, 504, Unknown, Unknown, Unknown, false),
    (505, 519, Unknown, Unknown, Unknown, false),
    (520, 599, Unknown, Unknown, Unknown, false),
];

const NEVER_STORED: [u16; 5] = [401, 429, 502, 503, 504];
const RELEASED_IF_IDEMPOTENT: [u16; 2] = [502, 504];

fn rules(rules: &[(&str, &str)]) -> StoreRules {
    let mut all = StoreRules::new(true);
    for (statuses, effect) in rules {
        all.set(statuses, effect).unwrap();
    }
    all
}

/// What the table says; and whether a class reaches the status.
fn expected(status: u16, answers_from: AnswersFrom, retry_after: bool) -> (Effect, bool) {
    let row = TABLE.iter().find(|row| (row.0..=row.1).contains(&status)).unwrap();
    let effect = match (answers_from, retry_after) {
        (Application, _) => row.2,
        (Proxy, false) => row.3,
        (Proxy, true) => row.4,
    };
    (effect, row.5)
}

/// Calls `check` for every status and every circumstance that the table tells apart.
fn for_all(mut check: impl FnMut(u16, AnswersFrom, bool)) {
    for status in ALL {
        for answers_from in [Application, Proxy] {
            for retry_after in [false, true] {
                check(status, answers_from, retry_after);
            }
        }
    }
}

/// What becomes of an effect that a rule asks for.
fn by_rule(effect: Effect, status: u16, answers_from: AnswersFrom) -> Effect {
    if effect == Store && answers_from == Proxy && status >= 500 { Unknown } else { effect }
}

#[test]
fn the_rows_of_the_table_leave_nothing_out() {
    assert_eq!((TABLE[0].0, TABLE[TABLE.len() - 1].1), (100, 599));
    assert!(TABLE.windows(2).all(|rows| rows[0].1 + 1 == rows[1].0));
}

#[test]
fn without_rules_every_status_means_what_the_table_says() {
    for_all(|status, answers_from, retry_after| {
        for rules in [StoreRules::new(false), StoreRules::new(true)] {
            let found = classify(&rules, answers_from, status, None, retry_after, 1);
            let (effect, _) = expected(status, answers_from, retry_after);
            assert_eq!(found, effect, "{status} {answers_from:?} {retry_after}");
        }
    });
}

#[test]
fn a_class_reaches_what_is_usually_stored_and_an_exact_status_beats_it() {
    for (text, effect) in EFFECTS {
        let classes = ["2xx", "3xx", "4xx", "5xx"].map(|class| (class, text));
        let by_class = rules(&classes);
        let mut with_exact = by_class.clone();
        with_exact.set("404", "unknown").unwrap();
        for_all(|status, answers_from, retry_after| {
            let found = classify(&by_class, answers_from, status, None, retry_after, 1);
            let (usual, reached) = expected(status, answers_from, retry_after);
            let wanted = if reached { by_rule(effect, status, answers_from) } else { usual };
            assert_eq!(found, wanted, "{status} {answers_from:?} {text}");

            let found = classify(&with_exact, answers_from, status, None, retry_after, 1);
            assert_eq!(found, if status == 404 { Unknown } else { wanted });
        });
    }
}

#[test]
fn a_class_reaches_no_other_class() {
    let rules = rules(&[("4xx", "unknown")]);
    for_all(|status, answers_from, retry_after| {
        let (usual, reached) = expected(status, answers_from, retry_after);
        let reached = reached && (400..=499).contains(&status);
        let found = classify(&rules, answers_from, status, None, retry_after, 1);
        assert_eq!(found, if reached { Unknown } else { usual });
    });
}

#[test]
fn every_allowed_rule_about_a_status_holds_for_it_alone() {
    for status in 200..=599 {
        for (text, effect) in EFFECTS {
            let mut rules = StoreRules::new(true);
            let set = rules.set(&status.to_string(), text);
            if effect == Store && NEVER_STORED.contains(&status) {
                assert_eq!(set, Err(StoreRuleError::NeverStored(status)));
                assert_eq!(rules, StoreRules::new(true), "a refused rule leaves nothing behind");
                continue;
            }
            assert_eq!(set, Ok(()));
            for answers_from in [Application, Proxy] {
                let found = classify(&rules, answers_from, status, None, false, 1);
                assert_eq!(found, by_rule(effect, status, answers_from), "{status} {text}");
                for other in [status - 1, status + 1] {
                    let found = classify(&rules, answers_from, other, None, false, 1);
                    let usual =
                        if other > 599 { Unknown } else { expected(other, answers_from, false).0 };
                    assert_eq!(found, usual, "{other} beside {status}");
                }
            }
        }
    }
}

#[test]
fn a_gateway_error_is_released_only_with_an_idempotent_downstream() {
    for status in 200..=599 {
        let mut rules = StoreRules::new(false);
        let set = rules.set(&status.to_string(), "release");
        if RELEASED_IF_IDEMPOTENT.contains(&status) {
            assert_eq!(set, Err(StoreRuleError::NeedsIdempotentDownstream(status)));
        } else {
            assert_eq!(set, Ok(()));
        }
    }
}

#[test]
fn on_a_second_attempt_in_use_is_unknown_whatever_the_rules_say() {
    let all_stored = rules(&[("409", "store"), ("425", "store"), ("4xx", "release")]);
    for rules in [StoreRules::new(false), all_stored] {
        for_all(|status, answers_from, retry_after| {
            let first = classify(&rules, answers_from, status, None, retry_after, 1);
            for attempt_no in [2, 3, u32::MAX] {
                let found = classify(&rules, answers_from, status, None, retry_after, attempt_no);
                let wanted = if [409, 425].contains(&status) { Unknown } else { first };
                assert_eq!(found, wanted, "{status}");
            }
        });
    }
}

#[test]
fn the_upstreams_own_word_outranks_table_and_rules_but_not_the_ban() {
    let against = rules(&[("404", "release"), ("409", "unknown"), ("500", "unknown")]);
    for (word, effect) in WORDS {
        for (rules, idempotent) in [(StoreRules::new(false), false), (against.clone(), true)] {
            for_all(|status, answers_from, retry_after| {
                for attempt_no in [1, 2] {
                    let of = |said| {
                        classify(&rules, answers_from, status, said, retry_after, attempt_no)
                    };
                    let banned = status < 200
                        || (effect == Store && NEVER_STORED.contains(&status))
                        || (effect == Release
                            && !idempotent
                            && RELEASED_IF_IDEMPOTENT.contains(&status));
                    let wanted = if banned { of(None) } else { effect };
                    assert_eq!(of(Some(word.as_bytes())), wanted, "{status} {word}");
                }
            });
        }
    }
}

#[test]
fn the_upstreams_word_is_read_in_any_case_and_anything_else_is_no_word() {
    let of = |said: &[u8]| classify(&StoreRules::default(), Application, 201, Some(said), false, 1);
    assert_eq!(of(b" Retryable\t"), Release);
    assert_eq!(of(b"UNKNOWN"), Unknown);
    for said in [&b""[..], b"retry", b"retryable, final", b"retryable;a", b"\xff"] {
        assert_eq!(of(said), Store, "{said:?}");
    }
}

#[test]
fn what_is_no_final_status_is_unknown() {
    for status in [0, 1, 99, 100, 101, 199, 600, 999, u16::MAX] {
        for word in [None, Some(&b"final"[..])] {
            let found = classify(&StoreRules::default(), Application, status, word, true, 1);
            assert_eq!(found, Unknown, "{status}");
        }
    }
}

#[test]
fn rules_that_cannot_be_read_are_refused() {
    let statuses = [
        "", "4", "40", "4040", "0404", "+404", " 404", "404 ", "4XX", "4x", "xxx", "1xx", "6xx",
        "199", "100", "600", "999", "4x4", "200-299", "٤٠٤",
    ];
    for statuses in statuses {
        let set = StoreRules::new(true).set(statuses, "release");
        assert_eq!(set, Err(StoreRuleError::Statuses), "{statuses}");
    }
    for effect in ["", "Store", "stored", "keep", "final", " store"] {
        assert_eq!(StoreRules::new(true).set("404", effect), Err(StoreRuleError::Effect));
    }
}

#[test]
fn where_only_success_is_stored_a_refusal_frees_the_key_and_all_else_is_as_it_was() {
    let rules = StoreRules::only_success(true);
    for_all(|status, answers_from, retry_after| {
        let (usual, _) = expected(status, answers_from, retry_after);
        let wanted = match (status, usual) {
            (400..=499, Store) => Release,
            (300.., Store) => Unknown,
            (_, usual) => usual,
        };
        let effect = |said| classify(&rules, answers_from, status, said, retry_after, 1);
        assert_eq!(effect(None), wanted, "{status}");
        // The upstream's own word stores nothing else either.
        let wanted = if (200..=299).contains(&status) { Store } else { wanted };
        assert_eq!(effect(Some(b"final")), wanted, "{status}");
    });
}

#[test]
fn where_only_success_is_stored_rules_say_otherwise_but_never_to_store() {
    for statuses in ["3xx", "4xx", "5xx", "404", "301", "500"] {
        let mut rules = StoreRules::only_success(false);
        assert_eq!(rules.set(statuses, "store"), Err(StoreRuleError::OnlySuccess), "{statuses}");
        rules.set(statuses, "unknown").unwrap();
    }
    let mut rules = StoreRules::only_success(false);
    for (statuses, effect) in [("2xx", "store"), ("404", "unknown"), ("5xx", "release")] {
        rules.set(statuses, effect).unwrap();
    }
    let effect = |status| classify(&rules, Application, status, None, false, 1);
    assert_eq!((effect(201), effect(404), effect(422)), (Store, Unknown, Release));
    assert_eq!((effect(500), effect(303)), (Release, Unknown));
}
