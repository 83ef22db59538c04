//! Operations that share their keys: a key belongs to the one that used it first.

use std::sync::Arc;

use tokio::sync::Notify;

use super::client::Served;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";

fn operations(scope: &str) -> String {
    format!(
        "[defaults]\nscope = \"{scope}\"\n\
         [[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n\
         [[operation]]\nmatch = \"POST /orders/{{id}}/cancel\"\nname = \"cancel\"\n"
    )
}

#[tokio::test]
async fn c26_a_key_for_another_operation_is_another_key_or_refused() {
    let (orders, cancel, unlisted) = ("POST /orders", "POST /orders/1/cancel", "POST /other");
    for (scope, others) in [("route", (201, 3)), ("account", (422, 1))] {
        let stub = Stub::answering(CREATED).await;
        let served = Served::new(&stub, &operations(scope)).await;
        assert_eq!(served.keyed(orders, "k", "{}").await.status(), 201);
        for other in [cancel, unlisted] {
            let got = served.keyed(other, "k", "{}").await;
            assert_eq!(got.status(), others.0, "{scope} {other}");
            if others.0 == 422 {
                assert_eq!(got.problem(), (422, "operation-mismatch".into()));
            }
        }
        assert_eq!(stub.seen().len(), others.1, "{scope}");
        let again = served.keyed(orders, "k", "{}").await;
        assert_eq!((again.status(), again.is_replay()), (201, true), "{scope}");
        let reused = served.keyed(orders, "k", "other").await;
        assert_eq!(reused.problem(), (422, "key-reused".into()), "{scope}");
    }
}

#[tokio::test]
async fn the_operation_is_checked_while_the_first_request_runs_and_when_nobody_can_tell() {
    let go = Arc::new(Notify::new());
    let stub = Stub::always(vec![Step::Wait(go.clone()), Step::Reset]).await;
    let served = Served::new(&stub, &operations("account")).await;
    let mismatch = (422, "operation-mismatch".to_owned());
    let (running, ()) = tokio::join!(served.keyed("POST /orders", "k", "{}"), async {
        stub.requests(1).await;
        let got = served.keyed("POST /orders/1/cancel", "k", "{}").await;
        assert_eq!(got.problem(), mismatch);
        go.notify_one();
    });
    assert_eq!(running.status(), 502);
    let got = served.keyed("POST /orders/1/cancel", "k", "{}").await;
    assert_eq!(got.problem(), mismatch);
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_key_that_was_given_back_is_free_for_every_operation() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
    let [busy, created] = [busy, CREATED].map(|answer| vec![Step::Write(answer.into())]);
    let stub = Stub::scripted([busy, created]).await;
    let served = Served::new(&stub, &operations("account")).await;
    assert_eq!(served.keyed("POST /orders", "k", "{}").await.status(), 429);
    assert_eq!(served.keyed("POST /orders/1/cancel", "k", "{}").await.status(), 201);
    let got = served.keyed("POST /orders", "k", "{}").await;
    assert_eq!(got.problem(), (422, "operation-mismatch".into()));
}
