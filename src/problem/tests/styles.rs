//! Each provider's error object, as its public documentation shows it.

use serde_json::json;

use super::*;

const STRIPE: Style = Style { errors: ErrorBody::Stripe, mismatch_status: StatusCode::BAD_REQUEST };
const ADYEN: Style = Style { errors: ErrorBody::Adyen, ..Style::DEFAULT };
const PAYPAL: Style = Style { errors: ErrorBody::Paypal, ..Style::DEFAULT };

async fn rendered(style: Style, problem: Problem) -> (Response<()>, Value) {
    let (head, body) = style.render(problem).into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(head, ()), serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn stripe_is_told_of_a_mismatch_by_400_and_of_another_request_by_409() {
    let (head, body) = rendered(STRIPE, Problem::new(Code::KeyReused, "another request")).await;
    assert_eq!(head.status(), 400);
    assert_eq!(head.headers()[CONTENT_TYPE], "application/json");
    assert_eq!(
        body,
        json!({ "error": {
            "type": "idempotency_error",
            "code": "key_reused",
            "message": "another request",
            "doc_url": "/problems/key-reused",
        } })
    );
    let mismatch = Problem::new(Code::OperationMismatch, "another endpoint");
    let (head, body) = rendered(STRIPE, mismatch).await;
    assert_eq!(
        (head.status().as_u16(), &body["error"]["type"]),
        (400, &json!("idempotency_error"))
    );
    let (head, body) = rendered(STRIPE, Problem::in_progress(Millis::ZERO)).await;
    assert_eq!(
        (head.status().as_u16(), &head.headers()[RETRY_AFTER]),
        (409, &"1".parse().unwrap())
    );
    assert_eq!(body["error"]["type"], "invalid_request_error");
    assert_eq!(body["error"]["code"], "idempotency_key_in_use");
}

#[tokio::test]
async fn stripes_libraries_are_told_when_not_to_repeat() {
    for code in Code::ALL {
        let (head, _) = rendered(STRIPE, Problem::new(code, "")).await;
        let said = head.headers().get("stripe-should-retry").map(|it| it.to_str().unwrap());
        assert_eq!(said, (!code.retryable()).then_some("false"), "{code:?}");
    }
}

#[tokio::test]
async fn adyen_is_told_of_another_request_by_704_as_a_transient_error() {
    let (head, body) = rendered(ADYEN, Problem::in_progress(Millis::ZERO)).await;
    assert_eq!(head.status(), 409);
    assert_eq!(head.headers()["transient-error"], "true");
    assert_eq!((&body["status"], &body["errorCode"]), (&json!(409), &json!("704")));
    assert_eq!(body["errorType"], "validation");
    assert!(body["message"].is_string() && body["pspReference"].is_string(), "{body}");
    assert!(body.get("additionalData").is_none());

    let reused = Problem::new(Code::KeyReused, "another request").member("members", json!(["/a"]));
    let (head, body) = rendered(ADYEN, reused).await;
    assert_eq!((head.status().as_u16(), &body["errorCode"]), (422, &json!("key-reused")));
    assert!(!head.headers().contains_key("transient-error"));
    assert_eq!(body["additionalData"], json!({ "members": ["/a"] }));
    let (_, body) = rendered(ADYEN, Problem::new(Code::Unauthenticated, "")).await;
    assert_eq!((&body["errorCode"], &body["errorType"]), (&json!("000"), &json!("security")));
}

#[tokio::test]
async fn paypal_is_told_a_name_an_issue_and_where_to_read_more() {
    let (head, body) = rendered(PAYPAL, Problem::in_progress(Millis::ZERO)).await;
    assert_eq!(head.status(), 409);
    assert_eq!(body["name"], "RESOURCE_CONFLICT");
    assert_eq!(body["details"][0]["issue"], "PREVIOUS_REQUEST_IN_PROGRESS");
    assert!(body["details"][0]["description"].is_string());
    assert!(body["debug_id"].as_str().unwrap().starts_with("urn:uuid:"));
    let page = json!({
        "href": "/problems/key-in-progress", "rel": "information_link", "method": "GET",
    });
    assert_eq!(body["links"], json!([page]));
    for (code, name, issue) in [
        (Code::KeyReused, "UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID"),
        (Code::KeyMissing, "INVALID_REQUEST", "PAYPAL_REQUEST_ID_REQUIRED"),
        (Code::Unauthenticated, "AUTHENTICATION_FAILURE", "UNAUTHENTICATED"),
        (Code::OutcomeIndeterminate, "RESOURCE_CONFLICT", "OUTCOME_INDETERMINATE"),
        (Code::OutcomePending, "INTERNAL_SERVER_ERROR", "OUTCOME_PENDING"),
        (Code::ShardUnavailable, "SERVICE_UNAVAILABLE", "SHARD_UNAVAILABLE"),
    ] {
        let (_, body) = rendered(PAYPAL, Problem::new(code, "")).await;
        assert_eq!((&body["name"], &body["details"][0]["issue"]), (&json!(name), &json!(issue)));
    }
}

/// What a client may do hangs on no style: the code is told in a header, "in progress: retry" and
/// "reused: stop" differ by status and by code, and so does everything else that did before.
#[tokio::test]
async fn every_style_tells_the_same_codes_apart() {
    for style in [Style::DEFAULT, STRIPE, ADYEN, PAYPAL] {
        for code in Code::ALL {
            let (head, body) = rendered(style, Problem::new(code, "why")).await;
            let retryable = u8::from(code.retryable());
            let (name, executed) = (code.name(), code.executed().as_str());
            let said = format!("{name}; retryable=?{retryable}; executed={executed}");
            assert_eq!(head.headers()[PROBLEM], said.as_str(), "{style:?}");
            assert!(body.to_string().contains("why"), "{style:?}: {body}");
        }
        let (busy, told_busy) = rendered(style, Problem::in_progress(Millis::ZERO)).await;
        let (reused, told_reused) = rendered(style, Problem::new(Code::KeyReused, "")).await;
        assert_ne!(busy.status(), reused.status(), "{style:?}");
        let code = |body: &Value| {
            let places = ["/code", "/error/code", "/errorCode", "/details/0/issue"];
            places.iter().find_map(|place| body.pointer(place).cloned()).expect("a code")
        };
        assert_ne!(code(&told_busy), code(&told_reused), "{style:?}");
    }
}
