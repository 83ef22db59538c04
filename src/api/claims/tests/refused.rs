//! What the claims API refuses, and how.

use cluster::SubmitError;
use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn a_claim_whose_body_is_wrong_is_refused_and_says_why() {
    let served = serve();
    let body = claim_body("1");
    let cases = [
        (with(body.clone(), "colour", json!(1)), "colour"),
        (without(body.clone(), "attempt"), "attempt"),
        (without(body.clone(), "key"), "key"),
        (without(body.clone(), "operation"), "operation"),
        (without(body.clone(), "payload"), "payload"),
        (with(body.clone(), "fingerprint", json!("f")), "fingerprint"),
        (with(body.clone(), "attempt", json!("")), "attempt"),
        (with(body.clone(), "attempt", json!("x".repeat(129))), "attempt"),
        (with(body.clone(), "attempt", json!(7)), "expected a string"),
        (with(body.clone(), "operation", json!("GET /orders")), "operation"),
        (with(body.clone(), "lease", json!(10)), "expected a string"),
        (with(body.clone(), "lease", json!("10")), "lease"),
        (with(body.clone(), "lease", json!("0s")), "lease"),
        (with(body.clone(), "lease", json!("-1s")), "lease"),
        (with(body.clone(), "lease", json!("1999ms")), "2s"),
        (with(body.clone(), "lease", json!("61s")), "1m"),
        (with(body.clone(), "retention", json!("3d")), "retention"),
        (with(body.clone(), "retention", json!("1h")), "retention"),
        (with(body.clone(), "on_unknown", json!("takeover")), "stricter"),
        (with(body.clone(), "on_unknown", json!("maybe")), "on_unknown"),
        (json!([]), "body"),
        (json!("x"), "body"),
    ];
    for (body, word) in cases {
        let answer = served.call("", body.clone()).await;
        assert_problem(&answer, 400, "invalid-request");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{body}: {detail}");
    }
    for text in ["", "{", "{}{}", "nonsense", "\u{1}", r#"{"key":"k","key":"k"}"#] {
        let answer = served.send("POST", "/v1/claims", "a", text.to_owned()).await;
        assert_problem(&answer, 400, "invalid-request");
    }
    assert_eq!(served.judge.submitted(), 0, "nothing was claimed");
}

