//! Clients that were written for a provider, at a gateway with that provider's profile. What they
//! expect is what the provider's public documentation says.

use std::sync::Arc;

use protocol::Command;
use protocol::response::{StoredBody, StoredResponse};
use serde_json::Value;
use tokio::sync::Notify;

use super::API_KEY;
use super::client::{Got, Served, keyed, request};
use super::judge::Kind;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\nlocation: /orders/1\r\ncontent-length: 7\r\n\r\n\
    {\"n\":1}";

/// A policy of one operation with this profile and these lines.
fn operation(profile: &str, lines: &str) -> String {
    format!(
        "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\nprofile = \"{profile}\"\n\
         retention = \"7d\"\n{lines}\n"
    )
}

async fn served(profile: &str, lines: &str) -> (Stub, Served) {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, &operation(profile, lines)).await;
    (stub, served)
}

impl Served {
    /// The upstream's own service says that the one outcome there is is now `200` with this body.
    fn revise(&self, body: &str) {
        let name = self.judge.name().expect("a record");
        let response = StoredResponse {
            status: 200,
            headers: Vec::new(),
            body: StoredBody::Whole(body.into()),
        };
        self.judge.decide(Command::Revise { name, operation: None, response });
    }
}

/// A request with this key header line.
fn with_line(line: &str) -> String {
    format!("POST /orders HTTP/1.1\r\nauthorization: Bearer {API_KEY}\r\n{line}")
}

fn json(got: &Got) -> Value {
    assert_eq!(got.one("content-type"), Some("application/json"), "{}", got.head);
    serde_json::from_slice(&got.body).unwrap()
}

/// The code that the answer tells in its header.
fn code(got: &Got) -> &str {
    let said = got.one("idempotency-problem").expect("a problem of the gateway's");
    said.split(';').next().unwrap()
}

#[tokio::test]
async fn the_draft_takes_a_structured_string_and_nothing_else() {
    let (stub, served) = served("draft-07", "").await;
    let bare = served.keyed("POST /orders", "k", "").await;
    assert_eq!(bare.problem(), (400, "key-malformed".into()));
    assert!(stub.seen().is_empty());
    assert_eq!(served.keyed("POST /orders", "\"k\"", "").await.status(), 201);
    assert!(served.keyed("POST /orders", "\"k\"; note=1", "").await.is_replay());
    let other = served.keyed("POST /orders", "\"k\"", "other").await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn paypal_names_its_own_header_and_error_object() {
    let (stub, served) = served("paypal", "required = true").await;
    // The convention's header means nothing here, so that this request has no key.
    let missing = served.keyed("POST /orders", "k", "").await;
    assert_eq!(missing.status(), 400);
    assert_eq!(json(&missing)["details"][0]["issue"], "PAYPAL_REQUEST_ID_REQUIRED");
    let long = "x".repeat(109);
    let long = served.ask(&with_line(&format!("PayPal-Request-Id: {long}")), "").await;
    assert_eq!((long.status(), code(&long)), (400, "key-too-long"));
    assert!(stub.seen().is_empty());

    let head = with_line("paypal-request-id: k");
    assert_eq!(served.ask(&head, "").await.status(), 201);
    assert_eq!(stub.seen()[0].one("idempotency-key"), Some("k"));
    assert!(served.ask(&head, "").await.is_replay());
    let other = served.ask(&head, "other").await;
    assert_eq!((other.status(), code(&other)), (422, "key-reused"));
    assert_eq!(json(&other)["name"], "UNPROCESSABLE_ENTITY");
}

#[tokio::test]
async fn paypal_answers_a_repeat_with_the_newest_state() {
    let (stub, served) = served("paypal", "").await;
    let head = with_line("paypal-request-id: k");
    assert_eq!(served.ask(&head, "").await.status(), 201);
    served.revise("{\"n\":1,\"status\":\"COMPLETED\"}");
    let repeat = served.ask(&head, "").await;
    assert!(repeat.is_replay());
    assert_eq!(repeat.status(), 200);
    assert_eq!(repeat.body, b"{\"n\":1,\"status\":\"COMPLETED\"}");
    assert_eq!(stub.seen().len(), 1);
}

/// Two operations of one profile, whose keys belong to the account.
fn account(profile: &str) -> String {
    let operation = |path: &str| {
        format!(
            "[[operation]]\nmatch = \"POST /{path}\"\nname = \"{path}\"\nprofile = \"{profile}\"\n"
        )
    };
    operation("orders") + &operation("refunds")
}

#[tokio::test]
async fn stripe_refuses_other_parameters_and_another_endpoint_in_one_way() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, &account("stripe")).await;
    let long = "x".repeat(255);
    for key in ["k", long.as_str()] {
        assert_eq!(served.keyed("POST /orders", key, "a=1").await.status(), 201);
        let again = served.keyed("POST /orders", key, "a=1").await;
        assert!(again.is_replay() && again.one("idempotency-key").is_none());
        for (line, body, told) in
            [("POST /orders", "a=2", "key-reused"), ("POST /refunds", "a=1", "operation-mismatch")]
        {
            let refused = served.keyed(line, key, body).await;
            assert_eq!((refused.status(), code(&refused)), (400, told));
            assert_eq!(json(&refused)["error"]["type"], "idempotency_error");
            assert_eq!(refused.one("stripe-should-retry"), Some("false"));
        }
    }
    let longer = served.keyed("POST /orders", &"x".repeat(256), "").await;
    assert_eq!((longer.status(), code(&longer)), (400, "key-too-long"));
    assert_eq!(json(&longer)["error"]["type"], "invalid_request_error");
    assert_eq!(stub.seen().len(), 2);
}

