use http::header::{CONTENT_TYPE, LOCATION};
use http_body_util::BodyExt;
use protocol::command::Grant;
use protocol::key::Malformed;
use protocol::{Fence, Fingerprint, Token};
use serde_json::json;

use super::*;

mod styles;

async fn document(problem: Problem) -> (Response<()>, Value) {
    let (head, body) = problem.into_response().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(head, ()), serde_json::from_slice(&bytes).unwrap())
}

/// What the documentation promises: name, status, retryable, executed.
const PROMISED: [(&str, u16, bool, &str); 30] = [
    ("key-missing", 400, false, "no"),
    ("key-malformed", 400, false, "no"),
    ("key-too-long", 400, false, "no"),
    ("invalid-request", 400, false, "no"),
    ("unauthenticated", 401, false, "no"),
    ("forbidden", 403, false, "no"),
    ("not-found", 404, false, "no"),
    ("invalid-request", 405, false, "no"),
    ("invalid-request", 408, true, "no"),
    ("body-too-large", 413, false, "no"),
    ("invalid-request", 431, false, "no"),
    ("invalid-request", 414, false, "no"),
    ("key-in-progress", 409, true, "unknown"),
    ("outcome-indeterminate", 409, false, "unknown"),
    ("response-not-replayable", 409, false, "yes"),
    ("replay-redirect", 409, false, "yes"),
    ("stale-fence", 409, false, "unknown"),
    ("invalid-request", 409, false, "unknown"),
    ("key-reused", 422, false, "no"),
    ("operation-mismatch", 422, false, "no"),
    ("rate-limited", 429, true, "no"),
    ("quota-exceeded", 429, true, "no"),
    ("invalid-request", 501, false, "no"),
    ("upstream-unreachable", 502, true, "no"),
    ("outcome-unknown", 502, true, "unknown"),
    ("outcome-unknown", 504, true, "unknown"),
    ("outcome-pending", 504, true, "unknown"),
    ("shard-unavailable", 503, true, "no"),
    ("config-mismatch", 503, true, "no"),
    ("internal", 500, false, "unknown"),
];

#[tokio::test]
async fn every_code_says_what_is_promised_and_has_a_page() {
    assert_eq!(Code::ALL.len(), PROMISED.len());
    for (code, promised) in Code::ALL.into_iter().zip(PROMISED) {
        let (head, body) = document(Problem::new(code, "why")).await;
        let (name, status, retryable, executed) = promised;
        assert_eq!(head.status().as_u16(), status, "{code:?}");
        assert_eq!(head.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(body["code"], name, "{code:?}");
        assert_eq!(body["status"], status, "{code:?}");
        assert_eq!(body["retryable"], retryable, "{code:?}");
        assert_eq!(body["executed"], executed, "{code:?}");
        assert_eq!(body["detail"], "why");
        assert!(!body["title"].as_str().unwrap().is_empty());
        let path = body["type"].as_str().unwrap();
        let page = page(&http::Method::GET, path).expect("the type is a page");
        let text = page.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains(code.explanation()), "{path}: {text}");
    }
}

#[test]
fn only_pages_of_codes_are_answered() {
    for path in ["/problems/", "/problems", "/problems/nothing", "/problems/key-reused/", "/orders"]
    {
        assert!(page(&http::Method::GET, path).is_none(), "{path}");
    }
    assert!(page(&http::Method::POST, "/problems/key-reused").is_none());
}

#[tokio::test]
async fn an_instance_is_a_uuid_and_never_the_same() {
    let (_, first) = document(Problem::invalid("")).await;
    let (_, second) = document(Problem::invalid("")).await;
    let instance = first["instance"].as_str().unwrap();
    assert_ne!(first["instance"], second["instance"]);
    let groups: Vec<usize> =
        instance.strip_prefix("urn:uuid:").unwrap().split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12], "{instance}");
    assert_eq!(&instance[23..24], "4", "{instance}");
}