#[tokio::test]
async fn a_null_payload_is_a_payload() {
    let served = serve();
    let answer = served.call("", with(claim_body("1"), "payload", Value::Null)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[tokio::test]
async fn keys_have_their_own_problems() {
    let served = serve();
    let claim = |key: String| with(claim_body("1"), "key", json!(key));
    assert_problem(&served.call("", claim("k".repeat(256))).await, 400, "key-too-long");
    assert_problem(&served.call("", claim(String::new())).await, 400, "key-malformed");
    assert_problem(&served.call("", claim("a\nb".into())).await, 400, "key-malformed");
    assert_eq!(served.call("", claim("k".repeat(255))).await.status, 201);
    assert_eq!(served.call("", claim("with space, and comma".into())).await.status, 201);
}

#[tokio::test]
async fn grants_and_responses_are_read_strictly() {
    let served = serve();
    let grant = served.granted("1").await;
    let response = |response: Value| with(grant.clone(), "response", response);
    for body in [
        with(grant.clone(), "token", json!("zz")),
        with(grant.clone(), "fence", json!("1")),
        with(grant.clone(), "fence", json!(1.5)),
        with(grant.clone(), "fence", json!(-1)),
        without(grant.clone(), "token"),
        grant.clone(),
        response(json!({"status": 99})),
        response(json!({"status": 100})),
        response(json!({"status": 401})),
        response(json!({"status": 429})),
        response(json!({"status": 502})),
        response(json!({"status": 503})),
        response(json!({"status": 504})),
        response(json!({"status": 204, "body_base64": "aGVsbG8="})),
        response(json!({"status": 205, "json": null})),
        response(json!({"status": 304, "body_base64": "aGVsbG8="})),
        response(json!({"status": "200"})),
        response(json!({"status": 200, "headers": [["Set-Cookie", "a=b"]]})),
        response(json!({"status": 200, "headers": [["Location", "a\nb"]]})),
        response(json!({"status": 200, "headers": [["", "x"]]})),
        response(json!({"status": 200, "headers": {"Location": "/x"}})),
        response(json!({"status": 200, "body_base64": "%%"})),
        response(json!({"status": 200, "body_base64": "", "json": 1})),
        response(json!({"status": 200, "text": "x"})),
        with(response(json!({"status": 200})), "json", json!(1)),
    ] {
        let answer = served.call("/complete", body.clone()).await;
        assert_problem(&answer, 400, "invalid-request");
    }
    let large = "A".repeat(2000);
    let answer =
        served.call("/complete", response(json!({"status": 200, "body_base64": large}))).await;
    assert_problem(&answer, 413, "body-too-large");
    let renew = served.call("/renew", grant.clone()).await;
    assert_problem(&renew, 400, "invalid-request");
    let wrong = with(grant.clone(), "token", json!("0".repeat(32)));
    assert_problem(&served.call("/release", wrong).await, 409, "stale-fence");
    let done = served.call("/complete", response(json!({"status": 200}))).await;
    assert_eq!(done.status, 200, "the grant is still good: {}", done.body);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let served = serve();
    let body = with(claim_body("1"), "payload", json!("x".repeat(BODY_MAX)));
    assert_problem(&served.call("", body).await, 413, "body-too-large");
}

#[tokio::test]
async fn nobody_calls_without_a_credential_for_it() {
    let served = serve();
    let body = claim_body("1").to_string();
    for (key, status, code) in [
        ("", 401, "unauthenticated"),
        ("nobody", 401, "unauthenticated"),
        ("web", 403, "forbidden"),
    ] {
        let answer = served.send("POST", "/v1/claims", key, body.clone()).await;
        assert_problem(&answer, status, code);
        assert_problem(&served.look_up(key).await, status, code);
    }
}

#[tokio::test]
async fn only_a_completed_record_is_revised() {
    let served = serve();
    let revise = json!({"operation": "orders", "key": "k", "response": {"status": 200}});
    assert_problem(&served.call("/revise", revise.clone()).await, 409, "invalid-request");
    served.granted("1").await;
    assert_problem(&served.call("/revise", revise).await, 409, "invalid-request");
}

#[tokio::test]
async fn a_look_up_names_one_operation_and_one_key() {
    let served = serve();
    for query in [
        "",
        "?operation=orders",
        "?operation=orders&key=k&x=1",
        "?key=k&key=k&operation=o",
        "?operation=GET+/orders&key=k",
    ] {
        let answer = served.send("GET", &format!("/v1/claims{query}"), "a", String::new()).await;
        assert_problem(&answer, 400, "invalid-request");
    }
}

#[tokio::test]
async fn a_shard_that_cannot_decide_is_a_503_to_be_retried() {
    let served = serve();
    served.judge.refuse(SubmitError::NoLeader);
    let answer = served.claim("1").await;
    assert_problem(&answer, 503, "shard-unavailable");
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.body["executed"], "no");

    let grant = served.granted("1").await;
    served.judge.refuse(SubmitError::TimedOut);
    served.judge.refuse(SubmitError::NoLeader);
    let answer = served.call("/unknown", grant).await;
    assert_problem(&answer, 503, "shard-unavailable");
    assert_eq!(answer.body["executed"], "unknown");

    served.judge.distrust_clock();
    assert_problem(&served.claim("2").await, 503, "shard-unavailable");
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    let served = serve();
    let answer = served.send("GET", "/v2", "a", String::new()).await;
    assert_problem(&answer, 404, "not-found");
    let answer = served.send("DELETE", "/v1/claims", "a", String::new()).await;
    assert_problem(&answer, 405, "invalid-request");
    assert_eq!(answer.headers["allow"], "POST,GET,HEAD");
}