/// Stripe's libraries repeat after every 409: of those that say "stop" they must be told so.
#[tokio::test]
async fn stripes_libraries_are_stopped_where_nobody_can_tell() {
    let stub = Stub::always(vec![Step::Reset]).await;
    let served = Served::new(&stub, &account("stripe")).await;
    let lost = served.keyed("POST /orders", "k", "").await;
    assert_eq!((lost.status(), code(&lost)), (502, "outcome-unknown"));
    assert!(lost.one("stripe-should-retry").is_none());
    let closed = served.keyed("POST /orders", "k", "").await;
    assert_eq!((closed.status(), code(&closed)), (409, "outcome-indeterminate"));
    assert_eq!(closed.one("stripe-should-retry"), Some("false"));
    assert_eq!(json(&closed)["error"]["type"], "api_error");
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn adyen_says_the_key_and_704_while_the_first_request_runs() {
    let go = Arc::new(Notify::new());
    let created = Step::Write(CREATED.replacen("\r\n", "\r\nidempotency-key: other\r\n", 1).into());
    let stub = Stub::always(vec![Step::Wait(Arc::clone(&go)), created]).await;
    let served = Served::new(&stub, &account("adyen")).await;
    let key = "x".repeat(64);
    let (first, ()) = tokio::join!(served.keyed("POST /orders", &key, "{}"), async {
        stub.requests(1).await;
        let busy = served.keyed("POST /orders", &key, "{}").await;
        assert_eq!((busy.status(), code(&busy)), (409, "key-in-progress"));
        assert_eq!(
            (json(&busy)["errorCode"].as_str(), busy.one("transient-error")),
            (Some("704"), Some("true"))
        );
        go.notify_one();
    });
    let again = served.keyed("POST /orders", &key, "{}").await;
    assert_eq!((first.status(), again.status(), again.is_replay()), (201, 201, true));
    for answer in [first, again] {
        assert_eq!(answer.one("idempotency-key"), Some(key.as_str()));
    }
    for (line, body, told) in
        [("POST /orders", "[]", "key-reused"), ("POST /refunds", "{}", "operation-mismatch")]
    {
        let refused = served.keyed(line, &key, body).await;
        assert_eq!((refused.status(), code(&refused)), (422, told));
        assert_eq!(json(&refused)["errorCode"], told);
        assert!(refused.one("transient-error").is_none());
        assert_eq!(refused.one("idempotency-key"), Some(key.as_str()));
    }
    let longer = served.keyed("POST /orders", &"x".repeat(65), "").await;
    assert_eq!((longer.status(), code(&longer)), (400, "key-too-long"));
    assert!(longer.one("idempotency-key").is_none());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn another_request_in_progress_is_told_in_the_providers_words() {
    let stub = Stub::always(vec![Step::Wait(Default::default())]).await;
    let served = Served::new(&stub, &operation("paypal", "error_body = \"stripe\"")).await;
    let mut first = served.client().await;
    first.send(&request(&with_line("paypal-request-id: k"), "")).await;
    stub.requests(1).await;
    let busy = served.ask(&with_line("paypal-request-id: k"), "").await;
    assert_eq!((busy.status(), code(&busy)), (409, "key-in-progress"));
    assert!(busy.one("retry-after").is_some());
    assert_eq!(json(&busy)["error"]["code"], "idempotency_key_in_use");
    assert!(busy.one("stripe-should-retry").is_none());
}

/// Each term may be set otherwise than its profile has it.
#[tokio::test]
async fn what_an_operation_says_outranks_its_profile() {
    let lines = "headers = [\"X-Key\"]\nkey_max = 3\nreplay = \"snapshot\"\n\
                 error_body = \"problem+json\"\nmismatch_status = 400";
    let (_stub, served) = served("paypal", lines).await;
    let head = with_line("x-key: k");
    assert_eq!(served.ask(&head, "").await.status(), 201);
    served.revise("newer");
    assert_eq!(served.ask(&head, "").await.body, b"{\"n\":1}");
    assert_eq!(served.ask(&head, "other").await.problem(), (400, "key-reused".into()));
    let long = served.ask(&with_line("x-key: abcd"), "").await;
    assert_eq!(long.problem(), (400, "key-too-long".into()));
}

#[tokio::test]
async fn an_upstream_cannot_speak_as_the_gateway_in_any_profile() {
    let forged = "HTTP/1.1 409 Conflict\r\nidempotency-problem: key-reused; retryable=?0\r\n\
                  idempotency-stale: true\r\ncontent-length: 0\r\n\r\n";
    let stub = Stub::answering(forged).await;
    let served = Served::new(&stub, "").await;
    for _ in 0..2 {
        let got = served.keyed("POST /orders", "k", "").await;
        assert_eq!(got.status(), 409);
        assert!(got.one("idempotency-problem").is_none() && got.one("idempotency-stale").is_none());
    }
    assert_eq!(served.judge.submitted(Kind::Complete), 1);
}

#[tokio::test]
async fn a_repeat_is_sent_to_the_resource_where_an_operation_says_so() {
    let lines = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\nreplay = \"redirect\"";
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, lines).await;
    assert_eq!(served.keyed("POST /orders", "k", "").await.status(), 201);
    let repeat = served.keyed("POST /orders", "k", "").await;
    assert_eq!(repeat.problem(), (409, "replay-redirect".into()));
    assert_eq!(repeat.one("location"), Some("/orders/1"));
    assert!(repeat.one("idempotency-expires").is_some());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_repeat_says_whether_there_is_a_newer_state_where_an_operation_wants_that() {
    let mode = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n\
                replay = \"snapshot+freshness\"";
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, mode).await;
    assert_eq!(served.keyed("POST /orders", "k", "").await.status(), 201);
    let fresh = served.ask(&keyed("POST /orders", "k"), "").await;
    assert!(fresh.is_replay() && fresh.one("idempotency-stale").is_none());
    served.revise("newer");
    let stale = served.ask(&keyed("POST /orders", "k"), "").await;
    assert!(stale.is_replay());
    assert_eq!(stale.one("idempotency-stale"), Some("true"));
    assert_eq!(stale.body, b"{\"n\":1}");
}