#[tokio::test]
async fn members_and_headers_stand_beside_the_usual_ones() {
    let problem = Problem::new(Code::KeyReused, "other body")
        .member("pointers", json!(["/amount"]))
        .header(LOCATION, HeaderValue::from_static("/orders/1"))
        .retry_after(Millis::new(1001));
    let (head, body) = document(problem).await;
    assert_eq!(body["pointers"], json!(["/amount"]));
    assert_eq!(head.headers()[LOCATION], "/orders/1");
    assert_eq!(head.headers()[RETRY_AFTER], "2");
}

#[tokio::test]
async fn an_unauthenticated_caller_is_told_how_to_authenticate() {
    let (head, _) = document(Problem::new(Code::Unauthenticated, "")).await;
    assert_eq!(head.headers()[WWW_AUTHENTICATE], "Bearer");
}

#[tokio::test]
async fn in_progress_asks_to_wait_between_a_second_and_the_rest_of_the_lease() {
    for (rest, most) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (10_000, 10)] {
        for _ in 0..50 {
            let (head, _) = document(Problem::in_progress(Millis::new(rest))).await;
            let wait: u64 = head.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
            assert!((1..=most).contains(&wait), "{wait} s of {rest} ms");
        }
    }
}

#[test]
fn every_refusal_has_a_problem_and_no_success_has_one() {
    let at = Timestamp::from_millis(5000);
    let grant = Grant { fence: Fence::from_number(1), token: Token::new([0; 16]) };
    let stored = Box::new(Fingerprint { version: 1, digest: [0; 32] }.into());
    let refusals = [
        (Outcome::InProgress { lease_until: at }, Code::KeyInProgress),
        (Outcome::Reused { stored }, Code::KeyReused),
        (Outcome::Spent { grant }, Code::OutcomeIndeterminate),
        (Outcome::OtherOperation, Code::OperationMismatch),
        (Outcome::Indeterminate, Code::OutcomeIndeterminate),
        (Outcome::Superseded, Code::ShardUnavailable),
        (Outcome::Forgetting { until: at }, Code::ShardUnavailable),
        (Outcome::Stale { record: None }, Code::StaleFence),
        (Outcome::Conflict, Code::StateConflict),
    ];
    for (outcome, code) in refusals {
        let problem = Problem::refusal(&outcome, Timestamp::ZERO).expect("a refusal");
        assert_eq!(problem.code(), code, "{outcome:?}");
    }
    for outcome in [
        Outcome::Granted { grant, generation: grant.fence, attempt_no: 1, lease_until: at },
        Outcome::Renewed { lease_until: at },
        Outcome::Completed,
        Outcome::Released,
        Outcome::Unknown { takeover: true },
        Outcome::Revised { revision: 1 },
        Outcome::Nothing,
    ] {
        assert!(Problem::refusal(&outcome, Timestamp::ZERO).is_none(), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_submit_error_is_retryable_and_says_whether_it_may_still_take_effect() {
    for (error, word) in [(SubmitError::NoLeader, "nothing was"), (SubmitError::Lost, "repeat")] {
        let (head, body) = document(error.into()).await;
        assert_eq!(head.status(), 503);
        assert_eq!(head.headers()[RETRY_AFTER], "1");
        assert_eq!(body["retryable"], true);
        assert!(body["detail"].as_str().unwrap().contains(word), "{body}");
    }
}

#[tokio::test]
async fn a_process_with_another_policy_says_so() {
    let (head, body) = document(SubmitError::ConfigMismatch.into()).await;
    assert_eq!((head.status().as_u16(), &body["code"]), (503, &json!("config-mismatch")));
    assert!(head.headers().contains_key(RETRY_AFTER));
    assert_eq!((&body["retryable"], &body["executed"]), (&json!(true), &json!("no")));
}

#[test]
fn a_key_that_cannot_be_read_has_its_own_code() {
    let long = Problem::from(KeyError::TooLong { limit: 255 });
    assert_eq!(long.code(), Code::KeyTooLong);
    let malformed = Problem::from(KeyError::Malformed(Malformed::Empty));
    assert_eq!(malformed.code(), Code::KeyMalformed);
}
