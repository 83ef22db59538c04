//! The gateway as a part of a process: its bounds and its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::client::{Served, keyed, request};
use super::stub::{PATIENCE, Step, Stub};
use crate::gateway::EXECUTIONS_MAX;

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn more_executions_than_there_is_room_for_are_refused_and_claim_nothing() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    let executions = Arc::clone(&served.gateway.shared.executions);
    let all = executions.acquire_many(EXECUTIONS_MAX).await.unwrap();
    let got = served.keyed("POST /orders", "k", "{}").await;
    assert_eq!(got.problem(), (503, "shard-unavailable".into()));
    assert!(got.one("retry-after").is_some());
    assert!(served.judge.kinds().is_empty() && stub.seen().is_empty());
    drop(all);
    assert_eq!(served.keyed("POST /orders", "k", "{}").await.status(), 201);
}

#[tokio::test]
async fn a_process_whose_clock_is_not_trusted_claims_nothing() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    served.judge.lose_clock();
    let got = served.keyed("POST /orders", "k", "{}").await;
    assert_eq!(got.problem(), (503, "shard-unavailable".into()));
    assert!(served.judge.kinds().is_empty() && stub.seen().is_empty());
}

#[tokio::test]
async fn draining_waits_for_executions_without_their_clients() {
    let go = Arc::new(Notify::new());
    let script = vec![Step::Wait(go.clone()), Step::Write(CREATED.into())];
    let stub = Stub::always(script).await;
    let served = Served::new(&stub, "").await;
    let mut client = served.client().await;
    client.send(&request(&keyed("POST /orders", "k"), "{}")).await;
    stub.requests(1).await;
    client.leave();
    assert!(!served.gateway.drain(Duration::from_millis(20)).await);
    let drained = served.gateway.drain(PATIENCE);
    go.notify_one();
    assert!(timeout(PATIENCE, drained).await.unwrap());
    assert!(served.keyed("POST /orders", "k", "{}").await.is_replay());
}
