//! Two tenants with one key: whatever became of the one's request, the other's is a new one.

use std::sync::Arc;

use protocol::record::{Record, State};
use protocol::{Command, IdempotencyKey, RecordName, Scope};
use tokio::sync::Notify;

use super::callers::{TRUSTED, trusted};
use super::client::Served;
use super::judge::Kind;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";

/// Runs the same key for a neighbour whose upstream does `script`, and then for `acme`.
async fn beside(script: Vec<Step>) -> (Stub, Served) {
    let stub = Stub::scripted([script, vec![Step::Write(CREATED.into())]]).await;
    let served = Served::new(&stub, TRUSTED).await;
    (stub, served)
}

/// Asserts that `acme` sees a key that nobody has used: another body runs, and is then its own.
async fn assert_untouched(served: &Served, what: &str) {
    let head = trusted("POST /orders", "acme", "k");
    for is_replay in [false, true] {
        let got = served.ask(&head, "mine").await;
        assert_eq!((got.status(), got.is_replay()), (201, is_replay), "{what}");
    }
    assert_eq!(served.ask(&head, "not mine").await.problem(), (422, "key-reused".into()), "{what}");
}

#[tokio::test]
async fn a_neighbours_finished_request_is_nobody_elses() {
    for (script, status, what) in [
        (vec![Step::Write(CREATED.into())], 201, "completed"),
        (vec![Step::Write(BUSY.into())], 429, "released"),
        (vec![Step::Reset], 502, "indeterminate"),
    ] {
        let (_stub, served) = beside(script).await;
        let got = served.ask(&trusted("POST /orders", "other", "k"), "theirs").await;
        assert_eq!(got.status(), status, "{what}");
        assert_untouched(&served, what).await;
    }
}

#[tokio::test]
async fn a_neighbours_running_request_is_nobody_elses() {
    let go = Arc::new(Notify::new());
    let (stub, served) = beside(vec![Step::Wait(go.clone()), Step::Write(CREATED.into())]).await;
    let head = trusted("POST /orders", "other", "k");
    let (running, ()) = tokio::join!(served.ask(&head, "theirs"), async {
        stub.requests(1).await;
        assert_untouched(&served, "in flight").await;
        go.notify_one();
    });
    assert_eq!((running.status(), running.is_replay()), (201, false));
}

#[tokio::test]
async fn a_neighbours_forgotten_request_is_nobody_elses() {
    let (_stub, served) = beside(vec![Step::Write(CREATED.into())]).await;
    let got = served.ask(&trusted("POST /orders", "other", "k"), "theirs").await;
    assert_eq!(got.status(), 201);
    served.judge.until(Kind::Complete, 1).await;
    let Some(Record::Live(done)) = served.judge.record() else { panic!("a completed record") };
    assert!(matches!(done.state, State::Done { .. }));
    let scope = Scope {
        tenant: "other".into(),
        sub_account: Vec::new(),
        credential: None,
        operation: Some("POST /orders".into()),
    };
    let name = RecordName::new(&scope, &IdempotencyKey::from_text("k", 255).unwrap());
    served.judge.decide(Command::Forget { name, fence: done.fence });
    let got = served.ask(&trusted("POST /orders", "other", "k"), "theirs").await;
    assert_eq!(got.status(), 503, "it is being forgotten");
    assert_untouched(&served, "forgotten").await;
}
