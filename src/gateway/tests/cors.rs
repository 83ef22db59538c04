//! What browsers are told about requests of other pages.

use super::client::{Got, Served, keyed};
use super::stub::Stub;

const CORS: &str = "cors = { origins = [\"https://shop.example\", \"http://localhost:3000\"] }\n";

const CREATED: &str = "HTTP/1.1 201 Created\r\naccess-control-allow-origin: *\r\n\
    access-control-allow-credentials: true\r\nvary: accept\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

async fn served() -> (Stub, Served) {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, CORS).await;
    (stub, served)
}

fn allowed(got: &Got) -> Option<&str> {
    got.one("access-control-allow-origin")
}

#[tokio::test]
async fn first_answers_replays_and_problems_say_alike_who_may_read_them() {
    let (_stub, served) = served().await;
    let from = |key: &str, origin: &str| keyed("POST /orders", key) + "\r\norigin: " + origin;
    let first = served.ask(&from("k", "https://shop.example"), "{}").await;
    let replay = served.ask(&from("k", "http://localhost:3000"), "{}").await;
    let problem = served.ask(&from("k", "https://shop.example"), "{\"n\":2}").await;
    assert_eq!((first.status(), replay.status(), problem.status()), (201, 201, 422));
    assert_eq!(replay.one("idempotent-replayed"), Some("true"));
    assert_eq!(allowed(&first), Some("https://shop.example"));
    assert_eq!(allowed(&replay), Some("http://localhost:3000"), "not the first client's origin");
    assert_eq!(allowed(&problem), Some("https://shop.example"));
    for got in [&first, &replay, &problem] {
        let exposed = got.one("access-control-expose-headers").unwrap();
        for name in ["idempotent-replayed", "idempotency-expires", "retry-after", "location"] {
            assert!(exposed.split(',').any(|it| it == name), "{exposed}");
        }
        assert_eq!(got.one("access-control-allow-credentials"), None, "the upstream said so");
    }
    // Nobody else may read anything, though the upstream allows it to everybody.
    let other = served.ask(&from("k", "https://evil.example"), "{}").await;
    assert_eq!((other.status(), allowed(&other)), (201, None));
    let nobody = served
        .ask("POST /orders HTTP/1.1\r\norigin: https://shop.example\r\nidempotency-key: k", "{}")
        .await;
    assert_eq!((nobody.status(), allowed(&nobody)), (401, Some("https://shop.example")));
}

#[tokio::test]
async fn a_preflight_is_answered_here_and_another_options_request_by_the_upstream() {
    let (stub, served) = served().await;
    let ask = "OPTIONS /orders HTTP/1.1\r\norigin: https://shop.example";
    let preflight = format!(
        "{ask}\r\naccess-control-request-method: POST\r\n\
         access-control-request-headers: authorization,idempotency-key"
    );
    let got = served.ask(&preflight, "").await;
    assert_eq!((got.status(), allowed(&got)), (200, Some("https://shop.example")));
    assert_eq!(got.one("access-control-allow-methods"), Some("POST"));
    let headers = got.one("access-control-allow-headers").unwrap();
    assert_eq!(headers, "authorization,idempotency-key");
    assert_eq!(got.one("access-control-max-age"), Some("600"));
    assert_eq!(stub.seen().len(), 0);
    let refused = preflight.replace("shop.example", "evil.example");
    assert_eq!(allowed(&served.ask(&refused, "").await), None);
    let plain = served.ask(ask, "").await;
    assert_eq!((plain.status(), allowed(&plain)), (201, Some("*")), "what the upstream says");
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn without_origins_in_the_policy_the_upstream_speaks_for_itself() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    let passed = "POST /orders HTTP/1.1\r\norigin: https://shop.example";
    let got = served.ask(passed, "{}").await;
    assert_eq!(allowed(&got), Some("*"));
    assert_eq!(got.one("access-control-expose-headers"), None);
}
